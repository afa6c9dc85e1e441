"""What a client sends, as graphs: read, checked and merged by TensorFlow operations alone.

An input that is wrong gets an error that names the example and the field, before the model sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data.codec import Codec, Field, single_readouts
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn

MAX_ITEMS = 1 << 24  # Of a set in a request: more is a mistake, or an attack.
SIZE, EDGES = "#size", "#edges"
Tensors = Mapping[str, tf.Tensor]


class Flat(NamedTuple):
    """A batch of graphs: the items of all graphs one after the other, and how many of them are each graph's."""

    number: tf.Tensor
    sizes: dict[str, tf.Tensor]  # By node or edge set, `[number]`.
    features: dict[tuple[str, str], tf.Tensor]  # By set and feature, `[items, ...]`.
    ends: dict[str, tuple[tf.Tensor, tf.Tensor]]  # By edge set: sources and targets, counted in each graph from 0.


class Reader:
    """Reads requests for a model.

    Args:
      schema: a `tfgnn.GraphSchema` of the model's graphs: without the label and what it does not read.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        codec = Codec(schema)
        self.fields = {**codec.nodes, **codec.edges, schemas.CONTEXT: codec.context}
        both = sorted({*codec.nodes, schemas.CONTEXT} & {*codec.edges})
        if both:
            raise ValueError(f"A node set and an edge set are both called {both[0]!r}: rename one to export the model.")
        for _, field in self._all_fields():
            if field.is_ragged:
                raise ValueError(f"Features of ragged shape cannot be served: {field.where}. Leave it out by `ignore`.")

    def array_specs(self) -> dict[str, tf.TensorSpec]:
        """The inputs of the signature of plain arrays."""
        specs = {}
        for set_name, field in self._all_fields():
            items = [] if set_name == schemas.CONTEXT else [None]
            specs[f"{set_name}.{field.name}"] = tf.TensorSpec(
                [None, *items, *field.shape], self._dtype(set_name, field)
            )
        for name in self.schema.edge_sets:
            specs[f"{name}.{EDGES}"] = tf.TensorSpec([None, None, 2], tf.int64)
        for name in (*self.schema.node_sets, *self.schema.edge_sets):
            specs[f"{name}.{SIZE}"] = tf.TensorSpec([None], tf.int64)
        return dict(sorted(specs.items()))

    def from_examples(self, examples: tf.Tensor) -> Any:
        """The merged graph of serialized `tf.train.Example`s, in TF-GNN's encoding."""
        wanted = {_size_key(self.schema, name): tf.int64 for name in (*self.schema.node_sets, *self.schema.edge_sets)}
        for name in self.schema.edge_sets:
            wanted |= {f"edges/{name}.{end}": tf.int64 for end in (tfgnn.SOURCE_NAME, tfgnn.TARGET_NAME)}
        for set_name, field in self._all_fields():
            stored = {"integer": tf.int64, "float": tf.float32, "string": tf.string}[field.kind]
            wanted[_key(self.schema, set_name, field.name)] = stored
        read = tf.io.parse_example(
            examples, {key: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64) for key, dtype in wanted.items()}
        )
        checks = Checks()
        number = tf.size(examples, tf.int64)
        sizes, features, ends = {}, {}, {}
        for name in (*self.schema.node_sets, *self.schema.edge_sets):
            found = read[_size_key(self.schema, name)]
            checks.require(found.row_lengths() <= 1, f"{name!r} has several sizes.")
            sizes[name] = tf.reduce_sum(found, axis=1)  # One that is not there is 0.
        for name in self.schema.edge_sets:
            sources, targets = (
                _values(checks, read[f"edges/{name}.{end}"], sizes[name], (), f"{end} of the edge set {name!r}")
                for end in (tfgnn.SOURCE_NAME, tfgnn.TARGET_NAME)
            )
            ends[name] = (sources, targets)
        for set_name, field in self._all_fields():
            values = read[_key(self.schema, set_name, field.name)]
            size = tf.ones([number], tf.int64) if set_name == schemas.CONTEXT else sizes[set_name]
            features[set_name, field.name] = _values(checks, values, size, field.shape, field.where)
        return self._graph(Flat(number, sizes, features, ends), checks)

    def from_arrays(self, arrays: Tensors) -> Any:
        """The merged graph of plain arrays, with a row for each graph; what is beyond its size is padding."""
        checks = Checks()
        first = next(iter(arrays))
        number = tf.shape(arrays[first], tf.int64)[0]
        for key, array in arrays.items():
            rows = tf.shape(array, tf.int64)[0]
            checks.require_all(rows == number, f"The input {key!r} is for ", rows, f" graphs, {first!r} for ", number)
        arrays = dict(zip(arrays, checks.gate(list(arrays.values())), strict=True))
        sizes = {name: arrays[f"{name}.{SIZE}"] for name in (*self.schema.node_sets, *self.schema.edge_sets)}
        features, ends = {}, {}
        for set_name, field in self._all_fields():
            key = f"{set_name}.{field.name}"
            is_context = set_name == schemas.CONTEXT
            features[set_name, field.name] = (
                arrays[key] if is_context else _without_padding(checks, key, arrays[key], sizes[set_name])
            )
        for name in self.schema.edge_sets:
            edges = _without_padding(checks, f"{name}.{EDGES}", arrays[f"{name}.{EDGES}"], sizes[name])
            ends[name] = (edges[:, 0], edges[:, 1])
        return self._graph(Flat(number, sizes, features, ends), checks)

    def _graph(self, flat: Flat, checks: Checks) -> Any:
        """Checks all values, and puts a graph of all graphs together, each a component of it."""
        for name, size in flat.sizes.items():
            checks.require((size >= 0) & (size <= MAX_ITEMS), f"the size of {name!r} is ", size, ".")
        flat = checks.gate(flat)  # From here on, there are as many values as the sizes say.
        self._check(flat, checks)
        number, sizes, features, ends = checks.gate(flat)
        starts = {name: tf.cumsum(size, exclusive=True) for name, size in sizes.items()}

        def of_set(set_name: str) -> dict[str, tf.Tensor]:
            return {
                field.name: tf.cast(features[set_name, field.name], self._dtype(set_name, field))
                for field in self.fields[set_name]
            }

        def moved(places: tf.Tensor, node_set: str, edge_set: str) -> tf.Tensor:
            return places + tf.repeat(starts[node_set], sizes[edge_set])

        return tfgnn.GraphTensor.from_pieces(
            context=tfgnn.Context.from_fields(
                features=of_set(schemas.CONTEXT), sizes=tf.ones([number], tf.int64), shape=[]
            ),
            node_sets={
                name: tfgnn.NodeSet.from_fields(sizes=sizes[name], features=of_set(name))
                for name in self.schema.node_sets
            },
            edge_sets={
                name: tfgnn.EdgeSet.from_fields(
                    sizes=sizes[name],
                    features=of_set(name),
                    adjacency=tfgnn.Adjacency.from_indices(
                        (piece.source, moved(ends[name][0], piece.source, name)),
                        (piece.target, moved(ends[name][1], piece.target, name)),
                    ),
                )
                for name, piece in self.schema.edge_sets.items()
            },
        )

    def _check(self, flat: Flat, checks: Checks) -> None:
        nodes = tf.add_n([size for name, size in flat.sizes.items() if self._is_graph_node(name)])
        checks.require(nodes > 0, "the graph is empty, it has no nodes.")
        for name, piece in self.schema.edge_sets.items():
            rows = _rows(flat.sizes[name])
            for places, node_set in zip(flat.ends[name], (piece.source, piece.target), strict=True):
                limit = tf.gather(flat.sizes[node_set], rows)
                checks.require(
                    (places >= 0) & (places < limit),
                    f"an edge of {name!r} ends at node ",
                    places,
                    f", but {node_set!r} has ",
                    limit,
                    " nodes, counted from 0.",
                    rows=rows,
                )
        for name in single_readouts(self.schema):
            size, targets = flat.sizes[name], flat.ends[name][1]
            is_one_each = size == flat.sizes[self.schema.edge_sets[name].target]
            checks.require(is_one_each, f"{name!r} has to have one edge for each readout.")
            order = tf.range(tf.size(targets, tf.int64)) - tf.repeat(tf.cumsum(size, exclusive=True), size)
            checks.require(targets == order, f"the targets of {name!r} have to be 0, 1, 2, ...", rows=_rows(size))
        for set_name, field in self._all_fields():
            values = tf.reshape(flat.features[set_name, field.name], [-1])
            size = tf.ones([flat.number], tf.int64) if set_name == schemas.CONTEXT else flat.sizes[set_name]
            rows = _rows(size * math.prod(field.shape))
            if field.kind == "float":
                checks.require(tf.math.is_finite(values), f"{field.where} has a value that is not a number.", rows=rows)
            elif field.num_values is not None:
                is_known = (values >= 0) & (values < field.num_values)
                known = f"; its values are 0 to {field.num_values - 1}."
                checks.require(is_known, f"{field.where} is ", values, known, rows=rows)

    def _is_graph_node(self, name: str) -> bool:
        return name in self.schema.node_sets and not is_auxiliary(name)

    def _all_fields(self) -> Iterator[tuple[str, Field]]:
        return ((name, field) for name, fields in sorted(self.fields.items()) for field in fields)

    def _dtype(self, set_name: str, field: Field) -> tf.DType:
        return tf.dtypes.as_dtype(schemas.feature_set(self.schema, set_name).features[field.name].dtype)


class Checks:
    """Conditions on a request. The first that does not hold is the answer."""

    def __init__(self) -> None:
        self.asserts: list[tf.Operation] = []

    def require(self, is_fine: tf.Tensor, *message: Any, rows: tf.Tensor | None = None) -> None:
        """Refuses a request, with a message on the first place that is not fine.

        Args:
          is_fine: a condition for each example, or for each item.
          *message: texts and tensors; of a tensor, the value at the place.
          rows: the example of each item.
        """

        def text() -> tf.Tensor:
            place = tf.argmax(tf.logical_not(is_fine))
            parts = [part if isinstance(part, str) else tf.strings.as_string(part[place]) for part in message]
            example = place if rows is None else rows[place]
            return tf.strings.join(["Example ", tf.strings.as_string(example), ": ", *parts])

        self._add(tf.reduce_all(is_fine), text)

    def require_all(self, is_fine: tf.Tensor, *message: Any) -> None:
        """Refuses a request as a whole."""
        parts = [part if isinstance(part, str) else tf.strings.as_string(part) for part in message]
        self._add(is_fine, lambda: tf.strings.join(parts))

    def gate(self, tensors: Any) -> Any:
        """The same tensors, after all that was required."""
        with tf.control_dependencies(self.asserts):
            return tf.nest.map_structure(tf.identity, tensors)

    def _add(self, is_fine: tf.Tensor, text: Callable[[], tf.Tensor]) -> None:
        message = tf.cond(is_fine, lambda: tf.constant(""), text)
        self.asserts.append(tf.debugging.Assert(is_fine, [message], summarize=1))


def _values(checks: Checks, found: tf.RaggedTensor, size: tf.Tensor, shape: tuple[int, ...], where: str) -> tf.Tensor:
    """The values of a field of all examples; each example has to have as many as it has items."""
    count, expected = found.row_lengths(), size * math.prod(shape)
    checks.require(count == expected, f"{where} has ", count, " values; it has to have ", expected, ".")
    return checks.gate(found.values) if not shape else tf.reshape(checks.gate(found.values), [-1, *shape])


def _without_padding(checks: Checks, key: str, array: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The real items of an array with a row for each graph, one after the other."""
    room = tf.shape(array, tf.int64)[1]
    rooms = tf.fill(tf.shape(size), room)
    checks.require((size >= 0) & (size <= room), "its size is ", size, f", but {key!r} has room for ", rooms, ".")
    return tf.boolean_mask(array, tf.sequence_mask(size, room))


def _rows(sizes: tf.Tensor) -> tf.Tensor:
    """The number of the example that each item belongs to."""
    return tf.repeat(tf.range(tf.size(sizes, tf.int64)), sizes)


def _size_key(schema: Any, set_name: str) -> str:
    return f"{'nodes' if set_name in schema.node_sets else 'edges'}/{set_name}.{tfgnn.SIZE_NAME}"


def _key(schema: Any, set_name: str, feature: str) -> str:
    if set_name == schemas.CONTEXT:
        return f"context/{feature}"
    return f"{'nodes' if set_name in schema.node_sets else 'edges'}/{set_name}.{feature}"
