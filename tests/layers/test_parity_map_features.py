import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from tests.layers.parity import OURS, STATE, THEIRS, assert_parity, make_graph, random_graph, readout_graph

GRAPH = make_graph()
OTHER_SIZES = {"paper": (2, 6), "author": (0, 1), "topic": (3, 0)}


def initial_states(layers, k):
    """What models do with MapFeatures: a state for everything, an empty one for what has no feature."""

    def context_fn(context):
        return k.layers.Dense(3, "relu", name="context")(context["mood"])

    def node_sets_fn(node_set, *, node_set_name):
        if node_set_name == "topic":
            return layers.MakeEmptyFeature()(node_set)
        if node_set_name == "author":
            return k.layers.Dense(3, name="author")(node_set[STATE])
        features = node_set.get_features_dict()
        year = k.layers.Embedding(7, 3, name="year")(features.pop("year"))
        venue = k.layers.StringLookup(vocabulary=["ICML", "KDD"])(features.pop("venue"))
        venue = k.layers.Embedding(3, 2, name="venue")(venue)
        dense = k.layers.Dense(3, "relu", name="paper")
        return {"old": features[STATE], STATE: dense(k.layers.Concatenate()([*features.values(), year, venue]))}

    def edge_sets_fn(edge_set, *, edge_set_name):
        if edge_set_name == "writes":
            return None
        if not edge_set.features:
            return layers.MakeEmptyFeature()(edge_set)
        return {
            f"new_{name}": k.layers.Dense(2, name=f"{edge_set_name}_{name}")(value)
            for name, value in edge_set.features.items()
        }

    return layers.MapFeatures(context_fn, node_sets_fn, edge_sets_fn)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("make_graph", [make_graph, random_graph])
def test_map_features(make_graph, traced):
    assert_parity(initial_states, make_graph(), traced=traced)


def test_map_features_keeps_the_precision_of_what_it_leaves_alone():
    graph = GRAPH.replace_features(
        node_sets={"paper": {**GRAPH.node_sets["paper"].features, STATE: tf.ones([9, 4], tf.float64)}},
        edge_sets={"writes": {"weight": tf.ones([GRAPH.edge_sets["writes"].total_size, 2], tf.float16)}},
    )
    assert_parity(initial_states, graph)


def test_map_features_on_another_graph_than_the_first():
    assert_parity(initial_states, GRAPH, first_inputs=make_graph(seed=1, sizes=OTHER_SIZES))


def test_map_features_of_some_pieces_only():
    def make(layers, k):
        return layers.MapFeatures(
            edge_sets_fn=lambda edge_set, *, edge_set_name: dict(list(edge_set.features.items())[:1])
        )

    assert_parity(make, GRAPH)


def test_map_features_may_remove_all_features():
    def make(layers, k):
        return layers.MapFeatures(
            context_fn=lambda context: {},
            node_sets_fn=lambda node_set, *, node_set_name: {},
            edge_sets_fn=lambda edge_set, *, edge_set_name: {},
        )

    assert_parity(make, GRAPH)


def test_map_features_may_share_weights():
    def make(layers, k):
        shared = k.layers.Dense(3, name="shared")

        def node_sets_fn(node_set, *, node_set_name):
            return None if node_set_name == "topic" else shared(node_set[STATE])

        return layers.MapFeatures(context_fn=lambda context: shared(context[STATE]), node_sets_fn=node_sets_fn)

    assert_parity(make, GRAPH)


@pytest.mark.parametrize("feature", ["venue", "year"])
def test_map_features_hashes_alike(feature):
    def make(layers, k):
        def node_sets_fn(node_set, *, node_set_name):
            return k.layers.Hashing(5)(node_set[feature]) if node_set_name == "paper" else None

        return layers.MapFeatures(node_sets_fn=node_sets_fn)

    assert_parity(make, GRAPH)


def empty_features(layers, k, **kwargs):
    def fn(piece, **set_name):
        return {"made": layers.MakeEmptyFeature(dtype="float16")(piece)}

    return layers.MapFeatures(fn, fn, fn, **kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"allowed_aux_node_sets_pattern": r"_readout"},
        {"allowed_aux_node_sets_pattern": r"_read", "allowed_aux_edge_sets_pattern": r"_readout/mixed/.*"},
        {"allowed_aux_node_sets_pattern": r".*", "allowed_aux_edge_sets_pattern": r".*"},
    ],
)
def test_map_features_of_auxiliary_sets(kwargs):
    assert_parity(lambda layers, k: empty_features(layers, k, **kwargs), readout_graph())


def test_map_features_leaves_auxiliary_sets_alone_that_the_first_graph_did_not_have():
    assert_parity(empty_features, readout_graph(), first_inputs=GRAPH)


def test_map_features_with_ragged_features():
    rows = int(GRAPH.node_sets["author"].total_size)
    tags = tf.RaggedTensor.from_row_lengths(tf.range(2 * rows) % 5, [1, 3, *[2] * (rows - 2)])
    scores = tags.with_values(tf.random.stateless_normal([2 * rows], seed=[0, 0]))

    def make(layers, k):
        def node_sets_fn(node_set, *, node_set_name):
            if node_set_name != "author":
                return None
            embedded = k.layers.Embedding(5, 3, name="tags")(node_set["tags"])
            return {"scores": node_set["scores"], "all": embedded, "mean": k.layers.GlobalAveragePooling1D()(embedded)}

        return layers.MapFeatures(node_sets_fn=node_sets_fn)

    assert_parity(make, GRAPH.replace_features(node_sets={"author": {"tags": tags, "scores": scores}}))


@pytest.mark.parametrize("side", [THEIRS, OURS], ids=["theirs", "ours"])
@pytest.mark.parametrize(
    "changed",
    [
        lambda graph: graph.replace_features(context={**graph.context.features, "unseen": graph.context["mood"]}),
        lambda graph: graph.remove_features(node_sets={"paper": ["embedding"]}),
        lambda graph: tfgnn.GraphTensor.from_pieces(
            context=graph.context,
            node_sets={**graph.node_sets, "unseen": graph.node_sets["topic"]},
            edge_sets=graph.edge_sets,
        ),
    ],
)
def test_map_features_refuses_a_graph_of_another_kind(side, changed):
    layer = initial_states(*side)
    layer(GRAPH)
    with pytest.raises((ValueError, KeyError), match=r"unseen|embedding"):
        layer(changed(GRAPH))
