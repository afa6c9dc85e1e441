"""Every part, switch and way to run it against the paper's equations as printed."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from sggnn_tf.layers import (
    Attention,
    DenseUpdate,
    GatedMessage,
    GraphUpdate,
    GRUUpdate,
    MatrixMessage,
    Mean,
    ReducedMatrixMessage,
    RelationalNodeSetUpdate,
    Repeat,
    RGATNodeSetUpdate,
    Sum,
    SymmetricGRUUpdate,
)
from sggnn_tf.layers.incoming_edges import IncomingEdges
from sggnn_tf.models import MODELS, registry
from tests.layers import oracle
from tests.layers.oracle import STATE, UNITS

MESSAGES = {
    "matrix": functools.partial(MatrixMessage, UNITS),
    "reduced": functools.partial(ReducedMatrixMessage, UNITS, inner_units=3),
    "gated": functools.partial(GatedMessage, UNITS),
}
AGGREGATIONS = {"sum": Sum, "mean": Mean, "attention": Attention}
UPDATES = {
    "gru": functools.partial(GRUUpdate, UNITS),
    "sgru": functools.partial(SymmetricGRUUpdate, UNITS),
    "dense": functools.partial(DenseUpdate, UNITS),
}
GRAPHS = {
    "chain": lambda: oracle.chain(5),
    "tree": oracle.tree,
    "two node sets": oracle.multigraph,
    "three node sets": lambda: oracle.multigraph("abc", seed=1),
    "more edges than senders": lambda: oracle.multigraph(many=True, seed=2),
    "batch with empty graphs": lambda: oracle.chain(0, 3, 0, 1, 4, 0),
    "empty graphs only": lambda: oracle.multigraph(sizes=(0, 0)),
    "isolated nodes only": lambda: oracle.multigraph(sizes=(1, 1)),
}
SWITCHES = {"rgat": {"normaliser": "softmax"}}
COMBINATIONS = list(itertools.product(MESSAGES, AGGREGATIONS, UPDATES))
# The message, aggregation and update, and switches of these.
PART_SWITCHES = [
    ("gated", "attention", "sgru", {"message__hidden_units": 4 * UNITS}),
    ("gated", "mean", "sgru", {"message__gate_bias": 3.0}),
    ("gated", "attention", "sgru", {"update__neighbour_bias": 2.0}),
    ("gated", "attention", "sgru", {"update__candidate_bias": True}),
    ("gated", "attention", "sgru", {"update__layer_norm": True}),
    ("matrix", "sum", "gru", {"update__candidate_bias": True}),
    ("matrix", "mean", "gru", {"update__layer_norm": True, "update__candidate_bias": True}),
    ("gated", "attention", "gru", {"aggregation__value_projection": True}),
    ("gated", "attention", "sgru", {"aggregation__num_heads": 1}),
    ("matrix", "attention", "dense", {"aggregation__num_heads": 4}),
    ("gated", "attention", "sgru", {"aggregation__num_heads": 4, "aggregation__value_projection": True}),
    ("reduced", "sum", "gru", {"message__skip": True}),
    ("reduced", "attention", "sgru", {"message__skip": True, "message__relation_fans": "whole_tensor"}),
    ("matrix", "attention", "sgru", {"message__relation_fans": "whole_tensor"}),
    ("matrix", "mean", "dense", {"update__activation": "tanh"}),
    ("matrix", "mean", "dense", {"update__activation": "softplus"}),
]
MODEL_SWITCHES = [
    ("ggnn", {"aggregation": "sum"}),
    ("ggnn", {"aggregation": "mean"}),
    ("rgcn", {"message": "reduced", "inner_units": 5}),
    ("rgat", {"num_heads": 1}),
    ("rgat", {"num_heads": 4, "activation": "relu"}),
    ("rgat", {"relation_fans": "whole_tensor", "activation": "tanh"}),
]
REPEATS = [
    {"steps": 1},
    {"steps": 3},
    {"steps": 5, "unroll": 2},
    {"steps": 2, "unroll": 3},
    {"steps": 3, "recompute": True},
    {"steps": 3, "shared": False},
]


@pytest.fixture(params=["float64", "float32"])
def precision(request):
    """The precision that layers compute in from here on, and the greatest difference that is allowed."""
    keras.config.set_dtype_policy(request.param)
    return request.param, {"float64": 1e-10, "float32": 1e-5}[request.param]


@pytest.fixture
def float64():
    keras.config.set_dtype_policy("float64")
    return "float64"


def relational(message="gated", aggregation="attention", update="sgru", receiver_tag=tfgnn.TARGET, **switches):
    """`make(relations)` of an update with these parts; `message__skip=True` is a switch of the message."""

    def options(part):
        return {key.removeprefix(f"{part}__"): value for key, value in switches.items() if key.startswith(f"{part}__")}

    return lambda relations: RelationalNodeSetUpdate(
        relations,
        message=MESSAGES[message](**options("message")),
        aggregation=AGGREGATIONS[aggregation](**options("aggregation")),
        update=UPDATES[update](**options("update")),
        receiver_tag=receiver_tag,
    )


def model(name, **switches):
    return lambda relations: registry.node_set_update(name, UNITS, relations, {**SWITCHES.get(name, {}), **switches})


@functools.cache
def case(graph, dtype):
    """A graph as the oracle reads it and as layers do."""
    typed = GRAPHS[graph]()
    return typed, oracle.graph_tensor(*typed, dtype)


def relaxed_spec(graph):
    return graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)


def assert_like_oracle(make, typed, graph, tolerance=1e-10, *, relaxed=False, after_one_update=False, **repeat):
    """Compares the states of all node sets after the steps of a `Repeat`.

    Args:
      make: `make(relations)` makes the update of a node set.
      typed, graph: the same graph twice, for the oracle and for the layer.
      relaxed: whether to run in a `tf.function` that does not know the sizes of the graph.
      after_one_update: whether to call the `GraphUpdate` by itself first.
      **repeat: the arguments of the `Repeat`.
    """
    update = oracle.graph_update(typed[0], make)
    layer = Repeat(update, **repeat)
    oracle.build(layer.updates)
    function = tf.function(layer, input_signature=[relaxed_spec(graph)]) if relaxed else layer
    got = oracle.states_of(function(update(graph) if after_one_update else graph))
    steps = layer.updates if len(layer.updates) > 1 else [update] * (repeat["steps"] + after_one_update)
    for name, expected in oracle.run(steps, *typed, oracle.states_of(graph)).items():
        assert got[name].shape == expected.shape
        assert np.isfinite(got[name]).all()
        assert np.abs(got[name] - expected).max(initial=0.0) <= tolerance, name


@pytest.mark.parametrize(("message", "aggregation", "update"), COMBINATIONS)
def test_parts(message, aggregation, update, precision):
    dtype, tolerance = precision
    make = relational(message, aggregation, update)
    assert_like_oracle(make, *case("more edges than senders", dtype), tolerance, steps=3, after_one_update=True)


@pytest.mark.parametrize(("message", "aggregation", "update", "switches"), PART_SWITCHES)
def test_switches_of_parts(message, aggregation, update, switches, precision):
    dtype, tolerance = precision
    make = relational(message, aggregation, update, **switches)
    assert_like_oracle(make, *case("two node sets", dtype), tolerance, steps=2)


@pytest.mark.parametrize(("name", "switches"), MODEL_SWITCHES)
def test_switches_of_models(name, switches, precision):
    dtype, tolerance = precision
    assert_like_oracle(model(name, **switches), *case("two node sets", dtype), tolerance, steps=3)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs(name, graph, float64):
    assert_like_oracle(model(name), *case(graph, float64), steps=2)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("repeat", REPEATS, ids=str)
def test_repeat(name, repeat, float64):
    assert_like_oracle(model(name), *case("chain", float64), **repeat)


@pytest.mark.parametrize(("name", "recompute"), [*((name, False) for name in MODELS), ("sggnn-rv-gat", True)])
def test_unknown_sizes(name, recompute, float64):
    graph = case("more edges than senders", float64)
    assert_like_oracle(model(name), *graph, relaxed=True, steps=3, recompute=recompute)


@pytest.mark.parametrize("kind", ["relational", "rgat"])
def test_edges_read_backwards(kind, float64):
    def make(relations):
        if kind == "relational":
            return relational(receiver_tag=tfgnn.SOURCE)(relations)
        return RGATNodeSetUpdate(UNITS, relations, normaliser="softmax", receiver_tag=tfgnn.SOURCE)

    (ends, pieces), graph = case("more edges than senders", float64)
    turned_ends = {name: (target, source) for name, (source, target) in ends.items()}
    turned = [
        each._replace(pairs={name: [(t, s) for s, t in pairs] for name, pairs in each.pairs.items()}) for each in pieces
    ]
    assert_like_oracle(make, (turned_ends, turned), graph, steps=2)


@pytest.mark.parametrize("name", MODELS)
def test_node_set_without_relations(name, float64):
    (_, pieces), graph = case("two node sets", float64)
    update = GraphUpdate(node_sets={"a": model(name)([])})
    got = update(graph).node_sets["a"][STATE]
    expected = oracle.run([update], {}, pieces, oracle.states_of(graph))["a"]
    assert np.abs(got - expected).max() <= 1e-10


def test_rows_are_shared_where_sizes_are_known():
    _, graph = case("more edges than senders", "float32")

    def edge_row(graph):
        relations = [name for name in graph.edge_sets if name in ("b_to_a", "many")]
        return IncomingEdges.from_graph(graph, "a", relations, tfgnn.TARGET, "test").edge_row

    is_shared = []
    trace = tf.function(lambda graph: is_shared.append(edge_row(graph) is not None))
    trace.get_concrete_function(graph.spec)
    trace.get_concrete_function(relaxed_spec(graph))
    assert is_shared == [True, False]
    assert edge_row(graph) is not None
    assert edge_row(case("two node sets", "float32")[1]) is None


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_ratio_of_positive_scores(num_heads, precision):
    """With positive states and weights all scores are positive, also in later steps."""

    def make(relations):
        layer = RGATNodeSetUpdate(UNITS, relations, num_heads=num_heads)
        layer.build()
        for weight in layer.weights:
            weight.assign(np.abs(weight) / 2 + 0.2)
        return layer

    dtype, tolerance = precision
    (ends, pieces), _ = case("more edges than senders", dtype)
    positive = [
        each._replace(features={name: {STATE: np.abs(values[STATE])} for name, values in each.features.items()})
        for each in pieces
    ]
    assert_like_oracle(make, (ends, positive), oracle.graph_tensor(ends, positive, dtype), tolerance, steps=3)


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_ratio_of_signed_scores(num_heads, precision):
    """One step; compared where the sum of the scores is not near zero, and finite elsewhere."""
    dtype, tolerance = precision
    (ends, pieces), graph = case("two node sets", dtype)
    update = oracle.graph_update(ends, model("rgat", normaliser="ratio", num_heads=num_heads))
    got = oracle.states_of(update(graph))
    states, checked = oracle.states_of(graph), 0
    for name, expected in oracle.run([update], ends, pieces, states).items():
        layer = update.node_set_updates[name]
        incoming = oracle.edges_into(name, ends, pieces, len(expected))
        for v, edges in enumerate(incoming):
            scores = oracle.rgat_scores(layer, oracle.weights(layer), states, states[name][v], edges)
            good = np.abs(scores.sum(axis=0)) >= 0.2 * np.abs(scores).sum(axis=0)
            units = np.repeat(good, UNITS // num_heads)
            assert np.abs(got[name][v] - expected[v])[units].max(initial=0.0) <= tolerance
            checked += len(edges) > 1 and good.any()
        assert np.isfinite(got[name]).all()
    assert checked >= 4


def test_initial_values_of_switches():
    layer = relational(message__gate_bias=3.0, update__neighbour_bias=2.0)(["r"])
    layer.build()
    bound = 1 / np.sqrt(UNITS)
    assert np.abs(layer.message.gate_bias_weight - 3.0).max() <= bound
    by_gate = np.reshape(layer.update.gate_bias, [5, UNITS])
    assert np.abs(by_gate - [[0.0], [0.0], [2.0], [0.0], [0.0]]).max() <= bound


@pytest.mark.parametrize(("fans", "squared"), [("per_matrix", 6 / (2 * UNITS)), ("whole_tensor", 12 / (11 * UNITS))])
def test_initial_relation_matrices(fans, squared):
    """The bounds of Glorot and, for `[3, D, D]` as a whole, of fans D * D and 3 * D with the gain of a ReLU."""
    message = MatrixMessage(UNITS, relation_fans=fans)
    message.build(3)
    assert 0.9 * squared**0.5 <= np.abs(message.kernel).max() <= squared**0.5
