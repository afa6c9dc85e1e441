"""Requests with the answers of the live model, by which an export is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data import Examples
from sggnn_tf.data.codec import Codec
from sggnn_tf.graph import Graph
from sggnn_tf.serving.runtime.layout import DEFAULT
from sggnn_tf.serving.signatures import ARRAYS, NO_PREDICTION
from sggnn_tf.tfgnn_bridge import tfgnn

Arrays = dict[str, np.ndarray]


class Case(NamedTuple):
    """A request to a signature, and its answer."""

    signature: str
    inputs: Arrays
    outputs: Arrays


def make_cases(
    model: Any,
    schema: Any,
    examples: Examples,
    counted: str,
    labels: Sequence[str] | None,
    is_single: bool,
    task_signatures: Sequence[Any],
    most: int,
) -> list[Case]:
    """Requests with one graph, and with several of different sizes (as many as `most`), for each signature.

    The answers come from the live model, on graphs as TF-GNN reads them: nothing of the export takes part.
    For the other arguments see `make_signatures`.
    """
    order = np.argsort(examples.sizes.sum(axis=1), kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, most).round().astype(int))]
    cases = []
    for places in (chosen[-1:], chosen):
        records = examples.records[places]
        graphs = [Codec(schema).decode(record) for record in records]
        outputs = live_answers(model, schema, records, counted, labels, is_single)
        cases.append(Case(DEFAULT, {"examples": records}, outputs))
        cases.append(Case(ARRAYS, as_arrays(schema, graphs), outputs))
        for each in task_signatures:
            cases.append(Case(each.name, each.request(graphs), {**outputs, **each.expected_extras(graphs)}))
    return cases


def live_answers(
    model: Any, schema: Any, records: np.ndarray, counted: str, labels: Sequence[str] | None, is_single: bool
) -> Arrays:
    """What the live model answers to records, as a server is to answer it."""
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    graph = tfgnn.parse_example(spec, tf.constant(list(records))).merge_batch_to_components()
    flat = np.asarray(model(graph, training=False), np.float32)
    sizes = np.ones(len(records), np.int64)
    if counted != schemas.CONTEXT:
        sizes = graph.node_sets[counted].sizes.numpy().astype(np.int64)
    if flat.ndim != 2 or len(flat) != sizes.sum():
        raise ValueError(
            f"The output of the model has the shape {list(flat.shape)}; to be exported it has to be scores, a row for "
            f"each of the {sizes.sum()} items of {counted!r} and a column for each class."
        )
    rows = max(sizes)
    scores = np.zeros([len(records), rows, flat.shape[1]], np.float32)
    prediction = np.full([len(records), rows], NO_PREDICTION, np.int64)
    for graph_number, each in enumerate(np.split(flat, np.cumsum(sizes)[:-1])):
        scores[graph_number, : len(each)] = each
        prediction[graph_number, : len(each)] = each.argmax(axis=-1)
    outputs: Arrays = {"scores": scores, "prediction": prediction}
    if labels is not None:
        texts = np.array([text.encode() for text in (*labels, "")], object)
        outputs["label"] = texts[prediction]  # -1 is the last one.
    if is_single:
        outputs = {name: value[:, 0] for name, value in outputs.items()}
    return {**outputs, "num_readouts": sizes}


def as_arrays(schema: Any, graphs: Sequence[Graph]) -> Arrays:
    """Graphs as the inputs of the signature of plain arrays."""
    codec = Codec(schema)
    found: Arrays = {}
    for name, fields in codec.nodes.items():
        nodes: list[Any] = [graph.nodes[name] for graph in graphs]
        sizes = [each if isinstance(each, int) else len(next(iter(each.values()))) for each in nodes]
        found[f"{name}.#size"] = np.array(sizes, np.int64)
        for field in fields:
            found[f"{name}.{field.name}"] = _padded([np.asarray(each[field.name]) for each in nodes])
    for name, fields in codec.edges.items():
        edges = [np.stack(graph.edges[name], axis=1).astype(np.int64) for graph in graphs]
        found[f"{name}.#size"] = np.array([len(each) for each in edges], np.int64)
        found[f"{name}.#edges"] = _padded(edges)
        for field in fields:
            found[f"{name}.{field.name}"] = _padded([np.asarray(g.edge_features[name][field.name]) for g in graphs])
    for field in codec.context:
        found[f"context.{field.name}"] = np.stack([np.asarray(graph.context[field.name]) for graph in graphs])
    dtypes = {f"{name}.{field.name}": _dtype(schema, name, field.name) for name, field in _all(codec)}
    return {key: array.astype(dtypes.get(key, array.dtype)) for key, array in sorted(found.items())}


def _padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths as one, with zeros (empty texts) after the shorter ones."""
    rows = max(len(array) for array in arrays)
    empty = b"" if arrays[0].dtype == object else 0
    result = np.full([len(arrays), rows, *arrays[0].shape[1:]], empty, arrays[0].dtype)
    for place, array in enumerate(arrays):
        result[place, : len(array)] = array
    return result


def _all(codec: Codec) -> list[tuple[str, Any]]:
    sets = {**codec.nodes, **codec.edges, schemas.CONTEXT: codec.context}
    return [(name, field) for name, fields in sets.items() for field in fields]


def _dtype(schema: Any, set_name: str, feature: str) -> Any:
    dtype = tf.dtypes.as_dtype(schemas.feature_set(schema, set_name).features[feature].dtype)
    return object if dtype == tf.string else dtype.as_numpy_dtype
