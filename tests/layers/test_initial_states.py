import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.layers.initial_states import InitialStates
from sggnn_tf.models import build_model
from tests import chains


def states(layer, graph, **options):
    return layer(graph, **options).node_sets["char"]["hidden_state"].numpy()


def layer(**options):
    return InitialStates(6, embedding_units=4, node_sets={"char": {"symbol": ("categorical", 7)}}, **options)


@pytest.fixture
def graph():
    return chains.merged([[1, 2, 3, 4, 5]] * 40)


def test_some_nodes_are_hidden_in_training_and_the_others_are_as_they_were(graph):
    made = layer(node_dropout=0.3, seed=1)
    plain, hidden = states(made, graph), states(made, graph, training=True)
    is_hidden = (hidden == 0).all(axis=1)
    assert 0.2 < is_hidden.mean() < 0.4
    np.testing.assert_array_equal(hidden[~is_hidden], plain[~is_hidden])
    assert not (plain == 0).all(axis=1).any()
    again = (states(made, graph, training=True) == 0).all(axis=1)
    assert (again != is_hidden).any()


def test_without_dropout_training_changes_nothing(graph):
    made = layer()
    np.testing.assert_array_equal(states(made, graph), states(made, graph, training=True))


def test_a_file_keeps_the_rate():
    made = layer(node_dropout=0.3, seed=1)
    again = InitialStates.from_config(made.get_config())
    assert (again.node_dropout, again.seed) == (0.3, 1)


def test_embeddings_start_with_the_spread_that_is_asked_for(graph):
    for stddev in (1.0, 0.2):
        made = layer(embedding_stddev=stddev)
        made.embedding_units = 1000
        made(graph)
        assert np.std(made.tables["char/symbol"]) == pytest.approx(stddev, rel=0.05)
        assert InitialStates.from_config(made.get_config()).embedding_stddev == stddev


def test_a_gain_keeps_the_start_and_makes_the_first_step_of_embeddings_larger(graph):
    def after_a_step(gain):
        keras.utils.set_random_seed(1)
        made = layer(embedding_gain=gain)
        before = states(made, graph)
        optimizer = keras.optimizers.SGD(1.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(made(graph).node_sets["char"]["hidden_state"])
        table = made.tables["char/symbol"]
        gradient = tape.gradient(loss, table.value)
        optimizer.apply([tf.sign(tf.convert_to_tensor(gradient))], [table])  # As Adam's first step.
        return before, states(made, graph) - before

    (plain, moved), (same, moved_more) = after_a_step(1.0), after_a_step(4.0)
    np.testing.assert_allclose(plain, same, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved_more, 4.0 * moved, rtol=1e-4, atol=1e-5)
    assert InitialStates.from_config(layer(embedding_gain=4.0).get_config()).embedding_gain == 4.0


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("option", ["embedding_stddev", "embedding_gain"])
def test_a_spread_or_gain_that_is_none_is_refused(option, value):
    with pytest.raises(ValueError, match=f"{option} has to be above 0"):
        layer(**{option: value})


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="node_dropout is at least 0 and below 1"):
        layer(node_dropout=rate)


def test_a_model_passes_it_on_and_trains_with_it(tmp_path):
    model = build_model("sggnn-rv-gat", chains.SCHEMA, units=6, steps=2, node_dropout=0.5)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    model.fit(chains.dataset(), epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    assert keras.saving.load_model(tmp_path / "model.keras").initial_states.node_dropout == 0.5
    graph, _ = chains.batches()[0]
    assert (model(graph, training=True).numpy() != model(graph).numpy()).any()
