"""What a client sends, as graphs: read, checked and merged by TensorFlow operations alone.

An input that is wrong gets an error that names the example and the field, before the model sees it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data.codec import Codec, Field, single_readouts
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn

MAX_ITEMS = 1 << 24  # Of a set of a graph: more is a mistake, or an attack.
MAX_WITHOUT_FEATURES = 1 << 18  # Of a set in a request whose size is all that a client sends of it.
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

        def values(key: str, size: tf.Tensor, where: str) -> tf.Tensor:
            count = read[key].row_lengths()
            checks.require(count == size, " has {} values; it has to have {}.", count, size, where=where)
            return read[key].values

        for name in (*self.schema.node_sets, *self.schema.edge_sets):
            found = read[_size_key(self.schema, name)]
            checks.require(found.row_lengths() <= 1, " has several sizes.", where=repr(name))
            sizes[name] = found.to_tensor(0, shape=[None, 1])[:, 0]  # One that is not there is 0.
        for name in self.schema.edge_sets:
            sources, targets = (
                values(f"edges/{name}.{end}", sizes[name], f"{end} of the edge set {name!r}")
                for end in (tfgnn.SOURCE_NAME, tfgnn.TARGET_NAME)
            )
            ends[name] = (sources, targets)
        for set_name, field in self._all_fields():
            size = tf.ones([number], tf.int64) if set_name == schemas.CONTEXT else sizes[set_name]
            key = _key(self.schema, set_name, field.name)
            features[set_name, field.name] = values(key, size * math.prod(field.shape), field.where)
        return self._graph(Flat(number, sizes, features, ends), checks)

    def from_arrays(self, arrays: Tensors) -> Any:
        """The merged graph of plain arrays, with a row for each graph; what is beyond its size is padding."""
        numbers = tf.stack([tf.shape(array, tf.int64)[0] for array in arrays.values()])
        texts = tf.strings.join([tf.constant([f"{key}: " for key in arrays]), tf.strings.as_string(numbers)])
        message = tf.strings.join(
            ["The inputs are for different numbers of graphs: ", tf.strings.reduce_join(texts, separator=", ")]
        )
        same = tf.debugging.Assert(tf.reduce_all(numbers == numbers[0]), [message], summarize=1)
        with tf.control_dependencies([same]):
            arrays = {key: tf.identity(array) for key, array in arrays.items()}
        checks = Checks()
        sizes = {name: arrays[f"{name}.{SIZE}"] for name in (*self.schema.node_sets, *self.schema.edge_sets)}
        features, ends = {}, {}

        def items(set_name: str, what: str) -> tf.Tensor:
            array, size = arrays[f"{set_name}.{what}"], sizes[set_name]
            room = tf.fill(tf.shape(size), tf.shape(array, tf.int64)[1])
            is_fine = (size >= 0) & (size <= room)
            checks.require(is_fine, " has the size {}, but room for {}.", size, room, where=f"'{set_name}.{what}'")
            return tf.boolean_mask(array, tf.sequence_mask(size, tf.shape(array)[1]))

        for set_name, field in self._all_fields():
            is_context = set_name == schemas.CONTEXT
            key = f"{set_name}.{field.name}"
            features[set_name, field.name] = arrays[key] if is_context else items(set_name, field.name)
        for name in self.schema.edge_sets:
            edges = items(name, EDGES)
            ends[name] = (edges[:, 0], edges[:, 1])
        return self._graph(Flat(numbers[0], sizes, features, ends), checks)

    def _graph(self, flat: Flat, checks: Checks) -> Any:
        """Checks all values, and puts a graph of all graphs together, each a component of it."""
        for name, size in flat.sizes.items():
            most = MAX_ITEMS if name in self.schema.edge_sets or self.fields[name] else MAX_WITHOUT_FEATURES
            is_fine = (size >= 0) & (size <= MAX_ITEMS) & (tf.cumsum(size) <= most)
            checks.require(is_fine, " has the size {}, which is too large or none.", size, where=repr(name))
        flat = checks.gate(flat)  # From here on, there are as many values as the sizes say.
        for set_name, field in self._all_fields():
            flat.features[set_name, field.name] = tf.reshape(flat.features[set_name, field.name], [-1, *field.shape])
        rows = {name: _rows(size) for name, size in flat.sizes.items()}
        rows[schemas.CONTEXT] = tf.range(flat.number)
        self._check(flat, rows, checks)
        number, sizes, features, ends = checks.gate(flat)
        starts = {name: tf.cumsum(size, exclusive=True) for name, size in sizes.items()}

        def of_set(set_name: str) -> dict[str, tf.Tensor]:
            return {
                field.name: tf.cast(features[set_name, field.name], self._dtype(set_name, field))
                for field in self.fields[set_name]
            }

        def moved(places: tf.Tensor, node_set: str, edge_set: str) -> tf.Tensor:
            return places + tf.gather(starts[node_set], rows[edge_set])

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

    def _check(self, flat: Flat, rows: Mapping[str, tf.Tensor], checks: Checks) -> None:
        nodes = tf.add_n([size for name, size in flat.sizes.items() if self._is_graph_node(name)])
        checks.require(nodes > 0, "the graph is empty, it has no nodes.")
        for name, piece in self.schema.edge_sets.items():
            for places, node_set in zip(flat.ends[name], (piece.source, piece.target), strict=True):
                limit = tf.gather(flat.sizes[node_set], rows[name])
                checks.require(
                    (places >= 0) & (places < limit),
                    " ends at node {}, but there are {} nodes, counted from 0.",
                    places,
                    limit,
                    where=f"an edge of {name!r} from or to {node_set!r}",
                    rows=rows[name],
                )
        for name in single_readouts(self.schema):
            size, targets = flat.sizes[name], flat.ends[name][1]
            is_one_each = size == flat.sizes[self.schema.edge_sets[name].target]
            checks.require(is_one_each, " has to have one edge for each readout.", where=repr(name))
            order = tf.range(tf.size(targets, tf.int64)) - tf.gather(tf.cumsum(size, exclusive=True), rows[name])
            problem = ": its targets have to be 0, 1, 2, ..."
            checks.require(targets == order, problem, where=repr(name), rows=rows[name])
        for set_name, field in self._all_fields():
            values = tf.reshape(flat.features[set_name, field.name], [-1, math.prod(field.shape)])
            if field.kind == "float":
                is_fine = tf.reduce_all(tf.math.is_finite(values), axis=1)
                checks.require(is_fine, " is not a finite number.", where=field.where, rows=rows[set_name])
            elif field.num_values is not None:
                values = tf.cast(values, tf.int64)
                is_wrong = (values < 0) | (values >= field.num_values)
                wrong = tf.gather(values, tf.argmax(is_wrong, axis=1), batch_dims=1)
                last = tf.fill(tf.shape(wrong), tf.constant(field.num_values - 1, tf.int64))
                is_fine = tf.logical_not(tf.reduce_any(is_wrong, axis=1))
                problem = " is {}; its values are 0 to {}."
                checks.require(is_fine, problem, wrong, last, where=field.where, rows=rows[set_name])

    def _is_graph_node(self, name: str) -> bool:
        return name in self.schema.node_sets and not is_auxiliary(name)

    def _all_fields(self) -> Iterator[tuple[str, Field]]:
        return ((name, field) for name, fields in sorted(self.fields.items()) for field in fields)

    def _dtype(self, set_name: str, field: Field) -> tf.DType:
        return tf.dtypes.as_dtype(schemas.feature_set(self.schema, set_name).features[field.name].dtype)


class _Condition(NamedTuple):
    is_fine: tf.Tensor
    where: str
    numbers: tuple[tf.Tensor, ...]
    rows: tf.Tensor | None


class Checks:
    """Conditions on a request: the first that does not hold becomes the answer.

    Those with the same message are one assertion, so that the graph of a model stays small.
    """

    def __init__(self) -> None:
        self.conditions: dict[str, list[_Condition]] = {}
        self.asserts: list[tf.Operation] = []

    def require(
        self, is_fine: tf.Tensor, problem: str, *numbers: tf.Tensor, where: str = "", rows: tf.Tensor | None = None
    ) -> None:
        """Refuses a request with an item that is not fine, by `Example 3: WHERE PROBLEM`.

        Args:
          is_fine: a condition for each example, or for each item.
          problem: what to say; for each `{}` in it, one of the numbers of the item.
          *numbers: whole numbers, of each item.
          where: what the items are.
          rows: the example of each item.
        """
        self.conditions.setdefault(problem, []).append(_Condition(is_fine, where, numbers, rows))

    def gate(self, tensors: Any) -> Any:
        """The same tensors, after all that was required."""
        self.asserts += [_assert(problem, conditions) for problem, conditions in self.conditions.items()]
        self.conditions = {}
        with tf.control_dependencies(self.asserts):
            return tf.nest.map_structure(tf.identity, tensors)


def _assert(problem: str, conditions: list[_Condition]) -> tf.Operation:
    """One assertion of several conditions."""
    is_fine = tf.concat([each.is_fine for each in conditions], axis=0)
    place = tf.argmax(tf.concat([tf.logical_not(is_fine), [True]], axis=0))

    def at(parts: list[tf.Tensor]) -> tf.Tensor:
        return tf.reduce_sum(tf.concat(parts, axis=0)[place : place + 1])  # 0, if all is fine.

    sizes = [tf.size(each.is_fine) for each in conditions]
    rows = [tf.range(tf.size(each.is_fine, tf.int64)) if each.rows is None else each.rows for each in conditions]
    kind = at([tf.fill([size], number) for number, size in enumerate(sizes)])
    where = tf.constant([each.where.replace("'", "`") for each in conditions])[kind]  # Errors escape quotes.
    texts: list[Any] = ["Example ", tf.strings.as_string(at(rows)), ": ", where]
    numbers = [
        tf.strings.as_string(at(list(parts))) for parts in zip(*(each.numbers for each in conditions), strict=True)
    ]
    for text, number in itertools.zip_longest(problem.split("{}"), numbers, fillvalue=""):
        texts += [text, number]
    return tf.debugging.Assert(tf.reduce_all(is_fine), [tf.strings.join(texts)], summarize=1)


def _rows(sizes: tf.Tensor) -> tf.Tensor:
    """The number of the example that each item belongs to."""
    ends = tf.cumsum(sizes)
    total = tf.reduce_sum(sizes)
    return tf.searchsorted(ends, tf.range(total), side="right", out_type=tf.int64)


def _size_key(schema: Any, set_name: str) -> str:
    return f"{'nodes' if set_name in schema.node_sets else 'edges'}/{set_name}.{tfgnn.SIZE_NAME}"


def _key(schema: Any, set_name: str, feature: str) -> str:
    if set_name == schemas.CONTEXT:
        return f"context/{feature}"
    return f"{'nodes' if set_name in schema.node_sets else 'edges'}/{set_name}.{feature}"
