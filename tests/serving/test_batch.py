"""Predictions for files of records, by Beam."""

import json

import pytest
import tensorflow as tf

from sggnn_tf.serving.batch import predict_records
from sggnn_tf.serving.client import ask_records, connect
from tests.serving import exports


def write(path, records):
    options = tf.io.TFRecordOptions(compression_type="GZIP" if path.suffix == ".gz" else "")
    with tf.io.TFRecordWriter(str(path), options) as file:
        for record in records:
            file.write(record)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Two files, of which one is compressed and one has more records than are asked at once."""
    folder = tmp_path_factory.mktemp("shards")
    records = exports.tree_examples().records.tolist()
    content = {"test-00000-of-00002.tfrecord": (records * 5)[:70], "test-00001-of-00002.tfrecord.gz": records[3:10]}
    for name, each in content.items():
        write(folder / name, each)
    return folder, content


def test_files_of_answers_hold_what_the_client_is_answered(shards, tmp_path):
    folder, content = shards
    version = exports.trees().version
    assert predict_records(version.parent, f"{folder}/test-*", tmp_path / "out") == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.jsonl" for name in content)
    with connect(str(version)) as client:
        for name, records in content.items():
            lines = [json.loads(line) for line in (tmp_path / "out" / f"{name}.jsonl").read_text().splitlines()]
            expected = ask_records(client, records)
            assert [line["record"] for line in lines] == list(range(len(records)))
            assert [line["prediction"] for line in lines] == [each.predictions for each in expected]
            assert [line["label"] for line in lines] == [each.labels for each in expected]
            for line, each in zip(lines, expected, strict=True):
                assert line["confidence"] == pytest.approx(each.confidences, rel=1e-4)


def bad_record():
    example = tf.train.Example.FromString(exports.tree_examples().records[0])
    example.features.feature["nodes/node.value"].int64_list.value[1] = 999
    return example.SerializeToString()


@pytest.mark.parametrize("bad", ["a value", "no example"])
def test_a_bad_record_names_the_file_and_nothing_is_half_written(bad, shards, tmp_path):
    records = shards[1]["test-00000-of-00002.tfrecord"]
    wrong = bad_record() if bad == "a value" else b"\xff\xfe" * 20
    write(tmp_path / "good.tfrecord", records[:2])
    write(tmp_path / "wrong.tfrecord", [*records, wrong])
    with pytest.raises((OSError, ValueError)) as error:
        predict_records(exports.trees().version, f"{tmp_path}/*.tfrecord", tmp_path / "out")
    assert str(tmp_path / "wrong.tfrecord") in str(error.value)
    expected = f"record {len(records)}: the feature `value`" if bad == "a value" else "at record 64 or after it"
    assert expected in str(error.value)
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left <= {"good.tfrecord.jsonl"}


def test_a_file_that_is_cut_off_is_an_error(shards, tmp_path):
    folder, content = shards
    whole = (folder / next(iter(content))).read_bytes()
    (tmp_path / "cut.tfrecord").write_bytes(whole[:-30])
    with pytest.raises((OSError, ValueError)) as error:
        predict_records(exports.trees().version, f"{tmp_path}/cut.tfrecord", tmp_path / "out")
    assert "cut.tfrecord" in str(error.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_no_files_are_said(tmp_path):
    with pytest.raises(ValueError, match=r"There is no file .*none-"):
        predict_records(exports.trees().version, f"{tmp_path}/none-*", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_of_one_name_are_refused(shards, tmp_path):
    for each in ("a", "b"):
        (tmp_path / each).mkdir()
        write(tmp_path / each / "same.tfrecord", shards[1]["test-00001-of-00002.tfrecord.gz"])
    with pytest.raises(ValueError, match="the same name"):
        predict_records(exports.trees().version, f"{tmp_path}/?/same.tfrecord", tmp_path / "out")


def test_a_folder_without_a_model_is_said(shards, tmp_path):
    with pytest.raises(ValueError, match="There is no exported model"):
        predict_records(tmp_path, f"{shards[0]}/test-*", tmp_path / "out")
