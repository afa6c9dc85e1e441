"""Padding of a batch to sizes that may be chosen as it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from sggnn_tf.tfgnn_bridge import tfgnn

EMPTY = "empty"


def pad(graph: Any, num_components: int, sizes: Mapping[str, int | tf.Tensor]) -> tuple[Any, tf.Tensor]:
    """Pads a graph with components that hold zeros; their edges join nodes of padding.

    This is `tfgnn.pad_to_total_sizes`, which takes fixed sizes only and whose checks, for a few shapes to choose from,
    cost seconds each time a data set is iterated.

    Args:
      graph: a scalar `GraphTensor` that fits. Where it has less than the full size of an edge set, it must have less
        nodes at its ends too.
      num_components: the number of components of the result.
      sizes: the size of each node and edge set of the result; an integer becomes a static size.

    Returns:
      The graph, and for each component whether it is real. A node set without features has an empty one, `EMPTY`:
      without any, its size would not be static but a sum of numbers that differ, and XLA would compile anew for each
      batch.
    """
    real = graph.total_num_components
    depth = tf.cast(num_components - real, tf.int32)
    first_is_all = tf.one_hot(0, depth, dtype=graph.spec.indices_dtype)  # Padding is in one component.

    def missing(name: str) -> tf.Tensor:
        piece = graph.node_sets[name] if name in graph.node_sets else graph.edge_sets[name]
        return tf.cast(sizes[name], piece.total_size.dtype) - piece.total_size

    def fields(name: str, piece: Any) -> dict[str, Any]:
        all_sizes = tf.concat([piece.sizes, first_is_all * missing(name)], axis=0)
        features = dict(piece.features)
        if name in graph.node_sets and not features:
            features = {EMPTY: tf.zeros([piece.total_size, 0])}
        return {
            "sizes": tf.ensure_shape(all_sizes, [num_components]),
            "features": {key: _with_rows(value, missing(name), sizes[name]) for key, value in features.items()},
        }

    def adjacency(name: str, piece: Any) -> Any:
        ends = []
        for tag in (tfgnn.SOURCE, tfgnn.TARGET):
            node_set = piece.adjacency.node_set_name(tag)
            nodes = tf.range(missing(name)) % tf.maximum(missing(node_set), 1)
            nodes += graph.node_sets[node_set].total_size
            ends.append((node_set, _static(tf.concat([piece.adjacency[tag], nodes], axis=0), sizes[name])))
        return tfgnn.Adjacency.from_indices(*ends)

    padded = tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(
            sizes=tf.ones([num_components], graph.context.sizes.dtype),
            features={
                key: _with_rows(value, num_components - real, num_components)
                for key, value in graph.context.features.items()
            },
        ),
        node_sets={name: tfgnn.NodeSet.from_fields(**fields(name, piece)) for name, piece in graph.node_sets.items()},
        edge_sets={
            name: tfgnn.EdgeSet.from_fields(**fields(name, piece), adjacency=adjacency(name, piece))
            for name, piece in graph.edge_sets.items()
        },
    )
    return padded, tf.range(num_components, dtype=real.dtype) < real


def _with_rows(values: Any, missing: tf.Tensor, size: int | tf.Tensor) -> Any:
    """Values with rows of zeros after them, or with empty rows if they are ragged."""
    if isinstance(values, tf.RaggedTensor) and values.uniform_row_length is not None:
        length = values.uniform_row_length
        inner = _with_rows(values.values, missing * tf.cast(length, missing.dtype), size)
        return tf.RaggedTensor.from_uniform_row_length(inner, length)
    if isinstance(values, tf.RaggedTensor):
        splits = values.row_splits
        splits = tf.concat([splits, tf.fill([missing], splits[-1])], axis=0)
        return tf.RaggedTensor.from_row_splits(values.values, splits, validate=False)
    zeros = tf.zeros(tf.concat([[missing], tf.shape(values)[1:]], axis=0), values.dtype)
    return _static(tf.concat([values, zeros], axis=0), size)


def _static(values: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    if isinstance(size, int):
        values.set_shape([size, *values.shape[1:]])
    return values
