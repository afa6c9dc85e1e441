import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.layers import Attention, GatedMessage, GraphUpdate, Mean, RelationalNodeSetUpdate, Repeat, Sum
from sggnn_tf.layers.rgat import RGATNodeSetUpdate
from sggnn_tf.layers.updates import SymmetricGRUUpdate
from tests.forests import RELATIONS, forest

UNITS = 6


def repeat(aggregation, shared=True):
    update = RelationalNodeSetUpdate(
        RELATIONS,
        message=GatedMessage(UNITS),
        aggregation=aggregation,
        update=SymmetricGRUUpdate(UNITS),
    )
    return Repeat(GraphUpdate(node_sets={"node": update}), 3, shared=shared)


def receivers(graph, weights):
    """The receiver and the weight of all edges."""
    receiver = np.concatenate([graph.edge_sets[name].adjacency.target.numpy() for name in weights])
    return receiver, np.concatenate([each.numpy() for each in weights.values()])


@pytest.mark.parametrize("num_heads", [1, 2, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_attention_of_a_node_sums_to_one(num_heads, shared):
    graph, layer = forest(30, UNITS), repeat(Attention(num_heads), shared)
    layer(graph)
    steps = layer.edge_weights(graph)
    assert len(steps) == 3
    for weights in steps:
        assert list(weights) == list(RELATIONS)
        receiver, weight = receivers(graph, weights)
        assert weight.shape == (len(receiver), num_heads)
        assert weight.min() >= 0
        for head in range(num_heads):
            np.testing.assert_allclose(np.bincount(receiver, weight[:, head]), 1, rtol=1e-5)
    assert np.abs(receivers(graph, steps[0])[1] - receivers(graph, steps[2])[1]).max() > 1e-6


def test_mean_and_sum_have_the_weights_they_multiply_by():
    graph = forest(30, UNITS)
    mean, total = repeat(Mean()), repeat(Sum())
    for layer in (mean, total):
        layer(graph)
    receiver, weight = receivers(graph, mean.edge_weights(graph)[0])
    np.testing.assert_allclose(weight[:, 0], 1 / np.bincount(receiver)[receiver], rtol=1e-6)
    assert (receivers(graph, total.edge_weights(graph)[0])[1] == 1).all()


@pytest.mark.parametrize("aggregation", [Attention(2), Attention(3), Mean(), Sum()])
def test_weights_are_those_of_the_summary(aggregation):
    graph, layer = forest(30, UNITS), repeat(aggregation)
    layer(graph)
    update = layer.updates[0].node_set_updates["node"]
    prepared = update.prepare(graph, "node", training=False)
    state = graph.node_sets["node"]["hidden_state"]
    rows = update.message.rows(state, prepared.edges, prepared.weights["message"])
    expected = aggregation.summary(rows, state, prepared.edges, prepared.weights["aggregation"])
    weight = update.edge_weights({"node": state}, "node", prepared).numpy()
    messages = prepared.edges.at_edges(rows).numpy()
    heads = weight.shape[1]
    weighted = weight[:, :, None] * messages.reshape(len(messages), heads, UNITS // heads)
    found = np.zeros([30, UNITS])
    np.add.at(found, prepared.edges.receiver.numpy(), weighted.reshape(len(messages), UNITS))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("normaliser", ["softmax", "ratio"])
def test_rgat_has_weights_too(normaliser):
    graph = forest(30, UNITS)
    layer = Repeat(
        GraphUpdate(node_sets={"node": RGATNodeSetUpdate(UNITS, RELATIONS, normaliser=normaliser)}), 2, shared=False
    )
    layer(graph)
    receiver, weight = receivers(graph, layer.edge_weights(graph)[1])
    np.testing.assert_allclose(np.bincount(receiver, weight[:, 0]), 1, rtol=1e-3)


def test_the_steps_walk_through_the_states_of_the_layer():
    graph, layer = forest(30, UNITS), repeat(Attention(2))
    after = layer(graph)
    once = Repeat(layer.updates[0], 1)
    for _ in range(2):
        graph = once(graph)
    expected, found = once.edge_weights(graph)[0], layer.edge_weights(forest(30, UNITS))[2]
    for name in RELATIONS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        tf.convert_to_tensor(once(graph).node_sets["node"]["hidden_state"]),
        after.node_sets["node"]["hidden_state"],
        rtol=1e-5,
        atol=1e-6,
    )
