"""Data sets in folders: their splits, their shards and their card."""

import json

import pytest
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.data import Examples, read, read_card
from tests.data.records import RECORDS, write
from tests.data.schemas import library, library_graph


@pytest.fixture(autouse=True)
def _same_start():
    """Without a seed, after which TensorFlow would build its functions anew: nothing here is random."""


def write_folder(folder, splits, schema=True):
    """A data set: for each split the records of its shards."""
    tf.io.gfile.makedirs(str(folder))
    if schema:
        with tf.io.gfile.GFile(f"{folder}/schema.pbtxt", "w") as file:
            file.write(schemas.to_text(library()))
    for split, shards in splits.items():
        for number, records in enumerate(shards):
            with tf.io.TFRecordWriter(f"{folder}/{split}-{number:05d}-of-{len(shards):05d}.tfrecord") as writer:
                for record in records:
                    writer.write(record)
    return folder


SPLITS = {"train": [RECORDS[:2], RECORDS[2:3], RECORDS[3:5]], "valid": [RECORDS[5:6]], "test": [RECORDS[6:]]}


def assert_is_read(folder):
    splits = read(folder)
    assert {split: examples.records.tolist() for split, examples in splits.items()} == {
        "train": RECORDS[:5],
        "valid": RECORDS[5:6],
        "test": RECORDS[6:],
    }
    assert all(examples.schema == library() for examples in splits.values())
    return splits


def test_a_folder_is_read_split_by_split(tmp_path):
    folder = write_folder(tmp_path / "data", SPLITS)
    (folder / "notes.txt").write_text("not a record")
    splits = assert_is_read(folder)
    assert_is_read(str(folder))
    assert splits["train"].name_of(4) == f"{folder}/train-00002-of-00003.tfrecord, record 1"


def test_a_compressed_folder_is_read(tmp_path):
    folder = write_folder(tmp_path / "data", {})
    for split, shards in SPLITS.items():
        for number, records in enumerate(shards):
            write(folder / f"{split}-{number:05d}-of-{len(shards):05d}.tfrecord.gz", records)
    assert_is_read(folder)


def test_many_shards_are_read_in_order(tmp_path):
    folder = write_folder(tmp_path / "data", {"train": [[RECORDS[n % 7]] for n in range(12)]})
    assert read(folder)["train"].records.tolist() == [RECORDS[n % 7] for n in range(12)]


@pytest.mark.parametrize("name", ["data [1]", "da*ta", "dä ta", "-data-00000-of-00002"])
def test_a_folder_may_have_any_name(tmp_path, name):
    assert_is_read(write_folder(tmp_path / name, SPLITS))


def test_a_folder_may_be_on_any_file_system_that_tensorflow_knows():
    folder = write_folder("ram://sggnn/data", SPLITS)
    assert_is_read(folder)
    with tf.io.gfile.GFile(f"{folder}/dataset.json", "w") as file:
        file.write("{}")
    assert read_card(folder) == {}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_shard_is_named(tmp_path, number):
    folder = write_folder(tmp_path / "data", SPLITS)
    name = f"train-{number:05d}-of-00003.tfrecord"
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{folder}.*{name}"):
        read(folder)


def test_a_folder_without_a_schema(tmp_path):
    folder = write_folder(tmp_path / "data", SPLITS, schema=False)
    with pytest.raises(ValueError, match=f"{folder}/schema.pbtxt"):
        read(folder)
    with pytest.raises(ValueError, match=str(tmp_path / "none")):
        read(tmp_path / "none")


def test_a_folder_without_records(tmp_path):
    folder = write_folder(tmp_path / "data", {})
    with pytest.raises(ValueError, match=str(folder)):
        read(folder)
    write(folder / "notes.tfrecord", RECORDS)
    with pytest.raises(ValueError, match=str(folder)):
        read(folder)


def test_a_card_is_read(tmp_path):
    card = {"task": "tree_max", "splits": {"train": {"examples": 3}}, "ä": 0.5}
    (tmp_path / "dataset.json").write_text(json.dumps(card, ensure_ascii=False))
    assert read_card(tmp_path) == read_card(str(tmp_path)) == card


def test_a_missing_card(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path}/dataset.json"):
        read_card(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"task": tree_max}', b"\xff\xfe\x00", b"[1, 2]", b"3"])
def test_a_broken_card(tmp_path, content):
    (tmp_path / "dataset.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"{tmp_path}/dataset.json"):
        read_card(tmp_path)


def test_a_split_that_is_there_twice_is_refused(tmp_path):
    examples = Examples.from_graphs([library_graph(2, 2, 1)], library())
    for shards in (1, 2):
        for place in range(shards):
            path = tmp_path / f"train-{place:05d}-of-{shards:05d}.tfrecord"
            with tf.io.TFRecordWriter(str(path)) as writer:
                writer.write(examples.records[0])
    with pytest.raises(ValueError, match="holds the split 'train' twice"):
        read(tmp_path, library())
