"""Data sets of serialised graphs, wherever they come from."""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data.codec import Codec
from sggnn_tf.data.padding import Sets
from sggnn_tf.data.survey import survey
from sggnn_tf.graph import Graph
from sggnn_tf.tasks import Task
from sggnn_tf.tfgnn_bridge import tfgnn

CARD, SCHEMA = "dataset.json", "schema.pbtxt"
AT_ONCE = 1024


class Examples:
    """Graphs of one schema in a fixed order, held in memory as TF-GNN's records (`tf.train.Example`s).

    Made by `from_graphs`, `from_records`, `generate` or `read`.

    Args:
      schema: a `tfgnn.GraphSchema`.
      records: the serialised graphs.
      sources: where they are from, in order: a name, and how many are from there.
    """

    def __init__(self, schema: Any, records: Sequence[bytes], sources: Sequence[tuple[str, int]]) -> None:
        if not len(records):
            names = ", ".join(name for name, _ in sources)
            raise ValueError(f"There are no graphs in {names or 'the data set'}: a data set needs at least one.")
        self.schema = schema
        self.records = np.array(records, object)
        self._names = [name for name, _ in sources]
        self._stops = list(itertools.accumulate(count for _, count in sources))

    @classmethod
    def from_graphs(cls, graphs: Iterable[Graph], schema: Any, name: str = "the list of graphs") -> Examples:
        """A data set of graphs given as arrays.

        Args:
          graphs: the graphs, checked one by one.
          schema: a `tfgnn.GraphSchema`.
          name: what to call the data set in an error.
        """
        codec, records = Codec(schema), []
        for number, graph in enumerate(graphs):
            try:
                records.append(codec.encode(graph))
            except ValueError as error:
                raise ValueError(f"Graph {number} of {name}: {error}") from None
        return cls(schema, records, [(name, len(records))])

    @classmethod
    def from_records(cls, files: str | Path | Sequence[str | Path], schema: Any) -> Examples:
        """A data set of TFRecord files in TF-GNN's encoding.

        Args:
          files: a file, a pattern such as `data/train-*.tfrecord`, or a list of them, read in the order of their names.
            Files that end in `.gz` are compressed.
          schema: a `tfgnn.GraphSchema`, or the file of one.
        """
        if isinstance(schema, str | Path):
            schema = schemas.read(schema)
        patterns = [files] if isinstance(files, str | Path) else files
        paths = [path for pattern in patterns for path in _glob(str(pattern))]
        records: list[bytes] = []
        sources = []
        for path in paths:
            found = _read_file(path)
            records += found
            sources.append((path, len(found)))
        return cls(schema, records, sources)

    def __len__(self) -> int:
        return len(self.records)

    def name_of(self, place: int) -> str:
        """What to call an example in a message: its file, and its place there."""
        source = bisect.bisect_right(self._stops, place)
        first = self._stops[source - 1] if source else 0
        return f"{self._names[source]}, record {place - first}"

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """The number of nodes and edges of each graph, `[graphs, sets]`, in the order of `Sets.of(schema)`.

        All records are checked against the schema on the way: the first that does not fit is an error.
        """
        return survey(self.records, self.schema, self.name_of)

    @property
    def sets(self) -> Sets:
        """The node and edge sets, in the order of `sizes`."""
        return Sets.of(self.schema)

    def graphs(self) -> tf.data.Dataset:
        """The graphs one by one, in order, as `GraphTensor`s."""
        spec = tfgnn.create_graph_spec_from_schema_pb(self.schema)
        data = tf.data.Dataset.from_tensor_slices(tf.constant(self.records, tf.string))
        parse = tf.autograph.experimental.do_not_convert(lambda record: tfgnn.parse_single_example(spec, record))
        return untuned(data.map(parse, num_parallel_calls=os.cpu_count()))


def untuned(data: tf.data.Dataset) -> tf.data.Dataset:
    """A data set whose numbers of threads nobody tunes while it is iterated.

    The thread that tunes looks at an iterator after 10 ms, 20 ms, 40 ms and so on, and who lets go of the iterator may
    have to wait until it looks again: as long as the iterator has lived. Keras lets go of one with each validation, so
    that many epochs took twice their time.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)


def task_schema(task: Task) -> Any:
    """The schema of a task's graphs: the shipped one, with what the task's arguments change."""
    schema = schemas.shipped(task.name)
    for relation, like in task.relations_like.items():
        schema.edge_sets[relation].CopyFrom(schema.edge_sets[like])
        schema.edge_sets[relation].description = f"Like {like}."
    for feature, values in task.values.items():
        set_name, feature_name = schemas.split_label(feature)
        schemas.set_num_values(schema, set_name, feature_name, values)
    return schema


def generate(task: Task, progress: Callable[[int], None] = lambda made: None) -> dict[str, Examples]:
    """The splits of a task, in memory.

    Args:
      task: a task with its arguments.
      progress: called with the number of examples made so far.

    Example: `generate(tasks.ConditionalRecall(length=10))["train"]`.
    """
    schema, made = task_schema(task), itertools.count(1)

    def example(number: int) -> Graph:
        progress(next(made))
        return task.example(number)

    return {
        split: Examples.from_graphs(map(example, numbers), schema, f"{split} of {task.name}")
        for split, numbers in task.splits.items()
    }


def read(folder: str | Path, schema: Any = None) -> dict[str, Examples]:
    """The splits of an exported data set, by name; a shard that is missing is an error.

    Args:
      folder: what `sggnn dataset TASK --out FOLDER` wrote, or any folder with `schema.pbtxt` and records named
        `SPLIT-00000-of-00001.tfrecord` (or `.tfrecord.gz`).
      schema: the schema, if it is not in the folder.
    """
    schema = schemas.read(f"{folder}/{SCHEMA}") if schema is None else schema
    try:
        names = set(tf.io.gfile.listdir(str(folder)))
    except tf.errors.OpError as error:
        raise ValueError(f"The folder {folder} cannot be read: {error.message}") from None
    shards: dict[str, list[str]] = {}
    for name in sorted(names):
        match = re.fullmatch(r"(.+)-\d{5}-of-(\d{5})\.tfrecord(\.gz)?", name)
        if not match:
            continue
        split, count, ending = match[1], int(match[2]), match[3] or ""
        expected = [f"{split}-{place:05d}-of-{count:05d}.tfrecord{ending}" for place in range(count)]
        if shards.setdefault(split, expected) != expected:
            raise ValueError(f"{folder} holds the split {split!r} twice, by {shards[split][0]} and by {name}.")
        missing = [each for each in expected if each not in names]
        if missing:
            raise ValueError(f"{folder} is incomplete: {missing[0]} is missing.")
    if not shards:
        raise ValueError(f"{folder} has no records named SPLIT-00000-of-00001.tfrecord.")
    return {
        split: Examples.from_records([f"{folder}/{name}" for name in each], schema) for split, each in shards.items()
    }


def read_card(folder: str | Path) -> dict[str, Any]:
    """The card of an exported data set."""
    path = f"{folder}/{CARD}"
    try:
        card = json.loads(tf.io.gfile.GFile(str(path)).read())
    except (tf.errors.OpError, ValueError) as error:
        raise ValueError(f"The card {path} cannot be read: {error}") from None
    if not isinstance(card, dict):
        raise ValueError(f"The card {path} cannot be read: it is not a JSON object.")
    return card


def _glob(pattern: str) -> list[str]:
    if tf.io.gfile.exists(pattern):
        return [pattern]
    try:
        paths = sorted(tf.io.gfile.glob(pattern))
    except tf.errors.OpError as error:
        raise ValueError(f"{pattern} cannot be read: {error}") from None
    if not paths:
        raise ValueError(f"There is no file {pattern}.")
    return paths


def _read_file(path: str) -> list[bytes]:
    """All records of a file."""
    records: list[bytes] = []
    data = tf.data.TFRecordDataset(path, compression_type="GZIP" if path.endswith(".gz") else "")
    try:
        for record in data.batch(AT_ONCE):
            records += record.numpy().tolist()
    except tf.errors.OpError as error:
        whole = 0  # A batch is read whole or not at all: which record it was takes a second look.
        try:
            for _ in data:
                whole += 1
        except tf.errors.OpError:
            pass
        raise ValueError(f"{path} is damaged or cut short at record {whole}: {_plain(error)}") from None
    # TensorFlow takes a file that is cut in the head of a record for one that ends there: the length tells.
    length = sum(len(record) + 16 for record in records)
    size = tf.io.gfile.stat(path).length
    if path.endswith(".gz"):
        with tf.io.gfile.GFile(path, "rb") as file:
            file.seek(max(size - 4, 0))
            size = int.from_bytes(file.read(4), "little")  # Where gzip has the length of what it holds.
    if length % 2**32 != size % 2**32:
        raise ValueError(f"{path} is damaged or cut short at record {len(records)}.")
    return records


def _plain(error: tf.errors.OpError) -> str:
    """What TensorFlow says, without where in itself it was."""
    return re.sub(r"^\{\{function_node .*?\}\} *", "", error.message.splitlines()[0])
