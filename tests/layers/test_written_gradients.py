"""Gradients that are written out: first and second derivatives are those of the plain form."""

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.layers.aggregations import by_head, folded_scores, softmax_sum
from sggnn_tf.layers.incoming_edges import IncomingEdges
from sggnn_tf.layers.messages import gated_mix
from sggnn_tf.layers.updates import after_reset, mixed_by_softmax

NODES, HEADS, UNITS = 5, 2, 4
SENDER = np.array([0, 1, 4, 4, 2, 0, 3], np.int32)
RECEIVER = np.array([1, 1, 0, 3, 3, 3, 1], np.int32)  # None at 2 and 4.


def edges():
    receiver = tf.constant(RECEIVER)
    return IncomingEdges(
        relations=("only",),
        senders=("node",),
        row_sender=tf.constant(SENDER),
        row_relation=tf.zeros_like(receiver),
        row_sizes=[len(SENDER)],
        edge_sizes=[len(SENDER)],
        edge_row=None,
        receiver=receiver,
        receiver_and_relation=receiver,
        num_receivers=NODES,
    )


def plain_gated_mix(gate_and_update, states):
    gate, update = tf.split(gate_and_update, 2, axis=1)
    return tf.sigmoid(gate) * tf.gather(states, SENDER) + (1.0 - tf.sigmoid(gate)) * update


def plain_mix(shares, *values):
    return tf.reduce_sum(tf.nn.softmax(tf.stack(tf.split(shares, 3, axis=1)), axis=0) * tf.stack(values), axis=0)


def plain_reset(resets, summary, state):
    of_state, of_summary = tf.split(tf.sigmoid(resets), 2, axis=1)
    return tf.concat([summary * of_summary, state * of_state], axis=1)


def plain_scores(queries, messages):
    return tf.einsum("ehd,ed->eh", by_head(tf.gather(queries, RECEIVER), HEADS), messages)


def plain_softmax_sum(scores, values):
    summed = []
    for node in range(NODES):
        places = np.flatnonzero(node == RECEIVER)
        weight = tf.nn.softmax(tf.gather(scores, places), axis=0)
        summed.append(tf.reduce_sum(by_head(tf.gather(values, places), HEADS) * weight[:, :, None], axis=0))
    return tf.reshape(tf.stack(summed), [NODES, UNITS])


CASES = {
    "gated_mix": (
        lambda *x: gated_mix(*x, tf.constant(SENDER)),
        plain_gated_mix,
        [(len(SENDER), 2 * UNITS), (NODES, UNITS)],
    ),
    "mixed_by_softmax": (lambda *x: mixed_by_softmax(*x), plain_mix, [(NODES, 3 * UNITS), *3 * [(NODES, UNITS)]]),
    "after_reset": (
        lambda *x: tf.concat(after_reset(*x), axis=1),
        plain_reset,
        [(NODES, 2 * UNITS), *2 * [(NODES, UNITS)]],
    ),
    "folded_scores": (
        lambda *x: folded_scores(*x, edges()),
        plain_scores,
        [(NODES, HEADS * UNITS), (len(SENDER), UNITS)],
    ),
    "softmax_sum": (
        lambda *x: softmax_sum(*x, edges()),
        plain_softmax_sum,
        [(len(SENDER), HEADS), (len(SENDER), UNITS)],
    ),
}


def derivatives(function, inputs):
    """The values, the gradient of a weighted sum of them, and the gradient of a sum over that gradient."""
    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            values = function(*inputs)
            weights = tf.reshape(tf.range(1.0, tf.size(values, tf.float64) + 1.0, dtype=tf.float64), tf.shape(values))
            total = tf.reduce_sum(values * tf.sin(weights))
        first = [tf.convert_to_tensor(each) for each in inner.gradient(total, inputs)]
        squares = tf.add_n([tf.reduce_sum(each**3) for each in first])
    return [values, *first, *map(tf.convert_to_tensor, outer.gradient(squares, inputs, unconnected_gradients="zero"))]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("name", CASES)
def test_written_gradients_are_those_of_the_plain_form(name, compiled):
    written, plain, shapes = CASES[name]
    random = np.random.default_rng(0)
    inputs = [tf.constant(random.normal(size=shape)) for shape in shapes]
    run = tf.function(derivatives, autograph=False) if compiled else derivatives
    for ours, expected in zip(run(written, inputs), run(plain, inputs), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
