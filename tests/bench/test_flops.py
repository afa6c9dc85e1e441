"""The work of a model, counted in the graph of a step."""

import math

import pytest
import tensorflow as tf

from sggnn_tf.bench.flops import Size, least_flops, products
from sggnn_tf.layers import GraphUpdate
from sggnn_tf.models import MODELS, registry
from tests.forests import RELATIONS, forest

NODES, UNITS = 40, 12


def counted(model, switches):
    """The operations of all matrix products of one step, by the shapes in its graph."""
    graph = forest(NODES, UNITS)
    update = registry.node_set_update(model, UNITS, RELATIONS, dict(switches))
    layer = GraphUpdate(node_sets={"node": update})
    layer(graph)
    traced = tf.function(lambda: layer(graph).node_sets["node"]["hidden_state"], autograph=False)
    total = 0
    for node in traced.get_concrete_function().graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            left, right = (tensor.shape.as_list() for tensor in node.inputs)
            if left[-1] == len(RELATIONS) or right[-2] == 2 * len(RELATIONS):
                continue  # Picks the row of a relation.
            if left[0] == len(RELATIONS) and node.type == "MatMul":
                continue  # Of relation vectors: once a forward pass.
            total += 2 * math.prod(left) * right[-1]
    edges = sum(graph.edge_sets[name].total_size.numpy() for name in RELATIONS)
    return total, Size(NODES, int(edges), len(RELATIONS))


@pytest.mark.parametrize("model", MODELS)
def test_the_products_of_a_step_are_those_in_its_graph(model):
    total, size = counted(model, {})
    assert sum(product.flops for product in products(model, size, UNITS)) == total


@pytest.mark.parametrize("switches", [{"message": "reduced", "inner_units": 5}, {"message": "matrix"}])
def test_switches_change_the_work(switches):
    total, size = counted("ggnn", switches)
    assert sum(product.flops for product in products("ggnn", size, UNITS, switches)) == total


def test_a_wider_message():
    total, size = counted("sggnn-rv-gat", {"hidden_units": 20})
    assert sum(product.flops for product in products("sggnn-rv-gat", size, UNITS, {"hidden_units": 20})) == total


@pytest.mark.parametrize(("hidden", "printed"), [(150, 42), (600, 84)])
def test_the_cheapest_form_is_that_of_the_cost_model(hidden, printed):
    nodes, units = 10_000, 150
    size = Size(nodes, 3 * nodes, 7)
    found = least_flops("sggnn-rv-gat", size, units, {"hidden_units": hidden}) / (nodes * units**2)
    assert found == pytest.approx(printed, rel=0.01)


def test_folding_is_not_counted_where_it_does_not_pay():
    size = Size(1000, 500, 7)  # Fewer edges than nodes.
    unfolded = sum(product.flops for product in products("sggnn-rv-gat", size, 150, {"num_heads": 3}))
    assert least_flops("sggnn-rv-gat", size, 150) == unfolded


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_heads_change_the_work(heads):
    total, size = counted("sggnn-rv-gat", {"num_heads": heads})
    assert sum(product.flops for product in products("sggnn-rv-gat", size, UNITS, {"num_heads": heads})) == total
