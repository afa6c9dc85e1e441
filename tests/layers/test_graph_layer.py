"""The base layer: how it is called, casts, serialises; and what the layers refuse, in words."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import layers, tfgnn
from sggnn_tf.layers import GraphLayer
from tests import graphs


@keras.saving.register_keras_serializable("tests")
class Scale(GraphLayer):
    """Multiplies a node feature by a weight a column; the weight is made for the graph."""

    def __init__(self, node_set_name, feature_name, **kwargs):
        super().__init__(**kwargs)
        self.node_set_name = node_set_name
        self.feature_name = feature_name

    def build(self, graph_spec=None):
        width = graph_spec.node_sets_spec[self.node_set_name][self.feature_name].shape[-1]
        self.scale = self.add_weight(shape=(width,), initializer="ones", name="scale")

    def call(self, graph, factor=1.0, training=None):
        return graph.node_sets[self.node_set_name][self.feature_name] * self.scale * factor

    def get_config(self):
        return {**super().get_config(), "node_set_name": self.node_set_name, "feature_name": self.feature_name}


@pytest.fixture
def graph():
    return graphs.merged([0, 1, 2])


def test_a_graph_by_position_or_keyword(graph):
    layer = Scale("user", "profile")
    profile = graph.node_sets["user"]["profile"]
    np.testing.assert_array_equal(layer(graph), profile)
    np.testing.assert_array_equal(layer(graph=graph), profile)
    np.testing.assert_array_equal(layer(graph, 2.0), 2.0 * profile)
    np.testing.assert_array_equal(layer(graph, factor=2.0, training=True), 2.0 * profile)
    assert layer.scale.shape == (4,)
    assert len(layer.trainable_variables) == 1


def test_arguments_that_do_not_fit(graph):
    with pytest.raises(TypeError, match=r"takes 3 positional arguments \(graph, factor, training\) but 4"):
        Scale("user", "profile")(graph, 1.0, False, "more")
    with pytest.raises(TypeError, match="'graph' twice"):
        Scale("user", "profile")(graph, graph=graph)


def test_it_returns_graphs_and_works_in_functions(graph):
    class AddOne(GraphLayer):
        def call(self, graph):
            profile = graph.node_sets["user"]["profile"]
            return graph.replace_features(node_sets={"user": {"profile": profile + 1.0}})

    layer = AddOne()
    once = tf.function(layer, jit_compile=True)(graphs.batches("graph", padded=True)[0][0])
    assert isinstance(once, tfgnn.GraphTensor)
    np.testing.assert_allclose(layer(graph).node_sets["user"]["profile"], graph.node_sets["user"]["profile"] + 1.0)


def test_it_casts_what_it_sees(graph):
    assert Scale("user", "profile", dtype="mixed_bfloat16")(graph).dtype == tf.bfloat16
    assert Scale("user", "profile", dtype="float64")(graph).dtype == tf.float64
    assert Scale("user", "profile", dtype="float64", autocast=False)
    seen = {}

    class Look(GraphLayer):
        def call(self, graph):
            seen.update(age=graph.node_sets["user"]["age"], since=graph.edge_sets["member"]["since"])
            return graph.context["season"]

    assert Look(dtype="float16")(graph).dtype == tf.float16
    assert {name: value.dtype for name, value in seen.items()} == {"age": tf.int64, "since": tf.float16}
    assert graph.context["season"].dtype == tf.float32


def test_it_serialises(graph):
    layer = Scale("user", "profile", name="my_scale", dtype="mixed_bfloat16")
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()
    np.testing.assert_array_equal(again(graph), layer(graph))


@pytest.mark.parametrize("layer_type", [layers.SingleInputNextState, layers.MakeEmptyFeature, layers.Sum, layers.Mean])
def test_layers_without_arguments_serialise_with_a_policy(layer_type):
    layer = layer_type(dtype=keras.DTypePolicy("mixed_bfloat16"))
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.dtype_policy == layer.dtype_policy


def test_dropout_inside_follows_training(graph):
    update = graphs.update("graph", dropout=0.5)
    mapped = graphs.model().sequence[0](graph)
    results = [update(mapped, training=flag).context["hidden_state"] for flag in (False, False, True)]
    np.testing.assert_array_equal(results[0], results[1])
    assert np.abs(results[0] - results[2]).max() > 0


def conv(**kwargs):
    return layers.SimpleConv(keras.layers.Dense(2), **kwargs)


def next_state():
    return layers.NextStateFromConcat(keras.layers.Dense(2))


def node_update(edge_set_name="follows", **kwargs):
    return layers.NodeSetUpdate({edge_set_name: conv(**kwargs)}, next_state(), node_input_feature="profile")


PROFILE = {"sender_node_feature": "profile", "receiver_feature": "profile"}
WRONG = {
    "an unknown node set": (
        lambda g: layers.GraphUpdate(node_sets={"admin": node_update()})(g),
        r"graph_update.* the node set 'admin', but the graph has 'group', 'user'",
    ),
    "an unknown edge set": (
        lambda g: layers.GraphUpdate(edge_sets={"likes": layers.EdgeSetUpdate(next_state())})(g),
        r"the edge set 'likes', but the graph has 'follows', 'member'",
    ),
    "an unknown edge set in a convolution": (
        lambda g: node_update("likes", **PROFILE)(g, node_set_name="user"),
        r"simple_conv.* the edge set 'likes'",
    ),
    "a missing sender feature": (
        lambda g: node_update()(g, node_set_name="user"),
        r"reads the feature 'hidden_state' of the node set that sends over 'follows', which has 'age', 'profile'",
    ),
    "a missing receiver feature": (
        lambda g: node_update(sender_node_feature="profile")(g, node_set_name="user"),
        r"'hidden_state' of the node set that receives over 'follows'",
    ),
    "a missing edge feature": (
        lambda g: conv(sender_edge_feature="weight", **PROFILE)(g, edge_set_name="follows"),
        r"'weight' of the edge set 'follows', which has none",
    ),
    "a missing context feature": (
        lambda g: layers.ContextUpdate({}, next_state())(g),
        r"'hidden_state' of the context, which has 'season'",
    ),
    "a missing node feature of an edge update": (
        lambda g: layers.EdgeSetUpdate(next_state(), edge_input_feature="since")(g, edge_set_name="member"),
        r"'hidden_state' of the node set 'user'",
    ),
    "a missing feature to pool": (
        lambda g: layers.Pool(tfgnn.CONTEXT, "sum", node_set_name="group")(g),
        r"'hidden_state' of the node set 'group', which has none",
    ),
    "a missing feature to broadcast": (
        lambda g: layers.Broadcast(tfgnn.SOURCE, edge_set_name="member")(g),
        r"'hidden_state' of the node set 'user'",
    ),
    "a missing feature to read": (
        lambda g: layers.Readout(from_context=True)(g),
        r"'hidden_state' of the context",
    ),
    "no readout structure": (
        lambda g: layers.StructuredReadout("seed")(g),
        r"the node set '_readout', but the graph has",
    ),
    "no receiver tag": (lambda g: conv(receiver_tag=None)(g, edge_set_name="follows"), "needs a receiver_tag"),
    "two receiver tags": (
        lambda g: conv()(g, edge_set_name="follows", receiver_tag=tfgnn.SOURCE),
        "made with receiver_tag=1 and called with receiver_tag=0",
    ),
    "no place for a convolution": (lambda g: conv()(g), "needs an edge_set_name"),
    "no place for a convolution to the context": (
        lambda g: conv(receiver_tag=tfgnn.CONTEXT)(g),
        "either an edge_set_name or a node_set_name",
    ),
    "no place to pool": (lambda g: layers.Pool(tfgnn.CONTEXT, "sum")(g), "needs an edge_set_name"),
    "no way to pool": (lambda g: layers.Pool(tfgnn.TARGET, edge_set_name="member")(g), "feature 'since'|reduce_type"),
    "a wrong tag": (lambda g: layers.Pool(7, "sum"), "not 7"),
    "nodes with an edge tag": (
        lambda g: layers.Broadcast(tfgnn.SOURCE, node_set_name="user"),
        "tag SOURCE takes an edge_set_name",
    ),
    "nowhere to read": (lambda g: layers.Readout()(g), "needs one of"),
    "two places to read": (lambda g: layers.Readout(node_set_name="user", from_context=True), "one place"),
    "no key": (lambda g: layers.StructuredReadout()(g), "needs a key"),
    "self loops between node sets": (lambda g: layers.AddSelfLoops("member")(g), "'user' to 'group'"),
    "a residual of another width": (
        lambda g: layers.ResidualNextState(keras.layers.Dense(3))((tf.zeros([5, 4]), {}, {})),
        r"shape \(5, 3\) for a state of shape \(5, 4\)",
    ),
    "no state to add to": (
        lambda g: layers.ResidualNextState(keras.layers.Dense(3))(({"a": tf.zeros([5, 4])}, {}, {})),
        r"'hidden_state', but the updated piece gave \['a'\]",
    ),
    "a name for a single state": (
        lambda g: layers.ResidualNextState(keras.layers.Dense(4), skip_connection_feature_name="a")(
            (tf.zeros([5, 4]), {}, {})
        ),
        "leave the argument out",
    ),
    "two single inputs": (
        lambda g: layers.SingleInputNextState()((tf.zeros([5, 4]), {"a": tf.zeros([5, 4]), "b": tf.zeros([5, 4])}, {})),
        r"exactly one input.*\['a', 'b'\]",
    ),
    "a layer of Keras 2": (
        lambda g: layers.NodeSetUpdate({}, tf.keras.layers.Dense(2)),
        r"next_state.* a Dense\. This is a Keras 2 layer",
    ),
    "no layer at all": (lambda g: layers.GraphUpdate(context="dense"), "has to be a Keras 3 layer, but is a str"),
    "both ways to give updates": (
        lambda g: layers.GraphUpdate(context=next_state(), deferred_init_callback=dict),
        "not both",
    ),
    "saving before the first graph": (
        lambda g: layers.GraphUpdate(deferred_init_callback=dict).get_config(),
        "has not seen a graph yet",
    ),
    "several node features of an edge update": (
        lambda g: layers.EdgeSetUpdate(next_state(), node_input_feature=["a", "b"]),
        "one node feature",
    ),
    "a feature made of nothing": (
        lambda g: layers.MapFeatures(context_fn=lambda context: {"x": tf.zeros([2, 2])})(g),
        r"for the context returned \['x'\], which does not depend on its input",
    ),
    "dropout of another rank": (
        lambda g: [drop := layers.ItemDropout(0.5), drop(tf.zeros([2, 2])), drop(tf.zeros([2, 2, 2]))],
        "rank 2 and called with rank 3",
    ),
    "an update of nodes that receive nothing": (
        lambda g: layers.ConvGNNBuilder(lambda *_, **__: conv(), lambda _: next_state()).Convolve(["bot"])(g),
        r"\['bot'\], but edges arrive only at \['group', 'user'\]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors_say_what_is_wrong(case, graph):
    attempt, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        attempt(graph)


@pytest.mark.parametrize(
    "layer",
    [
        layers.GraphUpdate(),
        layers.MapFeatures(),
        layers.Pool(tfgnn.CONTEXT, "sum", node_set_name="user", feature_name="profile"),
        layers.ReadoutFirstNode(node_set_name="user", feature_name="profile"),
        layers.StructuredReadout("seed"),
        layers.AddSelfLoops("follows"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_batch_that_was_not_merged_is_refused(layer):
    batch = tf.data.Dataset.from_tensors(graphs.graph(0)).repeat(2).batch(2).get_single_element()
    with pytest.raises(ValueError, match=rf"{layer.name} works on a scalar .* \(2,\).*merge_batch_to_components"):
        layer(batch)


def test_map_features_refuses_what_its_first_graph_did_not_have(graph):
    layer = layers.MapFeatures(node_sets_fn=lambda nodes, node_set_name: {}, context_fn=lambda context: {})
    layer(graph)
    renamed = {"name": graph.node_sets["user"]["age"]}
    with pytest.raises(ValueError, match=r"the node set 'user' with the features \['age', 'profile'\].*\['name'\]"):
        layer(graph.replace_features(node_sets={"user": renamed}))
    more = {**graph.node_sets, "bot": graph.node_sets["user"]}
    more = tfgnn.GraphTensor.from_pieces(graph.context, more, graph.edge_sets)
    with pytest.raises(ValueError, match=r"no model for the node set 'bot': its first graph had \['group', 'user'\]"):
        layer(more)
