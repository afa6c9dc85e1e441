"""Steps compiled by XLA on batches of a few different sizes.

XLA compiles for static shapes. A data set whose batches differ in size has unknown sizes in its `element_spec`, and
Keras traces its step for those. Here the step is traced, and compiled, for the sizes of each batch that comes: once for
each shape, and never again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Step = Callable[[Any], Any]


def is_static(spec: Any) -> bool:
    """Whether all sizes of an `element_spec` are known."""
    return all(each.shape.is_fully_defined() for each in tf.nest.flatten(spec, expand_composites=True))


def on_iterator(step: Step, steps_per_execution: Callable[[], int]) -> Callable[[tf.data.Iterator], Any]:
    """A function of an iterator, as Keras' `train_function` is, that runs a compiled step for each shape."""
    run = _compiled_by_shape(step)

    @tf.function(reduce_retracing=True, autograph=False)
    def next_tensors(iterator: tf.data.Iterator) -> list[tf.Tensor]:
        return tf.nest.flatten(iterator.get_next(), expand_composites=True)

    def function(iterator: tf.data.Iterator) -> Any:
        outputs = None
        for _ in range(steps_per_execution()):
            try:
                tensors = next_tensors(iterator)
            except tf.errors.OutOfRangeError:
                break
            outputs = run(iterator.element_spec, tensors)
        if outputs is None:
            raise StopIteration
        return outputs

    return function


def on_batches(step: Step) -> Callable[[Sequence[Any]], Any]:
    """A function of a list of batches, as Keras' `predict_function` is, that runs a compiled step for each shape."""
    run = _compiled_by_shape(step)

    def function(batches: Sequence[Any]) -> Any:
        specs = [tf.nest.map_structure(tf.type_spec_from_value, batch) for batch in batches]
        tensors = [tf.nest.flatten(batch, expand_composites=True) for batch in batches]
        outputs = [run(spec, each) for spec, each in zip(specs, tensors, strict=True)]
        return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=0), *outputs)

    return function


def _compiled_by_shape(step: Step) -> Callable[[Any, list[tf.Tensor]], Any]:
    """A function of a spec and the tensors of a batch of it: a step that is compiled once for each shape."""
    compiled: dict[Any, Any] = {}

    def function(spec: Any, tensors: list[tf.Tensor]) -> Any:
        key = (*tf.nest.flatten(spec), *(tuple(tensor.shape) for tensor in tensors))
        if key not in compiled:
            run = tf.function(
                lambda tensors: step(tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)),
                jit_compile=True,
                autograph=False,
            )
            compiled[key] = run.get_concrete_function(tensors)
        return compiled[key](tensors)

    return function
