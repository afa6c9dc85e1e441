"""Graphs of plain arrays to and from TF-GNN's records: `tf.train.Example`s, checked against a schema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from sggnn_tf import schema as schemas
from sggnn_tf.graph import Graph
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn

LISTS = {"integer": "int64_list", "float": "float_list", "string": "bytes_list"}
DTYPES = {"integer": np.int64, "float": np.float32, "string": object}


class Field(NamedTuple):
    """A feature of a schema."""

    where: str  # For people: the feature 'symbol' of the node set 'char'.
    name: str
    kind: str  # A key of LISTS.
    shape: tuple[int, ...]  # Of an item.
    ids: Mapping[str, int] | None  # The vocabulary.
    num_values: int | None
    limits: tuple[int, int] | None = None  # Of an integer type.

    @property
    def is_ragged(self) -> bool:
        return any(size < 0 for size in self.shape)


class Codec:
    """Writes graphs of a schema as records, reads records as graphs, and refuses what does not fit the schema.

    The encoding is that of `tfgnn.write_example`, which needs a `GraphTensor` for each graph and takes far longer.

    Args:
      schema: a `tfgnn.GraphSchema`. Features of ragged shape are not read or written here.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.context = _fields(schema, schemas.CONTEXT, schema.context, "the context")
        self.nodes = {
            name: _fields(schema, name, piece, f"the node set {name!r}") for name, piece in schema.node_sets.items()
        }
        self.edges = {
            name: _fields(schema, name, piece, f"the edge set {name!r}") for name, piece in schema.edge_sets.items()
        }

    def encode(self, graph: Graph) -> bytes:
        """The record of a graph."""
        example = tf.train.Example()
        features = example.features.feature
        for key, kind, values in self._checked(graph):
            getattr(features[key], LISTS[kind]).value.extend(values.tolist())
        return example.SerializeToString(deterministic=True)

    def decode(self, record: bytes) -> Graph:
        """The graph of a record, checked."""
        try:
            features = tf.train.Example.FromString(record).features.feature
        except (DecodeError, UnicodeDecodeError):
            raise ValueError("It is not a tf.train.Example: the bytes are damaged.") from None
        nodes: dict[str, Any] = {}
        for name, fields in self.nodes.items():
            size = _size(features, f"nodes/{name}.{tfgnn.SIZE_NAME}", f"the node set {name!r}")
            nodes[name] = _arrays(features, f"nodes/{name}.", fields, size) or size
        edges, edge_features = {}, {}
        for name, fields in self.edges.items():
            prefix, where = f"edges/{name}.", f"the edge set {name!r}"
            size = _size(features, f"{prefix}{tfgnn.SIZE_NAME}", where)
            sources, targets = (
                _array(features, f"{prefix}{end}", Field(f"{end} of {where}", end, "integer", (), None, None), size)
                for end in (tfgnn.SOURCE_NAME, tfgnn.TARGET_NAME)
            )
            edges[name] = (sources, targets)
            edge_features[name] = _arrays(features, f"{prefix}", fields, size)
        context = {name: value[0] for name, value in _arrays(features, "context/", self.context, 1).items()}
        graph = Graph(nodes=nodes, edges=edges, edge_features=edge_features, context=context)
        for _ in self._checked(graph, with_ragged=False):
            pass
        return graph

    def _checked(self, graph: Graph, with_ragged: bool = True) -> Iterator[tuple[str, str, np.ndarray]]:
        """`(key, kind, values)` of all that a graph holds, if it fits the schema."""
        _check_names(graph.nodes, self.nodes, "node set", required=True)
        _check_names(graph.edges, self.edges, "edge set")
        _check_names(graph.edge_features, self.edges, "edge set")
        sizes = {}
        for name, fields in self.nodes.items():
            value = graph.nodes[name]
            fields = [field for field in fields if with_ragged or not field.is_ragged]
            given: Mapping[str, Any] = {} if isinstance(value, int | np.integer) else value
            size = int(value) if isinstance(value, int | np.integer) else None
            if size is not None and size < 0:
                raise ValueError(f"The node set {name!r} has {size} nodes; it has to have 0 or more.")
            arrays = _check_features(given, fields, f"the node set {name!r}", size)
            if size is None:
                if not arrays:
                    raise ValueError(f"The node set {name!r} has no features to count its nodes by: give their number.")
                size = len(next(iter(arrays.values())))
            sizes[name] = size
            yield f"nodes/{name}.{tfgnn.SIZE_NAME}", "integer", np.array([size])
            for field in fields:
                yield f"nodes/{name}.{field.name}", field.kind, arrays[field.name].reshape(-1)
        if not any(size for name, size in sizes.items() if not is_auxiliary(name)):
            raise ValueError("The graph is empty: it has no nodes.")
        for name, fields in self.edges.items():
            ends = graph.edges.get(name, ((), ()))
            sources, targets = self._check_edges(name, ends, sizes)
            where = f"the edge set {name!r}"
            arrays = _check_features(graph.edge_features.get(name, {}), fields, where, len(sources))
            yield f"edges/{name}.{tfgnn.SIZE_NAME}", "integer", np.array([len(sources)])
            yield f"edges/{name}.{tfgnn.SOURCE_NAME}", "integer", sources
            yield f"edges/{name}.{tfgnn.TARGET_NAME}", "integer", targets
            for field in fields:
                yield f"edges/{name}.{field.name}", field.kind, arrays[field.name].reshape(-1)
        given = {name: np.asarray(value)[None] for name, value in graph.context.items()}
        arrays = _check_features(given, self.context, "the context", 1)
        for field in self.context:
            yield f"context/{field.name}", field.kind, arrays[field.name].reshape(-1)

    def _check_edges(self, name: str, ends: tuple[Any, Any], sizes: Mapping[str, int]) -> list[np.ndarray]:
        piece = self.schema.edge_sets[name]
        checked = []
        try:
            sources, targets = ends
            ends = np.asarray(sources), np.asarray(targets)
        except (TypeError, ValueError):
            raise ValueError(
                f"The edge set {name!r} has to be two lists of node numbers: (sources, targets)."
            ) from None
        for values, end, node_set in zip(ends, ("source", "target"), (piece.source, piece.target), strict=True):
            array = np.asarray(values)
            if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
                raise ValueError(f"The {end}s of the edge set {name!r} have to be a list of node numbers.")
            array = array.astype(np.int64)
            if array.size and not (array.min() >= 0 and array.max() < sizes[node_set]):
                edge = int(np.flatnonzero((array < 0) | (array >= sizes[node_set]))[0])
                raise ValueError(
                    f"The {end} of edge {edge} of the edge set {name!r} is node {array[edge]}, but the node set "
                    f"{node_set!r} has {sizes[node_set]} nodes, counted from 0."
                )
            checked.append(array)
        if len(checked[0]) != len(checked[1]):
            raise ValueError(
                f"The edge set {name!r} has {len(checked[0])} sources and {len(checked[1])} targets; each edge has one "
                "of each."
            )
        if name in single_readouts(self.schema) and checked[1].tolist() != list(range(sizes[piece.target])):
            raise ValueError(
                f"The targets of the edge set {name!r} have to be 0 to {sizes[piece.target] - 1}, in this order: one "
                f"edge for each node of {piece.target!r}."
            )
        return checked


def single_readouts(schema: Any) -> list[str]:
    """The edge sets of structured readouts that have one only, whose targets TF-GNN wants to be 0, 1, 2, ..."""
    readouts = [name for name, piece in schema.edge_sets.items() if is_auxiliary(name) and is_auxiliary(piece.target)]
    keys = [tuple(name.split("/")[:2]) for name in readouts]
    return [name for name, key in zip(readouts, keys, strict=True) if keys.count(key) == 1]


def _fields(schema: Any, set_name: str, piece: Any, where: str) -> list[Field]:
    fields = []
    for name, feature in sorted(piece.features.items()):
        dtype = tf.dtypes.as_dtype(feature.dtype)
        kind = "float" if dtype.is_floating else "string" if dtype == tf.string else "integer"
        words = schemas.vocabulary(schema, set_name, name) if kind == "integer" else None
        size = schemas.num_values(schema, set_name, name) if kind == "integer" else None
        ids = None if words is None else {word: number for number, word in enumerate(words)}
        shape = tuple(dim.size for dim in feature.shape.dim)
        limits = (dtype.min, dtype.max) if dtype.is_integer and kind == "integer" else None
        fields.append(Field(f"the feature {name!r} of {where}", name, kind, shape, ids, size, limits))
    return fields


def _check_names(given: Mapping[str, Any], known: Mapping[str, Any], kind: str, required: bool = False) -> None:
    if not given.keys() <= known.keys():
        unknown = sorted(given.keys() - known.keys())[0]
        raise ValueError(f"The graph has the {kind} {unknown!r}, which the schema has not: it has {sorted(known)}.")
    if required and given.keys() != known.keys():
        missing = sorted(known.keys() - given.keys())[0]
        raise ValueError(f"The graph has no {kind} {missing!r}, which the schema has. If it has no nodes, say 0.")


def _check_features(
    given: Mapping[str, Any], fields: Sequence[Field], where: str, size: int | None
) -> dict[str, np.ndarray]:
    """The features of a set as arrays, a row for each of its items."""
    known = [field.name for field in fields]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise ValueError(f"The graph has the feature {unknown[0]!r} of {where}, which in the schema has {known}.")
    arrays = {}
    for field in fields:
        if field.is_ragged:
            raise ValueError(f"Ragged features can be read from records, not from arrays: {field.where}.")
        if field.name not in given:
            if size == 0:
                arrays[field.name] = np.zeros([0, *field.shape], DTYPES[field.kind])
                continue
            raise ValueError(f"The graph lacks {field.where}.")
        array = _check_values(given[field.name], field)
        if array.shape == (0,):
            array = array.reshape([0, *field.shape])
        if size is None:
            size = len(array)
        if array.shape != (size, *field.shape):
            raise ValueError(
                f"The shape of {field.where} is {list(array.shape)}; by the schema and the number of its items it has "
                f"to be {[size, *field.shape]}."
            )
        arrays[field.name] = array
    return arrays


def _check_values(values: Any, field: Field) -> np.ndarray:
    try:
        array = np.asarray(values, object) if field.kind == "string" else np.asarray(values)
    except ValueError:
        raise ValueError(f"The items of {field.where} are not all of one shape.") from None
    if array.ndim == 0:
        raise ValueError(f"A list is needed for {field.where}, not {values!r}.")
    if field.kind == "string":
        texts = array.reshape(-1).tolist()
        for text in texts:
            if not isinstance(text, str | bytes):
                raise ValueError(f"Text is needed for {field.where}, not {text!r}.")
        texts = [text.encode() if isinstance(text, str) else text for text in texts]
        return np.array(texts, object).reshape(array.shape)
    if field.ids is not None and array.dtype.kind in "UO":
        for word in array.reshape(-1).tolist():
            if word not in field.ids:
                raise ValueError(f"T{field.where[1:]} has {word!r}, which is not in its vocabulary.")
        array = np.array([field.ids[word] for word in array.reshape(-1).tolist()], np.int64).reshape(array.shape)
    if not array.size:
        array = array.astype(np.float32 if field.kind == "float" else np.int64)
    if field.kind == "float":
        if array.dtype.kind not in "fiub":
            raise ValueError(f"Numbers are needed for {field.where}, not {array.dtype}.")
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            item = int(np.argwhere(~np.isfinite(array))[0][0])
            raise ValueError(f"Item {item} of {field.where} is not a finite number.")
        return array
    if array.dtype.kind not in "iub":
        raise ValueError(f"Whole numbers are needed for {field.where}, not {array.dtype}.")
    if field.limits and array.size and (int(array.min()) < field.limits[0] or int(array.max()) > field.limits[1]):
        raise ValueError(
            f"A value of {field.where} does not fit its type: it is not from {field.limits[0]} to {field.limits[1]}."
        )
    array = array.astype(np.int64)
    if field.num_values is not None and array.size and not (array.min() >= 0 and array.max() < field.num_values):
        item = int(np.argwhere((array < 0) | (array >= field.num_values))[0][0])
        value = array[(array < 0) | (array >= field.num_values)][0]
        raise ValueError(
            f"Item {item} of {field.where} is {value}; by the schema its values are 0 to {field.num_values - 1}."
        )
    return array


def _size(features: Any, key: str, where: str) -> int:
    values = features[key].int64_list.value if key in features else [0]
    if len(values) != 1 or values[0] < 0:
        raise ValueError(f"The field {key!r}, the size of {where}, is not one number from 0 on: {list(values)[:5]}.")
    return int(values[0])


def _arrays(features: Any, prefix: str, fields: Sequence[Field], size: int) -> dict[str, np.ndarray]:
    return {
        field.name: _array(features, f"{prefix}{field.name}", field, size) for field in fields if not field.is_ragged
    }


def _array(features: Any, key: str, field: Field, size: int) -> np.ndarray:
    """The values of a field of a record."""
    expected = [size, *field.shape]
    if key not in features:
        if math.prod(expected) == 0:
            return np.zeros(expected, DTYPES[field.kind])
        raise ValueError(f"The field {key!r} is missing: {field.where}.")
    found = features[key].WhichOneof("kind") or LISTS[field.kind]
    if found != LISTS[field.kind]:
        raise ValueError(f"The field {key!r} is a {found}; by the schema it has to be a {LISTS[field.kind]}.")
    values = np.array(getattr(features[key], found).value, DTYPES[field.kind])
    if values.size != math.prod(expected):
        raise ValueError(
            f"The field {key!r} has {values.size} values; by the schema and the sizes in the record it has to have "
            f"{math.prod(expected)}: {field.where}."
        )
    return values.reshape(expected)
