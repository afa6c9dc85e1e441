"""A model as functions that TF Serving calls: serialized examples or plain arrays in, plain named tensors out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.serving.request import Checks, Reader
from sggnn_tf.serving.runtime.layout import DEFAULT

ARRAYS = "graph_tensors"
NO_PREDICTION = -1  # Of what is padding.

Tensors = dict[str, tf.Tensor]


class Signature(NamedTuple):
    """A function of a SavedModel.

    Attributes:
      function: a concrete function. TensorFlow takes Python names only for its arguments.
      keys: what a client calls each argument.
    """

    function: Any
    keys: dict[str, str]


def make_signatures(
    model: Any,
    schema: Any,
    counted: str,
    labels: Sequence[str] | None,
    is_single: bool,
    task_signatures: Sequence[Any] = (),
) -> dict[str, Signature]:
    """The functions of a SavedModel.

    Args:
      model: a built `GraphModel` whose output is scores.
      schema: the graphs that it reads: without its label.
      counted: the node set whose nodes the rows of its output belong to, or `context`.
      labels: the texts of its classes, if they have any.
      is_single: whether a graph has exactly one answer; then answers have no axis for several.
      task_signatures: signatures of the task's own; see `tasks.Task.signatures`.
    """
    reader = Reader(schema)

    def answer(graph: Any) -> Tensors:
        sizes = graph.context.sizes if counted == schemas.CONTEXT else graph.node_sets[counted].sizes
        scores = tf.cast(model(graph, training=False), tf.float32)
        return _outputs(scores, tf.cast(sizes, tf.int64), labels, is_single)

    def of_examples(inputs: Tensors) -> Tensors:
        return answer(reader.from_examples(inputs["examples"]))

    def of_arrays(inputs: Tensors) -> Tensors:
        return answer(reader.from_arrays(inputs))

    def of_task(signature: Any, inputs: Tensors) -> Tensors:
        return {**answer(reader.from_arrays(signature.arrays(**inputs))), **signature.extras(**inputs)}

    return {
        DEFAULT: _trace(of_examples, {"examples": tf.TensorSpec([None], tf.string)}),
        ARRAYS: _trace(of_arrays, reader.array_specs()),
        **{each.name: _trace(functools.partial(of_task, each), each.inputs) for each in task_signatures},
    }


def _trace(function: Callable[[Tensors], Tensors], inputs: Mapping[str, tf.TensorSpec]) -> Signature:
    keys = {key if key.isidentifier() else f"x{place}": key for place, key in enumerate(inputs)}
    specs = {name: tf.TensorSpec(inputs[key].shape, inputs[key].dtype, name) for name, key in keys.items()}

    def named(**arguments: tf.Tensor) -> Tensors:
        return function({keys[name]: value for name, value in arguments.items()})

    return Signature(tf.function(named, autograph=False).get_concrete_function(**specs), keys)


def _outputs(scores: tf.Tensor, sizes: tf.Tensor, labels: Sequence[str] | None, is_single: bool) -> Tensors:
    """What a client gets, with the graphs as the first axis of everything."""
    prediction = tf.argmax(scores, axis=-1)
    if is_single:
        checks = Checks()
        checks.require(sizes == 1, "it has {} readouts; this model answers exactly one question a graph.", sizes)
        scores, prediction = checks.gate((scores, prediction))
    else:
        classes = scores.shape[-1]
        scores = tf.RaggedTensor.from_row_lengths(scores, sizes).to_tensor(shape=[None, None, classes])
        prediction = tf.RaggedTensor.from_row_lengths(prediction, sizes).to_tensor(NO_PREDICTION)
    outputs = {"scores": scores, "prediction": prediction, "num_readouts": sizes}
    if labels is not None:
        texts = tf.constant([*labels, ""])  # The last one is for NO_PREDICTION.
        outputs["label"] = tf.gather(texts, tf.where(prediction < 0, tf.cast(len(labels), tf.int64), prediction))
    return outputs
