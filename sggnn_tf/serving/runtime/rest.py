"""TF Serving's REST interface."""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from google.protobuf import json_format

from sggnn_tf.serving.runtime.c_api import DTYPES
from sggnn_tf.serving.runtime.layout import DEFAULT
from sggnn_tf.serving.runtime.model import INVALID_ARGUMENT, NOT_FOUND, Model
from sggnn_tf.serving.runtime.session import Arrays, Input, RunError

MAX_BYTES = 64 << 20
PATH = re.compile(r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+))?(?P<what>/metadata|:[a-z]+)?")


def start(model: Model, port: int) -> tuple[ThreadingHTTPServer, int]:
    """Starts to serve a model on the loopback address; returns the server and its port."""
    handler = type("Handler", (_Handler,), {"model": model})
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise ValueError(f"The port {port} cannot be used: {error}. Choose another by --rest-port.") from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, server.server_address[1]


def predict(model: Model, body: bytes) -> dict[str, Any]:
    """The answer to the body of a request, in the format, rows or columns, that it is in."""
    try:
        request = json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RunError(INVALID_ARGUMENT, f"The request is no JSON: {error}") from None
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        raise RunError(INVALID_ARGUMENT, "A request is an object with either 'instances' (rows) or 'inputs' (columns).")
    unknown = sorted(request.keys() - {"instances", "inputs", "signature_name"})
    if unknown:
        raise RunError(INVALID_ARGUMENT, f"A request has no {unknown[0]!r}.")
    name = request.get("signature_name", DEFAULT)
    if not isinstance(name, str) or name not in model.session.signatures:
        known = ", ".join(sorted(model.session.signatures))
        raise RunError(INVALID_ARGUMENT, f"There is no signature {name!r}; there are {known}.")
    infos = model.session.signatures[name].inputs
    is_rows = "instances" in request
    columns = _columns_of_rows(request["instances"], infos) if is_rows else _columns(request["inputs"], infos)
    arrays = {key: _array(key, value, infos[key]) for key, value in columns.items() if key in infos}
    arrays |= {key: np.zeros(0, np.int64) for key in columns.keys() - infos.keys()}  # They are refused by name.
    outputs = model.predict(name, arrays)
    return (
        {"predictions": _rows(outputs)}
        if is_rows
        else {"outputs": _only({k: _values(k, v) for k, v in outputs.items()})}
    )


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # The end of an answer does not wait for word of its beginning.
    timeout = 60

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def log_message(self, *_: Any) -> None:
        pass

    def _get(self) -> dict[str, Any]:
        what = self._find()
        if what == "/metadata":
            return metadata(self.model)
        if what:
            raise RunError(INVALID_ARGUMENT, f"{what} is asked for by POST.")
        status = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [{"version": str(self.model.version), "state": "AVAILABLE", "status": status}]}

    def _post(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self.close_connection = True
            raise RunError(INVALID_ARGUMENT, "The request has no Content-Length.")
        if int(length) > MAX_BYTES:
            self.close_connection = True  # What is left of it is not read.
            raise RunError(INVALID_ARGUMENT, f"The request has {length} bytes; at most {MAX_BYTES} are taken.")
        body = self.rfile.read(int(length))
        what = self._find()
        if what != ":predict":
            raise RunError(INVALID_ARGUMENT, f"There is no {what or 'POST'} here; there is :predict.")
        return predict(self.model, body)

    def _find(self) -> str:
        match = PATH.fullmatch(self.path)
        if match is None:
            raise RunError(NOT_FOUND, f"There is nothing at {self.path}; there is /v1/models/{self.model.name}.")
        self.model.find(match["name"], int(match["version"]) if match["version"] else None)
        return match["what"] or ""

    def _respond(self, make: Any) -> None:
        status = 200
        try:
            content = make()
        except RunError as error:
            status, content = {INVALID_ARGUMENT: 400, NOT_FOUND: 404}.get(error.code, 500), {"error": str(error)}
        except ValueError as error:
            status, content = 400, {"error": str(error)}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def metadata(model: Model) -> dict[str, Any]:
    """The signatures of a model, as JSON."""
    described = json_format.MessageToDict(model.signature_map(), preserving_proto_field_name=True)
    spec = {"name": model.name, "signature_name": "", "version": str(model.version)}
    return {"model_spec": spec, "metadata": {"signature_def": described}}


def _columns(inputs: Any, infos: Mapping[str, Input]) -> dict[str, Any]:
    if isinstance(inputs, dict) and not _is_binary(inputs):
        return inputs
    return {_only_name(infos): inputs}


def _columns_of_rows(rows: Any, infos: Mapping[str, Input]) -> dict[str, list[Any]]:
    if not isinstance(rows, list) or not rows:
        raise RunError(INVALID_ARGUMENT, "'instances' has to be a list that is not empty.")
    if not any(isinstance(row, dict) and not _is_binary(row) for row in rows):
        return {_only_name(infos): rows}
    if not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        raise RunError(INVALID_ARGUMENT, "All of 'instances' have to have the same inputs.")
    return {key: [row[key] for row in rows] for key in rows[0]}


def _only_name(infos: Mapping[str, Input]) -> str:
    if len(infos) != 1:
        raise RunError(INVALID_ARGUMENT, f"The inputs have to be given by name: {', '.join(infos)}.")
    return next(iter(infos))


def _is_binary(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"}


def _array(key: str, value: Any, info: Input) -> np.ndarray:
    """An array of what stands in JSON, of the type of an input."""
    shape: list[int] = []
    part = value
    while isinstance(part, list):
        shape.append(len(part))
        part = part[0] if part else None
    flat: list[Any] = [value]
    for size in shape:
        if not all(isinstance(each, list) and len(each) == size for each in flat):
            raise RunError(INVALID_ARGUMENT, f"The lists of the input {key!r} are not all of one length.")
        flat = [item for each in flat for item in each]
    if not flat and info.shape is not None and len(shape) < len(info.shape):
        shape += [max(size, 0) for size in info.shape[len(shape) :]]
    dtype = DTYPES.get(info.dtype, np.dtype(object))
    array = np.empty(len(flat), dtype)
    for place, item in enumerate(flat):
        array[place] = _scalar(key, item, dtype)
    return array.reshape(shape)


def _scalar(key: str, item: Any, dtype: np.dtype[Any]) -> Any:
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    try:
        if dtype.kind == "O" and isinstance(item, str):
            return item.encode()
        if dtype.kind == "O" and _is_binary(item):
            return base64.b64decode(item["b64"], validate=True)
        if dtype.kind == "b" and isinstance(item, bool):
            return item
        if dtype.kind == "f" and is_number:
            return float(item)
        if dtype.kind == "i" and is_number and isinstance(item, int) and abs(item) < 1 << (8 * dtype.itemsize - 1):
            return item
    except (binascii.Error, TypeError, ValueError, OverflowError):
        pass
    raise RunError(INVALID_ARGUMENT, f"The input {key!r} has {str(item)[:50]!r}, which is no value of its type.")


def _rows(outputs: Arrays) -> list[Any]:
    columns = {key: _values(key, array) for key, array in outputs.items()}
    number = len(next(iter(outputs.values())))
    return [_only({key: column[row] for key, column in columns.items()}) for row in range(number)]


def _only(values: dict[str, Any]) -> Any:
    """A single output stands for itself."""
    return next(iter(values.values())) if len(values) == 1 else values


def _values(key: str, array: np.ndarray) -> Any:
    """An array as JSON: texts as they are, or in base 64 if the name says that they are bytes."""
    if array.dtype != object:
        return array.tolist()
    texts = np.empty(array.shape, object)
    for place, text in np.ndenumerate(array):
        is_bytes = key.endswith("_bytes")
        texts[place] = {"b64": base64.b64encode(text).decode()} if is_bytes else text.decode(errors="replace")
    return texts.tolist()
