"""Heads that start on different relations."""

import numpy as np
import pytest

from sggnn_tf.analysis.reach import model_reach
from sggnn_tf.layers import Attention, GatedMessage, GraphUpdate, RelationalNodeSetUpdate, Repeat
from sggnn_tf.layers.initializers import InTurn
from sggnn_tf.layers.updates import SymmetricGRUUpdate
from sggnn_tf.models import build_model
from tests import chains
from tests.forests import RELATIONS, forest

UNITS = 8


def repeat(**options):
    update = RelationalNodeSetUpdate(
        RELATIONS,
        message=GatedMessage(UNITS),
        aggregation=Attention(**options),
        update=SymmetricGRUUpdate(UNITS),
    )
    return Repeat(GraphUpdate(node_sets={"node": update}), 1)


def test_each_head_starts_with_a_relation_of_its_own_in_turn():
    np.testing.assert_array_equal(InTurn(2.0)((2, 3)), [[2, 0, 2], [0, 2, 0]])
    assert InTurn.from_config(InTurn(2.0).get_config()).value == 2.0


@pytest.mark.parametrize("num_heads", [2, 8])  # Keys folded into queries, and not.
def test_the_bias_is_added_to_the_scores(num_heads):
    graph, plain, biased = forest(30, UNITS), repeat(num_heads=num_heads), repeat(num_heads=num_heads, head_bias=1.0)
    for layer in (plain, biased):
        layer(graph)
    of_plain, of_biased = (layer.updates[0].node_set_updates["node"] for layer in (plain, biased))
    for name in ("query_kernel", "key_kernel", "relation_kernel"):
        getattr(of_biased.aggregation, name).assign(getattr(of_plain.aggregation, name))
    for mine, theirs in zip(of_biased.message.weights, of_plain.message.weights, strict=True):
        mine.assign(theirs)
    of_biased.relation_vectors.assign(of_plain.relation_vectors)
    bias = np.random.default_rng(0).normal(size=(len(RELATIONS), num_heads)).astype("float32")
    of_biased.aggregation.head_bias_weight.assign(bias)
    before, after = (layer.edge_weights(graph)[0] for layer in (plain, biased))
    receiver = np.concatenate([graph.edge_sets[name].adjacency.target.numpy() for name in RELATIONS])
    sizes = [len(before[name]) for name in RELATIONS]
    raised = np.concatenate([before[name] for name in RELATIONS]) * np.exp(np.repeat(bias, sizes, axis=0))
    total = np.zeros([30, num_heads])
    np.add.at(total, receiver, raised)
    np.testing.assert_allclose(np.concatenate([after[name] for name in RELATIONS]), raised / total[receiver], rtol=1e-4)


def test_gradients_reach_further_from_the_start():
    graph = chains.merged([[1, 2, 3, 4, 5, 6, 1, 2, 3, 4]])
    options = {"units": 24, "steps": 11, "num_heads": 3, "gate_bias": 3.0, "neighbour_bias": 2.0}
    far = {}
    for bias in (0.0, 2.0):
        model = build_model("sggnn-rv-gat", chains.SCHEMA, head_bias=bias, **options)
        far[bias] = model_reach(model, graph).by_hop[9]
    assert far[2.0] > 10 * far[0.0]
