import numpy as np
import pytest
import tensorflow as tf

from tests.layers.parity import OURS, THEIRS, assert_parity, batched_graph, make_graph, random_graph

SIDES = pytest.mark.parametrize("side", [THEIRS, OURS], ids=["theirs", "ours"])


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("make_graph", [make_graph, random_graph])
def test_add_self_loops(make_graph, traced):
    assert_parity(lambda layers, k: layers.AddSelfLoops("cites"), make_graph(), traced=traced)


@SIDES
def test_add_self_loops_refuses_edges_between_node_sets(side):
    layers, _ = side
    with pytest.raises(ValueError, match=r"writes.*author"):
        layers.AddSelfLoops("writes")(make_graph())


@pytest.mark.parametrize("piece", [lambda g: g.context, lambda g: g.node_sets["topic"], lambda g: g.edge_sets["cites"]])
@pytest.mark.parametrize("make_graph", [make_graph, batched_graph])
@pytest.mark.parametrize("kwargs", [{}, {"dtype": "float64"}, {"dtype": tf.float16}], ids=str)
def test_make_empty_feature(piece, make_graph, kwargs):
    assert_parity(lambda layers, k: layers.MakeEmptyFeature(**kwargs), piece(make_graph()))


@SIDES
@pytest.mark.parametrize("shape", [[2000], [2000, 3], [2000, 3, 2]])
def test_item_dropout_drops_whole_items_in_training(side, shape):
    layers, _ = side
    rate = 0.25
    inputs = tf.Variable(tf.random.stateless_uniform(shape, seed=[0, 0], minval=0.5))
    dropout = layers.ItemDropout(rate, seed=1)
    with tf.GradientTape() as tape:
        outputs = dropout(inputs, training=True)
    scales = outputs / inputs
    np.testing.assert_allclose(tape.gradient(outputs, inputs), scales, rtol=1e-6)
    items = np.reshape(scales, [shape[0], -1])
    np.testing.assert_allclose(items, items[:, :1].repeat(items.shape[1], axis=1), rtol=1e-6)
    kept = items[:, 0] > 0
    np.testing.assert_allclose(items[kept], 1 / (1 - rate), rtol=1e-6)
    standard_error = np.sqrt(rate * (1 - rate) / shape[0])
    assert abs(np.mean(~kept) - rate) < 4 * standard_error
    assert not np.array_equal(outputs, dropout(inputs, training=True))


@pytest.mark.parametrize("kwargs", [{}, {"training": False}])
def test_item_dropout_changes_nothing_in_inference(kwargs):
    assert_parity(
        lambda layers, k: layers.ItemDropout(0.5),
        make_graph().node_sets["paper"]["embedding"],
        lambda layer, inputs: layer(inputs, **kwargs),
    )
