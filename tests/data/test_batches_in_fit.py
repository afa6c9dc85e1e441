"""Batches in `fit`, `evaluate` and `predict`: each shape is compiled once, and XLA and padding change no result."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import models
from sggnn_tf.data import Batches
from sggnn_tf.data.pad import EMPTY
from tests.data.examples_to_batch import chains, libraries, listed, shuffled
from tests.data.schemas import library

SEED = 2  # With it, batches of both shapes occur in the first epoch.


def batches_of_two_shapes():
    return Batches(chains(), 4, shuffle_seed=SEED, max_shapes=3)


def compiled_model(**kwargs):
    keras.utils.set_random_seed(0)
    model = models.build_model("sggnn-rv-gat", chains().schema, units=8, steps=2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **kwargs)
    return model


class Run:
    """Three epochs of training and an evaluation."""

    def __init__(self, jit_compile):
        self.model = compiled_model(jit_compile=jit_compile)
        self.data = batches_of_two_shapes().dataset()
        self.traces, self.traces_by_epoch = 0, []
        step = self.model.train_step

        def counted(data):
            self.traces += 1
            return step(data)

        self.model.train_step = counted
        count = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: self.traces_by_epoch.append(self.traces))
        self.history = self.model.fit(self.data, epochs=3, verbose=0, callbacks=[count]).history
        self.epochs = int(self.data.next_epoch)
        self.results = self.model.evaluate(self.data, verbose=0, return_dict=True)


@pytest.fixture(scope="module")
def with_xla():
    return Run(jit_compile=True)


@pytest.fixture(scope="module")
def without_xla():
    return Run(jit_compile=False)


def test_xla_on_several_shapes_gives_the_same_losses(with_xla, without_xla):
    assert with_xla.history.keys() == without_xla.history.keys()
    for name, values in with_xla.history.items():
        np.testing.assert_allclose(values, without_xla.history[name], atol=1e-5, err_msg=name)
    assert with_xla.history["loss"][-1] < with_xla.history["loss"][0]


def test_xla_on_several_shapes_gives_the_same_weights(with_xla, without_xla):
    for one, other in zip(with_xla.model.get_weights(), without_xla.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_xla_on_several_shapes_evaluates_the_same(with_xla, without_xla):
    assert with_xla.results == pytest.approx(without_xla.results, abs=1e-5)


def test_each_shape_is_compiled_once(with_xla):
    batches = batches_of_two_shapes()
    occurred, numbers = set(), []
    for epoch in range(3):
        sizes = batches.sizes[batches.order(epoch)]
        totals = [sizes[start : start + 4].sum(axis=0) for start in range(0, 30, 4)]
        occurred |= {int((total <= batches.padding.capacities).all(axis=1).argmax()) for total in totals}
        numbers.append(len(occurred))
    assert numbers == [2, 2, 2]
    assert with_xla.traces_by_epoch == numbers


def test_an_epoch_of_training_is_an_epoch_of_data(with_xla, without_xla):
    assert with_xla.epochs == without_xla.epochs == 3

    class Watching(models.GraphModel):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(1)
            self.seen = []

        def call(self, graph):
            return self.head(graph.node_sets["_readout"][EMPTY])

        def train_step(self, data):
            self.seen.append(listed(data[1]))
            return {"loss": 0.0}

    model = Watching()
    model.compile("sgd", "mse", run_eagerly=True)
    batches, epochs = shuffled()
    model.fit(batches.dataset(), epochs=3, verbose=0)
    assert model.seen == [listed(labels) for epoch in epochs for _, labels, _ in epoch]


def test_several_steps_at_once_on_several_shapes():
    models = [compiled_model(jit_compile=True, steps_per_execution=2), compiled_model(jit_compile=False)]
    histories = []
    for model in models:
        dataset = batches_of_two_shapes().dataset()
        assert int(dataset.cardinality()) % 2 == 0
        even = model.fit(dataset, epochs=1, verbose=0).history
        odd = model.fit(dataset.take(7), epochs=2, verbose=0).history
        histories.append([*even["loss"], *odd["loss"]])
        assert int(model.optimizer.iterations) == 8 + 2 * 7
    np.testing.assert_allclose(*histories, atol=1e-5)


def test_predict_gives_a_row_for_each_readout(with_xla):
    dataset = batches_of_two_shapes().dataset()
    batches = [graph for graph, *_ in dataset][2:4]
    assert len({int(graph.node_sets["char"].total_size) for graph in batches}) == 2
    found = with_xla.model.predict(batches_of_two_shapes().dataset().skip(2).take(2), verbose=0)
    np.testing.assert_allclose(found, np.concatenate([with_xla.model(graph) for graph in batches]), atol=1e-5)


UNREAD = ["paper/grades", "paper/title", "paper/year", "writes/share", "writes/weeks"]


@pytest.mark.parametrize(
    ("examples", "label", "ignore"),
    [(chains, "char/symbol", []), (libraries, "author/country", [*UNREAD, "context/label"])],
)
def test_a_model_that_was_built_takes_batches_with_labels_of_nodes(examples, label, ignore):
    model = models.build_model("rgcn", examples().schema, units=4, steps=1, label=label, ignore=ignore)
    graph, labels, _ = next(iter(Batches(examples(), 4, label=label).dataset()))
    assert model(graph).shape[0] == len(labels)


def test_a_model_that_was_built_takes_batches_with_labels_of_the_context():
    model = models.build_model("rgcn", library(), units=4, steps=1, label="context/label", ignore=UNREAD)
    graph, labels, _ = next(iter(Batches(libraries(), 4, label="context/label").dataset()))
    assert model(graph).shape == [len(labels), 3]


def test_xla_on_graphs_with_strings_that_the_model_ignores():
    model = models.RelationalModel("rgcn", library(), units=4, steps=1, label="context/label", ignore=UNREAD)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    assert np.isfinite(
        model.evaluate(Batches(libraries(), 5, label="context/label", ignore=UNREAD).dataset(), verbose=0)
    )


def test_a_graph_has_the_same_scores_alone_and_in_a_batch():
    model = models.build_model("sggnn-rv-gat", chains().schema, units=8, steps=2)
    scores = []
    for batch_size, max_shapes in ((1, 1), (4, 3), (30, 1)):
        run = tf.function(model, autograph=False, reduce_retracing=True)
        dataset = Batches(chains(), batch_size, max_shapes=max_shapes).dataset()
        scores.append(np.concatenate([run(graph)[weights == 1] for graph, _, weights in dataset]))
    for other in scores[1:]:
        np.testing.assert_allclose(scores[0], other, atol=1e-5)
