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

Look = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def survey(records: np.ndarray, schema: Any, name_of: Callable[[int], str]) -> np.ndarray:
    """Checks each record against the schema and returns the sizes of the graphs.

    Checked are: that TF-GNN can parse it, that there is a value for each node and edge, that edges end at nodes that
    are there, that ids are in the range that the schema gives, that numbers are finite and within their type, that
    there are nodes, that a structured readout is in order.

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
        sizes = _sizes_if_fine(look, some)
        if sizes is None:
            raise ValueError(_explained(look, some, start, schema, name_of))
        found.append(sizes)
    return np.concatenate(found)


def _sizes_if_fine(look: Look, records: np.ndarray) -> np.ndarray | None:
    try:
        sizes, is_fine = look(tf.constant(records, tf.string))
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):  # The message of the first may quote bytes.
        return None
    return sizes.numpy() if is_fine.numpy().all() else None


def _explained(look: Look, records: np.ndarray, start: int, schema: Any, name_of: Callable[[int], str]) -> str:
    """Names the first record that does not fit, and the field."""
    codec = Codec(schema)
    for place, record in enumerate(records):
        try:
            codec.decode(record)
        except ValueError as error:
            return f"{name_of(start + place)}: {error}"
        if _sizes_if_fine(look, records[place : place + 1]) is None:
            break
    return f"{name_of(start + place)}: It does not fit its schema."


@functools.lru_cache(maxsize=8)  # The splits of a data set share it.
def _look(schema_text: str) -> Look:
    """A function of a batch of records that returns the sizes of the graphs and whether they are fine."""
    schema = schemas.from_text(schema_text)
    sets = Sets.of(schema)
    narrow = _widen_integers(schema)
    spec = tfgnn.create_graph_spec_from_schema_pb(schema, indices_dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def look(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        graph = tfgnn.parse_example(spec, records)
        pieces = {**graph.node_sets, **graph.edge_sets}
        sizes = tf.stack([tf.squeeze(pieces[name].sizes, 1) for name in sets.names], axis=1)
        checks = [tf.reduce_all(sizes >= 0, axis=1), _has_nodes(sizes, sets)]
        for place, name in enumerate(sets.names):
            columns = list(pieces[name].features.values())
            if name in graph.edge_sets:
                adjacency, ends = graph.edge_sets[name].adjacency, sets.ends[sets.edges.index(name)]
                columns += [adjacency.source, adjacency.target]
                checks.append(_is_within(adjacency.source, sizes[:, ends[0]]))
                checks.append(_is_within(adjacency.target, sizes[:, ends[1]]))
                if name in single_readouts(schema):
                    checks.append(_is_in_order(adjacency.target, sizes[:, ends[1]]))
            checks += [tf.cast(column.row_lengths(), tf.int64) == sizes[:, place] for column in columns]
        for set_name, piece in {schemas.CONTEXT: graph.context, **pieces}.items():
            for name, values in piece.features.items():
                size = schemas.num_values(schema, set_name, name) if values.dtype.is_integer else None
                checks += _checks_of_values(values, size, narrow.get((set_name, name)))
        return sizes, tf.reduce_all(tf.stack(checks), axis=0)

    return look


def _widen_integers(schema: Any) -> dict[tuple[str, str], tf.DType]:
    """Lets a schema read all integers with 64 bits, as records have them; returns the types of those with fewer."""
    narrow = {}
    sets = [(schemas.CONTEXT, schema.context), *schema.node_sets.items(), *schema.edge_sets.items()]
    for set_name, piece in sets:
        for name, feature in piece.features.items():
            dtype = tf.dtypes.as_dtype(feature.dtype)
            if dtype.is_integer and dtype.size < tf.int64.size:
                narrow[set_name, name] = dtype
                feature.dtype = tf.int64.as_datatype_enum
    return narrow


def _has_nodes(sizes: tf.Tensor, sets: Sets) -> tf.Tensor:
    ordinary = [place for place, name in enumerate(sets.nodes) if not is_auxiliary(name)]
    return tf.reduce_any(tf.gather(sizes, ordinary, axis=1) > 0, axis=1)


def _is_in_order(targets: tf.RaggedTensor, sizes: tf.Tensor) -> tf.Tensor:
    """Whether the values of each row are 0, 1, 2, ... to the size of the row."""
    in_order = tf.ragged.range(tf.cast(targets.row_lengths(), targets.dtype)).flat_values
    is_equal = targets.with_flat_values(targets.flat_values == in_order)
    return tf.reduce_all(is_equal, axis=1) & (tf.cast(targets.row_lengths(), tf.int64) == sizes)


def _checks_of_values(values: Any, num_values: int | None, narrow: tf.DType | None) -> list[tf.Tensor]:
    checks = []
    if values.dtype.is_floating:
        is_finite = tf.ragged.map_flat_values(tf.math.is_finite, values)
        checks.append(tf.reduce_all(is_finite, axis=list(range(1, values.shape.rank))))
    if narrow is not None:
        checks.append(_is_within(values - narrow.min, tf.constant(narrow.max - narrow.min + 1, tf.int64)))
    if num_values is not None:
        checks.append(_is_within(values, tf.constant(num_values, tf.int64)))
    return checks


def _is_within(values: Any, limit: tf.Tensor) -> tf.Tensor:
    """Whether all values of each row are from 0 to below a limit of the row."""
    axes = list(range(1, values.shape.rank))
    smallest, largest = (tf.cast(reduce(values, axis=axes), tf.int64) for reduce in (tf.reduce_min, tf.reduce_max))
    return (smallest >= 0) & (largest < limit)
