"""Arrays to and from the tensors of TF Serving's protocol."""

from __future__ import annotations

import numpy as np
from tensorflow.core.framework import tensor_pb2, types_pb2

from sggnn_tf.serving.runtime.c_api import DTYPES, STRING, dtype_of

VALUES = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_STRING: "string_val",
}
MAX_VALUES = 1 << 24


def to_array(proto: tensor_pb2.TensorProto) -> np.ndarray:
    """The array of a tensor; of texts, one of `bytes` of the dtype object."""
    if proto.dtype not in VALUES:
        raise ValueError(f"Tensors of the type {types_pb2.DataType.Name(proto.dtype)} are not supported.")
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise ValueError("A tensor has to have a shape.")
    size = 1
    for each in shape:  # Not np.prod, which wraps around.
        size *= each
    if size > MAX_VALUES:
        raise ValueError(f"A tensor of the shape {list(shape)} is too large.")
    if proto.tensor_content:
        if proto.dtype == STRING:
            raise ValueError("The texts of a tensor have to be in string_val.")
        dtype = DTYPES[proto.dtype]
        if len(proto.tensor_content) != size * dtype.itemsize:
            raise ValueError(f"A tensor of the shape {list(shape)} has {len(proto.tensor_content)} bytes.")
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    values = list(getattr(proto, VALUES[proto.dtype]))
    if len(values) != size and not (len(values) == 1 and size):
        raise ValueError(f"A tensor of the shape {list(shape)} has {len(values)} values.")
    dtype = DTYPES.get(proto.dtype, np.dtype(object))
    array = np.empty(size, dtype)
    array[:] = values
    return array.reshape(shape)


def to_proto(array: np.ndarray) -> tensor_pb2.TensorProto:
    """The tensor of an array."""
    proto = tensor_pb2.TensorProto(dtype=dtype_of(array))
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if proto.dtype == STRING:
        proto.string_val.extend(array.ravel().tolist())
    else:
        proto.tensor_content = np.ascontiguousarray(array).tobytes()
    return proto
