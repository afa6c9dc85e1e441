"""TensorFlow's C API by ctypes: its functions, and arrays as its tensors."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tensorflow.core.framework import types_pb2

STRING = types_pb2.DT_STRING
STRING_BYTES = 24  # The size of a TF_TString.
DTYPES: dict[int, np.dtype[Any]] = {
    types_pb2.DT_FLOAT: np.dtype(np.float32),
    types_pb2.DT_DOUBLE: np.dtype(np.float64),
    types_pb2.DT_INT32: np.dtype(np.int32),
    types_pb2.DT_INT64: np.dtype(np.int64),
    types_pb2.DT_BOOL: np.dtype(np.bool_),
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [("data", c_void_p), ("length", c_size_t), ("deallocator", c_void_p)]


class Output(ctypes.Structure):
    """TF_Output: a place in a graph."""

    _fields_ = [("operation", c_void_p), ("index", c_int)]


FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "TF_NewStatus": (c_void_p, []),
    "TF_GetCode": (c_int, [c_void_p]),
    "TF_Message": (c_char_p, [c_void_p]),
    "TF_DeleteStatus": (None, [c_void_p]),
    "TF_NewGraph": (c_void_p, []),
    "TF_DeleteGraph": (None, [c_void_p]),
    "TF_NewSessionOptions": (c_void_p, []),
    "TF_DeleteSessionOptions": (None, [c_void_p]),
    "TF_NewBuffer": (POINTER(Buffer), []),
    "TF_DeleteBuffer": (None, [POINTER(Buffer)]),
    "TF_LoadSessionFromSavedModel": (
        c_void_p,
        [c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_int, c_void_p, POINTER(Buffer), c_void_p],
    ),
    "TF_SessionRun": (
        None,
        [c_void_p, c_void_p]
        + [POINTER(Output), POINTER(c_void_p), c_int] * 2
        + [POINTER(c_void_p), c_int, c_void_p, c_void_p],
    ),
    "TF_CloseSession": (None, [c_void_p, c_void_p]),
    "TF_DeleteSession": (None, [c_void_p, c_void_p]),
    "TF_GraphOperationByName": (c_void_p, [c_void_p, c_char_p]),
    "TF_AllocateTensor": (c_void_p, [c_int, POINTER(c_int64), c_int, c_size_t]),
    "TF_DeleteTensor": (None, [c_void_p]),
    "TF_TensorType": (c_int, [c_void_p]),
    "TF_NumDims": (c_int, [c_void_p]),
    "TF_Dim": (c_int64, [c_void_p, c_int]),
    "TF_TensorByteSize": (c_size_t, [c_void_p]),
    "TF_TensorData": (c_void_p, [c_void_p]),
    "TF_StringInit": (None, [c_void_p]),
    "TF_StringCopy": (None, [c_void_p, c_char_p, c_size_t]),
    "TF_StringGetDataPointer": (c_void_p, [c_void_p]),
    "TF_StringGetSize": (c_size_t, [c_void_p]),
    "TF_StringDealloc": (None, [c_void_p]),
}


@functools.cache
def library() -> Any:
    """The C API of the TensorFlow that is installed, with XLA switched off."""
    spec = sys.modules.get("tensorflow") or importlib.util.find_spec("tensorflow")
    paths = getattr(spec, "__path__", None) or getattr(spec, "submodule_search_locations", None) or []
    found = [Path(path) / "libtensorflow_cc.so.2" for path in paths]
    if not found or not found[0].exists():
        raise ValueError(
            "The C++ runtime of TensorFlow, libtensorflow_cc.so.2, is in the Linux wheel of tensorflow only."
        )
    ctypes.CDLL(str(found[0].with_name("libtensorflow_framework.so.2")), mode=ctypes.RTLD_GLOBAL)
    c = ctypes.CDLL(str(found[0]))
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(c, name)
        function.restype, function.argtypes = result, arguments
    c._ZN10tensorflow21DisableXlaCompilationEv()  # tensorflow::DisableXlaCompilation()
    return c


class Tensor(NamedTuple):
    """A TF_Tensor that we made, with the number of its strings, which are ours to free."""

    pointer: int
    strings: int

    def delete(self) -> None:
        c = library()
        data = c.TF_TensorData(self.pointer)
        for place in range(self.strings):
            c.TF_StringDealloc(data + place * STRING_BYTES)
        c.TF_DeleteTensor(self.pointer)


def dtype_of(array: np.ndarray) -> int:
    """TensorFlow's number for the type of an array."""
    if array.dtype == object:
        return STRING
    if array.dtype not in NUMBERS:
        raise ValueError(f"Arrays of {array.dtype} are not supported.")
    return NUMBERS[array.dtype]


def to_tensor(array: np.ndarray, dtype: int) -> Tensor:
    """A tensor with the values of an array; of `bytes`, if it is of the dtype object."""
    c = library()
    dims = (c_int64 * array.ndim)(*array.shape)
    is_string = dtype == STRING
    size = array.size * STRING_BYTES if is_string else array.nbytes
    pointer = c.TF_AllocateTensor(dtype, dims, array.ndim, size)
    data = c.TF_TensorData(pointer)
    if not is_string:
        ctypes.memmove(data, np.ascontiguousarray(array).ctypes.data, size)
        return Tensor(pointer, 0)
    for place, text in enumerate(array.ravel()):
        c.TF_StringInit(data + place * STRING_BYTES)
        c.TF_StringCopy(data + place * STRING_BYTES, text, len(text))
    return Tensor(pointer, array.size)


def to_array(pointer: int) -> np.ndarray:
    """The values of a tensor, which is freed."""
    c = library()
    try:
        dtype, data = c.TF_TensorType(pointer), c.TF_TensorData(pointer)
        shape = tuple(c.TF_Dim(pointer, place) for place in range(c.TF_NumDims(pointer)))
        if dtype != STRING:
            if dtype not in DTYPES:
                raise ValueError(f"Outputs of the type {types_pb2.DataType.Name(dtype)} are not supported.")
            content = ctypes.string_at(data, c.TF_TensorByteSize(pointer)) if data else b""
            return np.frombuffer(content, DTYPES[dtype]).reshape(shape)
        texts = np.empty(int(np.prod(shape)), object)
        for place in range(len(texts)):
            text = data + place * STRING_BYTES
            texts[place] = ctypes.string_at(c.TF_StringGetDataPointer(text), c.TF_StringGetSize(text))
        return texts.reshape(shape)
    finally:
        c.TF_DeleteTensor(pointer)
