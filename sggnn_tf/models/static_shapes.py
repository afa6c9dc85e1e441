"""Steps compiled by XLA on batches of a few different sizes.

XLA compiles for static shapes. A data set whose batches differ in size has unknown sizes in its `element_spec`, and
Keras traces its step for those. Here the step is traced, and compiled, for the sizes of each batch that comes: once for
each shape, and never again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sggnn_tf.tfgnn_bridge import tfgnn

Step = Callable[[Any], Any]


def is_static(spec: Any) -> bool:
    """Whether all sizes of an `element_spec` are known."""
    return all(each.shape.is_fully_defined() for each in tf.nest.flatten(spec, expand_composites=True))


def on_iterator(step: Step, steps_per_execution: Callable[[], int]) -> Callable[[tf.data.Iterator], Any]:
    """A function of an iterator, as Keras' `train_function` is, that runs a compiled step for each shape."""

    @tf.function(reduce_retracing=True, autograph=False)
    def next_tensors(iterator: tf.data.Iterator) -> list[tf.Tensor]:
        return tf.nest.flatten(iterator.get_next(), expand_composites=True)

    compiled: dict[Any, Any] = {}  # By the spec of the data set and the shapes of a batch.

    def compile_step(spec: Any, tensors: list[tf.Tensor]) -> Any:
        @tf.function(jit_compile=True, autograph=False)
        def run(tensors: list[tf.Tensor]) -> Any:
            data = tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)
            return step(tf.nest.map_structure(with_sizes_of_tensors, data))

        return run.get_concrete_function(tensors)

    def function(iterator: tf.data.Iterator) -> Any:
        spec = iterator.element_spec
        outputs = None
        for _ in range(steps_per_execution()):
            try:
                tensors = next_tensors(iterator)
            except tf.errors.OutOfRangeError:
                break
            key = (*tf.nest.flatten(spec), *(tuple(tensor.shape) for tensor in tensors))
            if key not in compiled:
                compiled[key] = compile_step(spec, tensors)
            outputs = compiled[key](tensors)
        if outputs is None:
            raise StopIteration
        return outputs

    return function


def with_sizes_of_tensors(value: Any) -> Any:
    """A `GraphTensor` whose spec has the sizes that its tensors have; anything else as it is."""
    if not isinstance(value, tfgnn.GraphTensor):
        return value
    return tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(sizes=value.context.sizes, features=value.context.features),
        node_sets={
            name: tfgnn.NodeSet.from_fields(sizes=piece.sizes, features=piece.features)
            for name, piece in value.node_sets.items()
        },
        edge_sets={
            name: tfgnn.EdgeSet.from_fields(
                sizes=piece.sizes,
                features=piece.features,
                adjacency=tfgnn.Adjacency.from_indices(
                    *(
                        (piece.adjacency.node_set_name(tag), piece.adjacency[tag])
                        for tag in (tfgnn.SOURCE, tfgnn.TARGET)
                    )
                ),
            )
            for name, piece in value.edge_sets.items()
        },
    )
