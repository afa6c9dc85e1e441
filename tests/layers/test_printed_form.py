"""The form that is computed and the form that is printed are the same mathematics."""

import numpy as np
import tensorflow as tf

from sggnn_tf.layers import Attention, GatedMessage, GraphUpdate, RelationalNodeSetUpdate, Repeat, SymmetricGRUUpdate
from tests.forests import RELATIONS, forest
from tests.printed_form import PrintedUpdate


def repeated(update_type, units=12, steps=4, hidden_units=None, **options):
    update = update_type(
        RELATIONS,
        message=GatedMessage(units, hidden_units=hidden_units),
        aggregation=Attention(num_heads=2),
        update=SymmetricGRUUpdate(units),
    )
    return Repeat(GraphUpdate(node_sets={"node": update}), steps, **options)


def result_and_gradients(layer, graph):
    with tf.GradientTape() as tape:
        states = layer(graph).node_sets["node"]["hidden_state"]
        loss = tf.reduce_sum(tf.sin(states))
    return states, tape.gradient(loss, layer.trainable_variables)


def test_both_forms_agree():
    graph = forest(60, 12)
    fast, printed = repeated(RelationalNodeSetUpdate, hidden_units=20), repeated(PrintedUpdate, hidden_units=20)
    fast(graph), printed(graph)
    printed.set_weights(fast.get_weights())
    (states, gradients), (expected, expected_gradients) = (
        result_and_gradients(layer, graph) for layer in (fast, printed)
    )
    np.testing.assert_allclose(states, expected, atol=1e-5)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4)
