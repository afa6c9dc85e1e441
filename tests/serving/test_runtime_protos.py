"""What the process with the C++ runtime reads by itself: tensors of the protocol, and files of records."""

import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from sggnn_tf.serving.runtime import protos
from sggnn_tf.serving.runtime.records import read_records

ARRAYS = [
    np.array([[1.5, -2.5], [np.inf, 0]], np.float32),
    np.array([1e300, -0.0], np.float64),
    np.array([[[-(2**31)], [2**31 - 1]]], np.int32),
    np.array([-(2**63), 2**63 - 1], np.int64),
    np.array([True, False, True]),
    np.array([b"", b"a\x00b\x00", "é".encode(), b"\xff"], object),
    np.array([[b"a"], [b"b"]], object),
    np.array(7, np.int64),
    np.array(b"text", object),
    np.zeros([0], np.float32),
    np.zeros([3, 0, 2], np.int64),
    np.zeros([0, 2], object),
    np.arange(24, dtype=np.int64).reshape(4, 6)[::2, ::3],
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
def test_arrays_are_the_same_after_the_protocol(array):
    def assert_same(found):
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tolist() == array.tolist()

    proto = tensor_pb2.TensorProto.FromString(protos.to_proto(array).SerializeToString())
    assert_same(protos.to_array(proto))
    assert_same(tf.make_ndarray(proto))
    by_tensorflow = tf.make_tensor_proto(array, tf.string if array.dtype == object else None, array.shape)
    assert_same(protos.to_array(by_tensorflow))


def tensor(dtype=types_pb2.DT_INT64, shape=(), **values):
    proto = tensor_pb2.TensorProto(dtype=dtype, **values)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("INT64", {"int64_val": [7]}), ("FLOAT", {"float_val": [7]}), ("STRING", {"string_val": [b"7"]})],
)
def test_one_value_stands_for_all(dtype, values):
    array = protos.to_array(tensor(getattr(types_pb2, f"DT_{dtype}"), [2, 3], **values))
    assert array.shape == (2, 3)
    assert set(array.ravel().tolist()) == {b"7" if dtype == "STRING" else 7}


def test_one_value_for_very_many_is_refused():
    """A message of 14 bytes would be 67 million numbers."""
    with pytest.raises(ValueError, match="is too large"):
        protos.to_array(tensor(shape=[1 << 26], int64_val=[7]))


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (tensor(shape=[3], int64_val=[1, 2]), r"shape \[3\] has 2 values"),
        (tensor(shape=[1], int64_val=[1, 2]), r"shape \[1\] has 2 values"),
        (tensor(shape=[], int64_val=[]), r"shape \[\] has 0 values"),
        (tensor(shape=[0], int64_val=[1]), r"shape \[0\] has 1 values"),
        (tensor(shape=[-1], int64_val=[1]), "has to have a shape"),
        (tensor(shape=[2, -3], int64_val=[1]), "has to have a shape"),
        (tensor(shape=[2**32, 2**32], int64_val=[1]), "too large"),
        (tensor(shape=[2**63 - 1], int64_val=[1]), "too large"),
        (tensor(shape=[2**62, 4], tensor_content=b""), "too large"),
        (tensor(shape=[2], tensor_content=b"1234567"), "has 7 bytes"),
        (tensor(types_pb2.DT_STRING, [1], tensor_content=b"1"), "string_val"),
        (tensor(types_pb2.DT_HALF, [1], half_val=[1]), "DT_HALF"),
        (tensor(types_pb2.DT_INVALID), "DT_INVALID"),
        (tensor(9999), "9999"),
        (tensor(types_pb2.DT_FLOAT, [1], int64_val=[1]), "has 0 values"),
    ],
)
def test_tensors_that_are_not_what_they_say_are_refused(proto, message):
    with pytest.raises(ValueError, match=message):
        protos.to_array(proto)


def test_a_tensor_of_unknown_rank_is_refused():
    proto = tensor(int64_val=[1])
    proto.tensor_shape.unknown_rank = True
    with pytest.raises(ValueError, match="has to have a shape"):
        protos.to_array(proto)


def test_an_array_of_another_type_is_refused():
    with pytest.raises(ValueError, match="float16"):
        protos.to_proto(np.zeros(3, np.float16))


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in (b"first", b"", b"third " * 100):
            file.write(record)
    return path


def test_records_are_those_that_tensorflow_wrote(records):
    assert list(read_records(records)) == [b"first", b"", b"third " * 100]


def test_a_file_of_records_that_is_cut_off_is_refused_wherever_it_is_cut(records):
    content = records.read_bytes()
    ends = {0, 21, 37, len(content)}
    assert ends == {0, 16 + 5, 16 + 5 + 16, 16 + 5 + 16 + 16 + 600}
    for place in range(len(content)):
        records.write_bytes(content[:place])
        if place in ends:
            assert len(list(read_records(records))) == sorted(ends).index(place)
        else:
            with pytest.raises(ValueError, match="cut off"):
                list(read_records(records))


def test_a_record_that_says_that_it_is_huge_is_refused(records):
    records.write_bytes(struct.pack("<Q", 2**63) + bytes(100))
    with pytest.raises(ValueError, match="cut off"):
        list(read_records(records))
