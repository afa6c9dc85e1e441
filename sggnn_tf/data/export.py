"""Data sets as files that anyone can read who has TF-GNN: records, a schema and a card.

Each shard is written on its own, by whatever worker Apache Beam gives it to, and depends on nothing but its own
examples: the files are the same, byte for byte, whatever the number of workers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from sggnn_tf import __version__
from sggnn_tf import schema as schemas
from sggnn_tf.data.codec import Codec
from sggnn_tf.data.examples import CARD, SCHEMA, Examples, generate, task_schema
from sggnn_tf.data.on_beam import run_on_beam
from sggnn_tf.files import write_whole
from sggnn_tf.tasks import Task

Splits = Mapping[str, Examples]
Progress = Callable[[int, int], None]


class Shard(NamedTuple):
    """A file to be written: a range of a task's examples, or records as they are."""

    path: str
    split: str
    source: Task | Sequence[bytes]
    numbers: range


def export(
    source: Task | Splits,
    folder: str,
    *,
    shards: int = 1,
    gzip: bool = False,
    form: Literal["records", "saved"] = "records",
    force: bool = False,
    runner: str = "DirectRunner",
    beam_options: Sequence[str] = (),
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Writes a data set to a folder: all of it, or nothing.

    Args:
      source: a task, or examples by the name of their split.
      folder: where to write; it must not exist, unless `force` is set. Any file system that TensorFlow knows.
      shards: the number of files of each split.
      gzip: whether to compress the records.
      form: `records`, which are TFRecord files of `tf.train.Example`s in TF-GNN's encoding; or `saved`, a folder for
        each split for `tf.data.Dataset.load`.
      force: whether to replace what is there.
      runner: the Beam runner that writes the records.
      beam_options: further options of Beam, such as `--direct_num_workers=4`.
      progress: called with the number of examples written so far, and of all.

    Returns:
      The card, which is also in the folder as `dataset.json`.
    """
    folder = str(folder).rstrip("/")
    schema = task_schema(source) if isinstance(source, Task) else _common_schema(source)
    ranges = source.splits if isinstance(source, Task) else {name: range(len(e)) for name, e in source.items()}
    smallest = min(ranges, key=lambda split: len(ranges[split]))
    if not 1 <= shards <= len(ranges[smallest]):
        raise ValueError(
            f"{shards} shards cannot be filled: the split {smallest!r} has {len(ranges[smallest])} examples."
        )
    if tf.io.gfile.exists(folder) and not force:
        raise ValueError(f"{folder} is there already. Choose another folder, or replace it with --force.")
    text = schemas.to_text(schema)
    with _whole_or_not_at_all(folder) as partial:
        if form == "saved":
            splits = _save(source, partial, progress)
        else:
            planned = list(_plan(source, ranges, partial, shards, gzip))
            _write_records(planned, text, gzip, runner, beam_options, progress)
            splits = _facts(planned, partial)
        card = json.loads(json.dumps(_card(source, form, gzip, text, splits)))
        write_whole(f"{partial}/{SCHEMA}", text)
        write_whole(f"{partial}/{CARD}", json.dumps(card, indent=2) + "\n")
    return card


def write_shard(shard: Shard, schema_text: str, gzip: bool) -> None:
    """Writes the records of a shard, and beside them what is to be said of them (for the card)."""
    codec = Codec(schemas.from_text(schema_text))
    hops: Counter[int] = Counter()
    attempt = f"{shard.path}.{uuid.uuid4().hex}"  # A worker may be started twice for one shard.
    with tf.io.TFRecordWriter(attempt, tf.io.TFRecordOptions("GZIP" if gzip else "")) as writer:
        for number in shard.numbers:
            if isinstance(shard.source, Task):
                graph = shard.source.example(number)
                hops.update(shard.source.hops(graph).tolist())
                writer.write(codec.encode(graph))
            else:
                writer.write(shard.source[number - shard.numbers.start])
    facts = {
        "split": shard.split,
        "file": PurePath(shard.path).name,
        "examples": len(shard.numbers),
        "sha256": _checksum(attempt),
        "hops": dict(hops),
    }
    tf.io.gfile.rename(attempt, shard.path, overwrite=True)
    write_whole(f"{shard.path}.json", json.dumps(facts))


def _write_records(
    planned: Sequence[Shard],
    schema_text: str,
    gzip: bool,
    runner: str,
    beam_options: Sequence[str],
    progress: Progress,
) -> None:
    """Has the shards written by Beam."""
    total = sum(len(shard.numbers) for shard in planned)

    def done() -> int:
        return sum(len(shard.numbers) for shard in planned if tf.io.gfile.exists(f"{shard.path}.json"))

    with _reported(lambda: progress(done(), total)):
        run_on_beam(planned, write_shard, runner, beam_options, schema_text=schema_text, gzip=gzip)


def _facts(planned: Sequence[Shard], partial: str) -> dict[str, Any]:
    """What the card says of each split, from what was written beside the shards; which is then deleted."""
    splits: dict[str, Any] = {}
    for shard in planned:
        facts = json.loads(tf.io.gfile.GFile(f"{shard.path}.json").read())
        split = splits.setdefault(facts.pop("split"), {"examples": 0, "hops": Counter(), "shards": []})
        split["examples"] += facts["examples"]
        split["hops"].update({int(distance): count for distance, count in facts.pop("hops").items()})
        split["shards"].append(facts)
    for split in splits.values():
        split["hops"] = {str(distance): split["hops"][distance] for distance in sorted(split["hops"])}
    shards = {PurePath(shard.path).name for shard in planned}
    for name in tf.io.gfile.listdir(partial):
        if name not in shards:  # Also of workers that were started again.
            tf.io.gfile.remove(f"{partial}/{name}")
    return splits


def _plan(source: Task | Splits, ranges: Mapping[str, range], partial: str, shards: int, gzip: bool) -> Iterator[Shard]:
    """The shards: of each split, parts of nearly the same size."""
    for split, numbers in ranges.items():
        for place in range(shards):
            part = numbers[len(numbers) * place // shards : len(numbers) * (place + 1) // shards]
            path = f"{partial}/{split}-{place:05d}-of-{shards:05d}.tfrecord{'.gz' if gzip else ''}"
            records = source if isinstance(source, Task) else source[split].records[part.start : part.stop].tolist()
            yield Shard(path, split, records, part)


def _save(source: Task | Splits, partial: str, progress: Progress) -> dict[str, Any]:
    total = source.num_examples if isinstance(source, Task) else 0
    examples = generate(source, lambda made: progress(made, total)) if isinstance(source, Task) else source
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Encoding a StructuredValue with type tensorflow_gnn")
        for split, each in examples.items():
            each.graphs().save(f"{partial}/{split}")
    return {split: {"examples": len(each)} for split, each in examples.items()}


def _card(source: Task | Splits, form: str, gzip: bool, schema_text: str, splits: Mapping[str, Any]) -> dict[str, Any]:
    made_by = {"task": source.name, "arguments": source.arguments()} if isinstance(source, Task) else {}
    return {
        **made_by,
        "sggnn_tf": __version__,
        "form": form,
        "compression": "gzip" if gzip and form == "records" else None,
        "schema": {"file": SCHEMA, "sha256": hashlib.sha256(schema_text.encode()).hexdigest()},
        "splits": splits,
    }


def _common_schema(splits: Splits) -> Any:
    if not splits:
        raise ValueError("There are no splits to write.")
    first, *others = splits.values()
    if any(schemas.to_text(other.schema) != schemas.to_text(first.schema) for other in others):
        raise ValueError("The splits have different schemas; a data set has one.")
    return first.schema


@contextlib.contextmanager
def _whole_or_not_at_all(folder: str) -> Iterator[str]:
    """A folder to write to, which in the end, if there was no error, takes the place of the one that is named."""
    mark = uuid.uuid4().hex[:8]
    partial, old = f"{folder}.partial-{mark}", f"{folder}.old-{mark}"
    try:
        tf.io.gfile.makedirs(partial)
        yield partial
        if tf.io.gfile.exists(folder):
            tf.io.gfile.rename(folder, old)
        try:
            tf.io.gfile.rename(partial, folder)
        except tf.errors.OpError:
            if tf.io.gfile.exists(old):
                tf.io.gfile.rename(old, folder)
            raise
        if tf.io.gfile.exists(old):
            tf.io.gfile.rmtree(old)
    except (tf.errors.OpError, OSError) as error:
        raise ValueError(f"{folder} cannot be written: {error}") from None
    finally:
        with contextlib.suppress(tf.errors.OpError):
            if tf.io.gfile.exists(partial):
                tf.io.gfile.rmtree(partial)


@contextlib.contextmanager
def _reported(report: Callable[[], None]) -> Iterator[None]:
    """Reports now and then, and once more at the end."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.5):
            report()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    report()


def _checksum(path: str) -> str:
    digest = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
