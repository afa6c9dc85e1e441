"""A first look at every record of a data set, before anything is trained on it: whether it fits, and its size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data.codec import Codec, single_readouts
from sggnn_tf.data.padding import Sets
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn

AT_ONCE = 256


def survey(records: np.ndarray, schema: Any, name_of: Callable[[int], str]) -> np.ndarray:
    """Checks each record against the schema and returns the sizes of the graphs.

    Checked are: that TF-GNN can parse it, that edges end at nodes that are there, that ids are in the range that the
    schema gives, that numbers are finite, that there are nodes, that a structured readout is in order.

    Args:
      records: serialised `tf.train.Example`s.
      schema: their `GraphSchema`.
      name_of: what to call a record in an error, by its place.

    Returns:
      The sizes of each graph, `[graphs, sets]`, in the order of `Sets.of(schema)`.
    """
    look = _look(schemas.to_text(schema))
    found = [np.zeros([0, len(Sets.of(schema).names)], np.int64)]
    for start in range(0, len(records), AT_ONCE):
        some = records[start : start + AT_ONCE]
        try:
            sizes, is_fine = look(tf.constant(some, tf.string))
            problem = None if is_fine.numpy().all() else ValueError("It does not fit its schema.")
        except tf.errors.InvalidArgumentError as error:
            problem = error
        if problem is not None:
            _explain(some, start, schema, name_of)
            last = name_of(start + len(some) - 1)
            raise ValueError(f"Between {name_of(start)} and {last}: TF-GNN cannot parse a record. {problem}")
        found.append(sizes.numpy())
    return np.concatenate(found)


def _explain(records: np.ndarray, start: int, schema: Any, name_of: Callable[[int], str]) -> None:
    """Raises an error that names the first record that does not fit, and the field."""
    codec = Codec(schema)
    for place, record in enumerate(records, start):
        try:
            codec.decode(record)
        except ValueError as error:
            raise ValueError(f"{name_of(place)}: {error}") from None


@functools.lru_cache(maxsize=8)  # The splits of a data set share it.
def _look(schema_text: str) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """A function of a batch of records that returns the sizes of the graphs and whether they are fine."""
    schema = schemas.from_text(schema_text)
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    sets = Sets.of(schema)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def look(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        graph = tfgnn.parse_example(spec, records)
        pieces = {**graph.node_sets, **graph.edge_sets}
        sizes = tf.stack([tf.cast(tf.squeeze(pieces[name].sizes, 1), tf.int64) for name in sets.names], axis=1)
        ordinary = [place for place, name in enumerate(sets.nodes) if not is_auxiliary(name)]
        checks = [tf.reduce_any(tf.gather(sizes, ordinary, axis=1) > 0, axis=1)]
        for name, ends in zip(sets.edges, sets.ends, strict=True):
            adjacency = graph.edge_sets[name].adjacency
            for nodes, end in zip((adjacency.source, adjacency.target), ends, strict=True):
                checks.append(_is_within(nodes, sizes[:, end]))
            if name in single_readouts(schema):
                targets = adjacency.target
                in_order = tf.ragged.range(tf.cast(targets.row_lengths(), targets.dtype)).flat_values
                checks.append(_all(targets.with_flat_values(targets.flat_values == in_order)))
                checks.append(tf.cast(targets.row_lengths(), tf.int64) == sizes[:, ends[1]])
        for set_name, piece in {schemas.CONTEXT: graph.context, **pieces}.items():
            for name, values in piece.features.items():
                limit = schemas.num_values(schema, set_name, name) if values.dtype.is_integer else None
                if limit is not None:
                    checks.append(_is_within(values, tf.constant(limit, tf.int64)))
                elif values.dtype.is_floating:
                    checks.append(_all(tf.ragged.map_flat_values(tf.math.is_finite, values)))
        return sizes, tf.reduce_all(tf.stack(checks), axis=0)

    return look


def _is_within(values: Any, limit: tf.Tensor) -> tf.Tensor:
    """Whether all values of each row are from 0 to a limit of the row."""
    axes = list(range(1, values.shape.rank))
    smallest, largest = (tf.cast(reduce(values, axis=axes), tf.int64) for reduce in (tf.reduce_min, tf.reduce_max))
    return (smallest >= 0) & (largest < limit)


def _all(values: Any) -> tf.Tensor:
    return tf.reduce_all(values, axis=list(range(1, values.shape.rank)))
