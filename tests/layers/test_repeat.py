"""The loop: what it takes, and that its gradient works wherever the graph comes from."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import layers
from sggnn_tf.models import registry
from tests.forests import forest


def repeated(relations, name="sggnn-rv-gat", **options):
    update = registry.node_set_update(name, 6, relations, {})
    return layers.Repeat(layers.GraphUpdate(node_sets={"node": update}), 4, **options)


@pytest.mark.parametrize("relations", [["self"], ["self", "child_1"]])
@pytest.mark.parametrize("options", [{}, {"recompute": True}, {"unroll": 3}])
def test_gradients_with_a_graph_that_a_function_captures(relations, options):
    graph, layer = forest(20, 6), repeated(relations, **options)

    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(layer(graph).node_sets["node"]["hidden_state"]))
        return tape.gradient(loss, layer.trainable_variables)

    for found, expected in zip(tf.function(gradients)(), gradients(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_features_beside_the_states_stay():
    graph = forest(20, 6)
    states = graph.node_sets["node"]["hidden_state"]
    graph = graph.replace_features(node_sets={"node": {"hidden_state": states, "id": tf.range(20)}})
    result = repeated(["self"])(graph).node_sets["node"]
    np.testing.assert_array_equal(result["id"], np.arange(20))
    assert np.abs(result["hidden_state"] - states).max() > 0


WRONG = {
    "a layer": (lambda: keras.layers.Dense(2), "not a Dense"),
    "nothing": (lambda: layers.GraphUpdate(), "a GraphUpdate of nothing"),
    "a context": (lambda: layers.GraphUpdate(context=keras.layers.Dense(2)), "more than node sets"),
    "another update": (lambda: layers.GraphUpdate(node_sets={"node": keras.layers.Dense(2)}), r"for \['node'\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_it_refuses_to_repeat(case):
    make, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        layers.Repeat(make(), 3)


def test_parts_of_different_widths():
    with pytest.raises(ValueError, match="the message has 4 units and the update 6"):
        layers.RelationalNodeSetUpdate(
            ["self"], message=layers.GatedMessage(4), aggregation=layers.Mean(), update=layers.GRUUpdate(6)
        )


def test_a_relation_that_arrives_elsewhere_or_is_named_twice():
    with pytest.raises(ValueError, match=r"updates the node set 'other', but the relation 'self' arrives at 'node'"):
        registry.node_set_update("ggnn", 6, ["self"], {})(forest(5, 6), node_set_name="other")
    with pytest.raises(ValueError, match="named twice"):
        registry.node_set_update("ggnn", 6, ["self", "self"], {})
