"""Training: the same numbers with and without XLA, with and without padding, and through every door of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import GraphSequential
from tests import graphs

METRICS = ("accuracy", "sparse_categorical_crossentropy")


def compiled(label="graph", dropout=0.0, optimizer="adam", metrics=METRICS, loss=None, **kwargs):
    model = graphs.model(label, dropout)
    model.compile(optimizer, loss or graphs.loss(), metrics=list(metrics), **kwargs)
    return model


def history(model, data, epochs=5, **kwargs):
    return model.fit(data, epochs=epochs, verbose=0, **kwargs).history


@pytest.mark.parametrize("label", ["graph", "node"])
def test_xla_gives_the_same_losses(label):
    data = graphs.dataset(label)
    with_xla = history(compiled(label, jit_compile=True), data, validation_data=data)
    without = history(compiled(label, jit_compile=False), data, validation_data=data)
    assert with_xla.keys() == without.keys()
    for name, values in with_xla.items():
        np.testing.assert_allclose(values, without[name], atol=1e-4, err_msg=name)
    assert with_xla["loss"][-1] < with_xla["loss"][0]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_step_is_traced_once(jit_compile):
    traces = []

    class Counted(GraphSequential):
        def train_step(self, data):
            traces.append("train")
            return super().train_step(data)

    model = Counted(graphs.model().sequence)
    model.compile("adam", graphs.loss(), metrics=["accuracy"], jit_compile=jit_compile)
    data = graphs.dataset()
    model.fit(data, epochs=3, verbose=0)
    assert traces == ["train"]
    model.fit(data, epochs=2, verbose=0)
    assert traces == ["train"]


@pytest.mark.parametrize("label", ["graph", "node"])
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
def test_padding_changes_no_number(label, reduction):
    loss = graphs.loss(reduction=reduction)
    padded, plain = graphs.dataset(label), graphs.dataset(label, padded=False)
    with_padding = history(compiled(label, loss=loss), padded, validation_data=padded)
    without = history(compiled(label, loss=loss), plain, validation_data=plain)
    for name, values in with_padding.items():
        np.testing.assert_allclose(values, without[name], rtol=1e-6, atol=1e-6, err_msg=name)


def test_the_epoch_loss_is_the_mean_over_all_items():
    model = compiled("node")
    losses, count = 0.0, 0
    for graph, labels in graphs.batches("node", padded=False):
        values = keras.losses.sparse_categorical_crossentropy(labels, model(graph), from_logits=True)
        losses, count = losses + float(tf.reduce_sum(values)), count + len(values)
    found = model.evaluate(graphs.dataset("node"), return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx(losses / count, rel=1e-6)
    assert found["sparse_categorical_crossentropy"] != pytest.approx(found["loss"])  # That one reads probabilities.


@pytest.mark.parametrize("loss", ["mse", keras.losses.mean_squared_error, keras.losses.MeanSquaredError()])
def test_a_loss_by_name_function_or_object_is_averaged_by_weight(loss):
    model = compiled(loss=loss, metrics=[])
    graph, _, weights = graphs.batches("graph", padded=True)[0]
    targets = 2.0 * graph.context["season"][:, :2]
    found = model.test_on_batch(graph, targets, weights)
    errors = tf.reduce_mean((model(graph) - targets) ** 2, axis=1)
    assert found == pytest.approx(float(tf.reduce_sum(errors * weights) / tf.reduce_sum(weights)), rel=1e-6)


def test_the_users_loss_object_stays_as_it_is():
    loss = graphs.loss()
    compiled(loss=loss)
    assert loss.reduction == "sum_over_batch_size"


def test_a_loss_chosen_by_shapes_is_refused():
    with pytest.raises(ValueError, match="sparse_categorical_crossentropy"):
        compiled(loss="crossentropy")


@pytest.mark.parametrize("jit_compile", [False, True])
def test_class_weights_multiply_sample_weights(jit_compile):
    def weighed():
        for graph, labels, weights in graphs.batches("node", padded=True):
            yield graph, labels, weights * tf.where(labels == 1, 3.0, 0.5)

    data = graphs.dataset("node")
    weighed_data = tf.data.Dataset.from_generator(weighed, output_signature=data.element_spec)
    by_class = history(compiled("node", jit_compile=jit_compile), data, class_weight={0: 0.5, 1: 3.0})
    by_sample = history(compiled("node", jit_compile=jit_compile), weighed_data)
    np.testing.assert_allclose(by_class["loss"], by_sample["loss"], rtol=1e-6)
    plain = compiled("node", jit_compile=jit_compile)
    before = plain.evaluate(data, return_dict=True, verbose=0)["accuracy"]
    plain.optimizer.learning_rate = 0.0
    assert history(plain, data, 1, class_weight={1: 3.0})["accuracy"] == [pytest.approx(before)]  # Metrics: unweighed.


def test_class_weights_of_one_hot_labels_and_of_a_second_fit():
    graph, labels, weights = graphs.batches("node", padded=True)[0]
    model = compiled("node", loss=keras.losses.CategoricalCrossentropy(from_logits=True), metrics=[], optimizer="sgd")
    model.optimizer.learning_rate = 0.0
    one_hot = tf.one_hot(labels, 2)
    weighed = model.train_on_batch(graph, one_hot, weights, class_weight={0: 5.0})
    values = keras.losses.categorical_crossentropy(one_hot, model(graph), from_logits=True)
    loss_weights = weights * tf.where(labels == 0, 5.0, 1.0)
    assert weighed == pytest.approx(float(tf.reduce_sum(values * loss_weights) / tf.reduce_sum(loss_weights)), rel=1e-6)
    assert model.train_on_batch(graph, one_hot, weights) != pytest.approx(weighed)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_steps_per_execution(jit_compile):
    data = graphs.dataset()
    one = history(compiled(jit_compile=jit_compile), data)
    three = history(compiled(jit_compile=jit_compile, steps_per_execution=3), data)
    np.testing.assert_allclose(one["loss"], three["loss"], rtol=1e-6)


@pytest.mark.parametrize("mode", [{"jit_compile": False}, {"jit_compile": True}, {"run_eagerly": True}])
def test_the_end_of_data_of_unknown_size_is_no_step(mode):
    known = graphs.dataset()
    unknown = known.filter(lambda *_: True)
    assert unknown.cardinality() == tf.data.UNKNOWN_CARDINALITY
    model = compiled(dropout=0.5, **mode)
    losses = history(model, unknown, epochs=3)["loss"]
    assert int(model.optimizer.iterations) == 3 * int(known.cardinality())
    np.testing.assert_allclose(losses, history(compiled(dropout=0.5, **mode), known, epochs=3)["loss"], rtol=1e-6)


def test_predict_and_evaluate_and_batches():
    model, data = compiled(), graphs.dataset()
    history(model, data, epochs=2)
    assert model.predict(data, verbose=0).shape == (20, 2)  # Four batches, each of four graphs and one of padding.
    predicted = np.concatenate([model.predict_on_batch(graph) for graph, *_ in data])
    np.testing.assert_allclose(model.predict(data, verbose=0), predicted, rtol=1e-6)
    assert model.predict(data.map(lambda graph, *_: graph), verbose=0).shape == (20, 2)
    graph, labels, weights = next(iter(data))
    before = model.test_on_batch(graph, labels, weights, return_dict=True)
    after = model.train_on_batch(graph, labels, weights, return_dict=True)
    assert before == pytest.approx(after, rel=1e-6)
    assert model.test_on_batch(graph, labels, weights, return_dict=True)["loss"] < before["loss"]


def test_losses_that_layers_add():
    data, model, regularised = graphs.dataset(), compiled(metrics=[]), compiled(metrics=[])
    regularised.sequence[-1].kernel_regularizer = keras.regularizers.L2(0.1)
    for each in (model, regularised):
        each.build(graphs.spec())
    model.set_weights(regularised.get_weights())
    without, with_it = (each.evaluate(data, verbose=0) for each in (model, regularised))
    expected = 0.1 * float(tf.reduce_sum(tf.square(regularised.sequence[-1].kernel)))
    assert with_it - without == pytest.approx(expected, rel=1e-4)


def test_several_outputs_with_their_own_losses_metrics_and_weights():
    class TwoOutputs(GraphSequential):
        def call(self, graph):
            map_features, update, node, context = self.sequence
            graph = update(map_features(graph))
            return {
                "node": node(graph.node_sets["user"]["hidden_state"]),
                "graph": context(graph.context["hidden_state"]),
            }

    def data(padded):
        for by_node, by_graph in zip(*(graphs.batches(label, padded) for label in ("node", "graph")), strict=True):
            yield (by_node[0], *({"node": a, "graph": b} for a, b in zip(by_node[1:], by_graph[1:], strict=True)))

    results = []
    for padded in (True, False):
        model = TwoOutputs([*graphs.model().sequence[:2], keras.layers.Dense(2), keras.layers.Dense(2)])
        model.compile(
            "adam",
            {"node": graphs.loss(), "graph": graphs.loss()},
            metrics={"node": ["accuracy"]},
            weighted_metrics={"graph": ["accuracy"]},
        )
        results.append([model.train_on_batch(*batch, return_dict=True) for batch in data(padded)])
    for with_padding, without in zip(*results, strict=True):
        assert with_padding == pytest.approx(without, rel=1e-5)
    assert {"loss", "node_accuracy", "graph_accuracy"} <= set(results[0][0])
