"""Predictions for many records, with Apache Beam: a file of answers for each file of records."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from sggnn_tf.data.on_beam import run_on_beam
from sggnn_tf.files import write_whole
from sggnn_tf.serving.client import Answer, answers, tidy
from sggnn_tf.serving.runtime.layout import DEFAULT
from sggnn_tf.serving.saved_model import latest_version

AT_ONCE = 64


def predict_records(
    folder: str | Path, pattern: str, out: str | Path, *, runner: str = "DirectRunner", beam_options: Sequence[str] = ()
) -> int:
    """Asks an exported model about all records of some files, and writes `OUT/FILE.jsonl` for each of them.

    A line is the answer to a record: `record` (its number in the file), `prediction`, `label` and `confidence`, lists
    with one for each question. A file of answers is written whole or not at all.

    Args:
      folder: a served model, or one of its versions.
      pattern: the files, such as `data/test-*.tfrecord`; those that end in `.gz` are compressed.
      out: where the answers go.
      runner: Beam's runner.
      beam_options: further options of the runner, as on a command line.

    Returns:
      The number of files.
    """
    version = latest_version(folder)
    files = sorted(tf.io.gfile.glob(pattern))
    if not files:
        raise ValueError(f"There is no file {pattern}.")
    names = [Path(file).name for file in files]
    if len(set(names)) < len(names):
        raise ValueError("Two of the files have the same name: predict for one folder at a time.")
    tf.io.gfile.makedirs(str(out))
    run_on_beam(files, _predict_file, runner, beam_options, version=str(version), out=str(out))
    return len(files)


def _predict_file(file: str, version: str, out: str) -> None:
    """Writes the answers to the records of a file."""
    found = enumerate(_answers(file, _model(version)))
    lines = [json.dumps({"record": number, **each.to_dict()}) + "\n" for number, each in found]
    write_whole(f"{out}/{Path(file).name}.jsonl", "".join(lines))


@functools.lru_cache(1)
def _model(version: str) -> Any:
    """The model, loaded once by each worker."""
    return tf.saved_model.load(version)


def _answers(file: str, model: Any) -> Iterator[Answer]:
    records = tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else "").batch(AT_ONCE)
    done = 0
    try:
        for batch in records:
            outputs = model.signatures[DEFAULT](examples=batch)
            yield from answers({name: value.numpy() for name, value in outputs.items()})
            done += len(batch)
    except tf.errors.DataLossError:
        raise ValueError(f"{file} is damaged, or cut off, after {done} records or a few more.") from None
    except tf.errors.InvalidArgumentError as error:
        said = re.sub(r"Example (\d+):", lambda found: f"record {done + int(found[1])}:", tidy(error.message))
        raise ValueError(f"{file}, {said}") from None
    except UnicodeDecodeError:  # TensorFlow quotes what it cannot read.
        raise ValueError(f"{file} holds what is no tf.train.Example, at record {done} or after it.") from None
