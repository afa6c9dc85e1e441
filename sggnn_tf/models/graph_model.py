"""Keras models on GraphTensors."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.layers.graph_spec import as_graph_spec, check_matches, from_text, to_text
from sggnn_tf.models import replicas, static_shapes
from sggnn_tf.tfgnn_bridge import BuildsItself, LossFunctionWrapper, tfgnn


@keras.saving.register_keras_serializable("sggnn_tf")
class GraphModel(BuildsItself, GraphLayer, keras.Model):
    """A `keras.Model` that is called on a `tfgnn.GraphTensor` and trained on `(graph, labels[, weights])`.

    Subclass it like any Keras model, with layers in `__init__` and `call(graph)`; or use `GraphSequential`. The
    Keras surface is that of `keras.Model`: `compile`, `fit`, `evaluate`, `predict`, `save`, callbacks and so on.

    What differs, so that padding changes no number (labels of padding have weight zero):

    - a loss that Keras would divide by the number of rows is divided by the sum of the weights;
    - `metrics` see the sample weights, like `weighted_metrics`;
    - an epoch's loss is the weighted mean over its items, whatever the sizes of its batches (Keras' extra losses
      by output, in models with several, are means over batches);
    - `class_weight` goes together with sample weights; it weighs the loss, not the metrics.

    A model is built for one kind of graph, by its first graph or before any data by `model.build(schema)`
    with a `tfgnn.GraphSchema` or `tfgnn.GraphTensorSpec`; a graph of another kind is refused.

    `predict` returns a row for each row of the output, those of padding included: their weight tells.
    """

    _class_weight: Mapping[int, float] | None = None
    train_function: Any
    test_function: Any
    predict_function: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.built:
            graph = next((v for v in (*args, *kwargs.values()) if isinstance(v, tfgnn.GraphTensor)), None)
            if graph is not None:
                check_matches(graph.spec, self.graph_spec, self.name)
        return super().__call__(*args, **kwargs)

    def build(self, graph_spec: Any = None) -> None:
        """Creates all weights, without data.

        Args:
          graph_spec: a `tfgnn.GraphSchema`, `tfgnn.GraphTensorSpec` or `tfgnn.GraphTensor`: the graphs to come,
            of any number and size.
        """
        self.graph_spec = as_graph_spec(graph_spec)
        trace = tf.function(lambda graph: self.call(graph), autograph=False)
        with keras.StatelessScope():  # Weights are made and initialised; nothing else is left of the trace.
            trace.get_concrete_function(self.graph_spec)

    def get_build_config(self) -> dict[str, Any] | None:
        return {"graph_spec": to_text(self.graph_spec)} if self.built else None

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        self.build(from_text(config["graph_spec"]))

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Configures training, as `keras.Model.compile` does, with losses and metrics that ignore padding."""
        super().compile(
            optimizer=optimizer,
            loss=_averaged_by_weight(loss),
            loss_weights=loss_weights,
            weighted_metrics=_joined(metrics, weighted_metrics),
            **kwargs,
        )

    @functools.wraps(keras.Model.fit)
    def fit(self, x: Any = None, *args: Any, class_weight: Mapping[int, float] | None = None, **kwargs: Any) -> Any:
        self._set_class_weight(class_weight)
        self._build_or_refuse(x)
        if isinstance(x, tf.data.Dataset | tf.distribute.DistributedDataset) and not args:
            kwargs.setdefault("shuffle", False)  # Keras' default is for arrays, and warns here.
        return super().fit(x, *args, **kwargs)

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        self._build_or_refuse(x)
        return super().evaluate(x, *args, **kwargs)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, *args: Any, class_weight: Mapping[int, float] | None = None, **kwargs: Any) -> Any:
        self._set_class_weight(class_weight)
        return super().train_on_batch(*args, **kwargs)

    def make_train_function(self, force: bool = False) -> None:
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = self._compiled_by_shape(self.train_function, self.train_step)

    def make_test_function(self, force: bool = False) -> None:
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = self._compiled_by_shape(self.test_function, self.test_step)

    def make_predict_function(self, force: bool = False) -> None:
        if self.predict_function is None or force:
            super().make_predict_function(force)
            if self.jit_compile and not self.run_eagerly and self.distribute_strategy.num_replicas_in_sync == 1:
                self.predict_function = static_shapes.on_batches(self.predict_step)

    def _compiled_by_shape(self, function: Any, step: Any) -> Any:
        """A train or test function that, under XLA, takes batches of different sizes too."""
        if not self.jit_compile or self.run_eagerly:
            return function
        by_shape = static_shapes.on_iterator(step, lambda: self.steps_per_execution)

        def chosen(iterator: Any) -> Any:
            if isinstance(iterator, tf.data.Iterator) and not static_shapes.is_static(iterator.element_spec):
                return by_shape(iterator)
            return function(iterator)

        return chosen

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def train_step(self, data: Any) -> dict[str, Any]:
        graph, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        loss_weights = _times_class_weight(weights, labels, self._class_weight)
        with self._after(data):
            with tf.GradientTape() as tape:
                outputs = self(graph, training=True)
                loss = self._loss_of_part(graph, labels, outputs, loss_weights, training=True)
                scaled_loss = self.optimizer.scale_loss(loss)
            variables = self.trainable_variables
            gradients = replicas.sum_to_first(tape.gradient(scaled_loss, variables))
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
            self._track_loss(loss, labels, loss_weights)
            return replicas.logs(self.compute_metrics(graph, labels, outputs, weights))

    def test_step(self, data: Any) -> dict[str, Any]:
        graph, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        with self._after(data):
            outputs = self(graph, training=False)
            self._track_loss(self._loss_of_part(graph, labels, outputs, weights, training=False), labels, weights)
            return replicas.logs(self.compute_metrics(graph, labels, outputs, weights))

    def _after(self, data: Any) -> Any:
        """Lets nothing happen before there is data.

        Keras finds the end of a data set of unknown size by running a step that gets no data. Whatever in that
        step waits for none would still happen: the optimizer's count of steps, the random state of dropout. A
        step compiled by XLA waits for all of its inputs by itself.
        """
        if self.jit_compile:
            return contextlib.nullcontext()
        return tf.control_dependencies(tf.nest.flatten(data, expand_composites=True)[:1])

    def build_for_data(self, dataset: tf.data.Dataset) -> None:
        """Builds the model, its loss, metrics and optimizer for a data set, before the first step runs.

        So a mistake shows at once, and the step is traced once: not again, without the creation of variables. `fit` and
        `evaluate` do this themselves, but cannot with data for several devices: call it in the strategy's scope.

        Args:
          dataset: the data; only its `element_spec` is looked at.
        """
        if not self.built:
            self.build(keras.utils.unpack_x_y_sample_weight(dataset.element_spec)[0])
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if not self._metrics_are_built:
            with keras.StatelessScope():
                tf.function(self.test_step, autograph=False).get_concrete_function(dataset.element_spec)

    @property
    def _metrics_are_built(self) -> bool:
        return all(getattr(metric, "built", True) for metric in self.metrics)

    def _build_or_refuse(self, data: Any) -> None:
        if isinstance(data, tf.data.Dataset) and self.compiled:
            self.build_for_data(data)
        elif isinstance(data, tf.distribute.DistributedDataset) and not self._metrics_are_built:
            raise ValueError(
                "On several devices a model is built before `fit`: call `model.build_for_data(batches.dataset())` in "
                "the scope of the strategy."
            )

    def _loss_of_part(self, graph: Any, labels: Any, outputs: Any, weights: Any, training: bool) -> Any:
        """The loss; with several devices, what this one's part of the batch adds to the loss of the batch."""
        loss = self.compute_loss(graph, labels, outputs, weights, training=training)
        if replicas.number() == 1 or _is_sum(self.loss):
            return loss
        return loss * replicas.share(_number_of_items(labels, weights))

    def _track_loss(self, loss: Any, labels: Any, weights: Any) -> None:
        """Counts a batch's loss by the weight of its items, where Keras counts rows of the (padded) input."""
        tracker = next(metric for metric in self.metrics if metric.name == "loss")
        tracker.update_state(replicas.sum_over(loss), sample_weight=_number_of_items(labels, weights))

    def _set_class_weight(self, class_weight: Mapping[int, float] | None) -> None:
        if class_weight != self._class_weight:
            self._class_weight = class_weight
            self.make_train_function(force=True)


@keras.saving.register_keras_serializable("sggnn_tf")
class GraphSequential(GraphModel):
    """A graph model that is a list of layers: the graph goes into the first, its result into the next.

    Args:
      layers: layers on graphs, then, after a readout, on tensors.

    Example:

    ```python
    model = GraphSequential([
        MapFeatures(node_sets_fn=lambda nodes, node_set_name: keras.layers.Dense(64)(nodes["feature"])),
        GraphUpdate(node_sets={"atom": NodeSetUpdate(
            {"bond": SimpleConv(keras.layers.Dense(64, "relu"))},
            NextStateFromConcat(keras.layers.Dense(64, "relu")))}),
        Pool(tfgnn.CONTEXT, "mean", node_set_name="atom"),
        keras.layers.Dense(2),
    ])
    ```
    """

    def __init__(self, layers: Sequence[keras.layers.Layer], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sequence = list(layers)
        for layer in self.sequence:
            if not isinstance(layer, keras.layers.Layer):
                raise ValueError(f"GraphSequential takes Keras 3 layers, but got a {type(layer).__name__}.")

    def call(self, graph: Any) -> Any:
        result = graph
        for layer in self.sequence:
            result = layer(result)
        return result

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layers": list(self.sequence)}


def _averaged_by_weight(loss: Any) -> Any:
    """A loss, or a nest of them, with Keras' mean over rows replaced by the mean over weights."""
    if loss is None:
        return None
    if isinstance(loss, dict) and "class_name" not in loss:
        return {name: _averaged_by_weight(value) for name, value in loss.items()}
    if isinstance(loss, list | tuple):
        return type(loss)(_averaged_by_weight(value) for value in loss)
    if loss in ("crossentropy", "ce"):
        raise ValueError(f"loss={loss!r} is chosen by shapes: name it, for example 'sparse_categorical_crossentropy'.")
    resolved = keras.losses.get(loss)
    if not isinstance(resolved, keras.losses.Loss):
        name = loss if isinstance(loss, str) else getattr(resolved, "__name__", None)
        return LossFunctionWrapper(resolved, reduction="mean_with_sample_weight", name=name)
    if resolved.reduction in ("sum_over_batch_size", "mean"):
        resolved = copy.copy(resolved)  # The user's own object stays as it is.
        resolved.reduction = "mean_with_sample_weight"
    return resolved


def _is_sum(loss: Any) -> bool:
    """Whether a model's loss is a sum over the items of a batch, and not a mean."""
    sums = {getattr(each, "reduction", None) == "sum" for each in tf.nest.flatten(loss)}
    if len(sums) > 1:
        raise ValueError("On several devices, the losses of all outputs have to be means, or all of them sums.")
    return sums == {True}


def _joined(metrics: Any, weighted_metrics: Any) -> Any:
    """Two arguments of `compile` as one: lists one after the other, dicts by output."""
    if not metrics or not weighted_metrics:
        return metrics or weighted_metrics
    if isinstance(metrics, Mapping) and isinstance(weighted_metrics, Mapping):
        names = sorted({*metrics, *weighted_metrics})
        return {name: _listed(metrics.get(name)) + _listed(weighted_metrics.get(name)) for name in names}
    return _listed(metrics) + _listed(weighted_metrics)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _number_of_items(labels: Any, weights: Any) -> Any:
    """What a batch counts for: the sum of its weights, or the number of its labels."""
    for weight in tf.nest.flatten(weights):
        if weight is not None:
            return tf.reduce_sum(weight)
    for label in tf.nest.flatten(labels):
        if label is not None:
            return tf.shape(label)[0]
    return 1


def _times_class_weight(weights: Any, labels: Any, class_weight: Mapping[int, float] | None) -> Any:
    """The sample weights, each times the weight of its label's class; classes not named weigh 1."""
    if not class_weight:
        return weights
    if tf.nest.is_nested(labels) or labels is None:
        raise ValueError("class_weight is for models with a single output: give sample weights instead.")
    if labels.shape.rank == 2:  # One-hot or smoothed labels, or a column of ids.
        labels = tf.squeeze(labels, -1) if labels.shape[1] == 1 else tf.argmax(labels, axis=1)
    by_label = tf.ones_like(labels, tf.float32)
    for label, weight in class_weight.items():
        by_label = tf.where(labels == tf.cast(label, labels.dtype), tf.cast(weight, tf.float32), by_label)
    return by_label if weights is None else tf.cast(weights, tf.float32) * by_label
