"""A SavedModel in TensorFlow's C++ runtime, by its C API: what TF Serving loads, and how."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from sggnn_tf.serving.runtime import c_api

Arrays = dict[str, np.ndarray]


class RunError(ValueError):
    """A request that the runtime refused.

    Attributes:
      code: TensorFlow's status code, the same number as gRPC's.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Input(NamedTuple):
    """An input or an output of a signature."""

    tensor: str
    dtype: int  # Of `types_pb2.DataType`.
    shape: tuple[int, ...] | None  # -1: any size; None: not even the rank is known.


class Signature(NamedTuple):
    """A function of a SavedModel."""

    inputs: dict[str, Input]
    outputs: dict[str, Input]
    method: str


class Session:
    """A SavedModel that is loaded.

    XLA is switched off in the whole process, as a server does that was not told otherwise.

    Args:
      folder: a version: the folder with `saved_model.pb`.
    """

    def __init__(self, folder: str | Path) -> None:
        if not (Path(folder) / "saved_model.pb").exists():
            raise ValueError(f"{folder} is no SavedModel: it has no saved_model.pb.")
        c = self._c = c_api.library()
        self._graph = c.TF_NewGraph()
        options, meta_graph = c.TF_NewSessionOptions(), c.TF_NewBuffer()
        try:
            with _Status() as status:
                tags = (ctypes.c_char_p * 1)(b"serve")
                path = str(folder).encode()
                self._session = c.TF_LoadSessionFromSavedModel(
                    options, None, path, tags, 1, self._graph, meta_graph, status
                )
            buffer = meta_graph.contents
            self.meta_graph = meta_graph_pb2.MetaGraphDef.FromString(ctypes.string_at(buffer.data, buffer.length))
        finally:
            c.TF_DeleteSessionOptions(options)
            c.TF_DeleteBuffer(meta_graph)
        self.signatures = {
            name: Signature(_infos(each.inputs), _infos(each.outputs), each.method_name)
            for name, each in self.meta_graph.signature_def.items()
            if not name.startswith("__")
        }

    def run(self, signature_name: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] = ()) -> Arrays:
        """The outputs of a signature.

        Args:
          signature_name: its name.
          inputs: an array for each of its inputs; strings as arrays of `bytes` of the dtype object.
          outputs: the names of the outputs to compute; by default, all of them.
        """
        signature = self._signature(signature_name)
        _check_keys("input", signature_name, signature.inputs, inputs)
        for name in outputs:
            if name not in signature.outputs:
                raise RunError(3, f"{signature_name} has no output {name!r}; it has {', '.join(signature.outputs)}.")
        wanted = list(outputs or signature.outputs)
        feeds = [self._output(info.tensor) for info in signature.inputs.values()]
        fetches = [self._output(signature.outputs[name].tensor) for name in wanted]
        tensors = []
        try:
            for name, info in signature.inputs.items():
                tensors.append(c_api.to_tensor(_fitting(name, info, inputs[name]), info.dtype))
            found = (ctypes.c_void_p * len(fetches))()
            with _Status() as status:
                self._c.TF_SessionRun(
                    self._session,
                    None,
                    (c_api.Output * len(feeds))(*feeds),
                    (ctypes.c_void_p * len(feeds))(*(tensor.pointer for tensor in tensors)),
                    len(feeds),
                    (c_api.Output * len(fetches))(*fetches),
                    found,
                    len(fetches),
                    None,
                    0,
                    None,
                    status,
                )
        finally:
            for tensor in tensors:
                tensor.delete()
        return {name: c_api.to_array(pointer) for name, pointer in zip(wanted, found, strict=True)}

    def close(self) -> None:
        """Gives back what the session holds."""
        with _Status() as status:
            self._c.TF_CloseSession(self._session, status)
        with _Status() as status:
            self._c.TF_DeleteSession(self._session, status)
        self._c.TF_DeleteGraph(self._graph)

    def _signature(self, name: str) -> Signature:
        if name not in self.signatures:
            raise RunError(3, f"There is no signature {name!r}; there are {', '.join(sorted(self.signatures))}.")
        return self.signatures[name]

    def _output(self, tensor: str) -> c_api.Output:
        operation, _, index = tensor.partition(":")
        return c_api.Output(self._c.TF_GraphOperationByName(self._graph, operation.encode()), int(index or 0))


def _infos(infos: Mapping[str, Any]) -> dict[str, Input]:
    found = {}
    for key, info in sorted(infos.items()):
        shape = None if info.tensor_shape.unknown_rank else tuple(dim.size for dim in info.tensor_shape.dim)
        found[key] = Input(info.name, info.dtype, shape)
    return found


def _check_keys(what: str, signature: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    missing, unknown = sorted(known.keys() - given.keys()), sorted(given.keys() - known.keys())
    if missing or unknown:
        problem = f"has no {what} {unknown[0]!r}" if unknown else f"needs the {what} {missing[0]!r}"
        raise RunError(3, f"The signature {signature} {problem}; its {what}s are {', '.join(sorted(known))}.")


def _fitting(name: str, info: Input, array: np.ndarray) -> np.ndarray:
    """An array, if it has the type and the shape of an input."""
    if c_api.dtype_of(array) != info.dtype:
        expected, found = types_pb2.DataType.Name(info.dtype), types_pb2.DataType.Name(c_api.dtype_of(array))
        raise RunError(3, f"The input {name!r} is of the type {found}; it has to be {expected}.")
    if info.shape is not None and (
        len(info.shape) != array.ndim
        or any(size not in (-1, found) for size, found in zip(info.shape, array.shape, strict=True))
    ):
        raise RunError(3, f"The input {name!r} has the shape {list(array.shape)}; it has to be {list(info.shape)}.")
    return array


class _Status:
    """A status for a call of the C API; a bad one becomes an error."""

    def __enter__(self) -> Any:
        self.pointer = c_api.library().TF_NewStatus()
        return self.pointer

    def __exit__(self, kind: Any, *_: Any) -> None:
        c = c_api.library()
        code, message = c.TF_GetCode(self.pointer), c.TF_Message(self.pointer).decode(errors="replace")
        c.TF_DeleteStatus(self.pointer)
        if code and kind is None:
            raise RunError(code, message)
