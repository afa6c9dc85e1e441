"""Served models on real sockets, and ways to ask them."""

import base64
import http.client
import json
import socket
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving import exports

SECONDS = 30
OK, INVALID, NOT_FOUND = grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
OUTPUTS = {"scores", "prediction", "label", "num_readouts"}


class Served(NamedTuple):
    """Where a server is."""

    grpc: str
    rest: str  # HOST:PORT
    pid: int


class Exported(NamedTuple):
    """A version, and what the live model answers to all strings of `exports.texts`."""

    version: Path
    texts: list
    live: dict


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def stub(served):
    return prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(served.grpc))


def request_of(signature, inputs, name="recall"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for key, values in inputs.items():
        values = np.asarray(values)
        dtype = tf.string if values.dtype.kind in "OSU" else None
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype, values.shape))
    return request


def arrays_of(response):
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


def code_of(call, *arguments):
    """The status of a call, and what is said of it."""
    try:
        call(*arguments, timeout=SECONDS)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return OK, ""


class Rest:
    """Asks by REST, on a connection that is kept."""

    def __init__(self, served):
        self.connection = http.client.HTTPConnection(served.rest, timeout=SECONDS)

    def __call__(self, path="", body=None, method=None, headers=()):
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        path = path if path.startswith("/") and not path.startswith("/metadata") else f"/v1/models/recall{path}"
        self.connection.request(method or ("GET" if body is None else "POST"), path, content, dict(headers))
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


def assert_right(found, exported, places):
    assert found.keys() >= OUTPUTS
    np.testing.assert_allclose(found["scores"], exported.live["scores"][places], rtol=1e-4, atol=1e-4)
    assert np.asarray(found["prediction"]).tolist() == exported.live["prediction"][places].tolist()
    labels = [each if isinstance(each, str) else each.decode() for each in np.asarray(found["label"]).tolist()]
    assert labels == [each.decode() for each in exported.live["label"][places]]
    assert np.asarray(found["num_readouts"]).tolist() == [1] * len(places)


def inputs_of(signature, strings):
    if signature == "serving_default":
        return {"examples": np.array(exports.records(*strings), object)}
    if signature == "graph_tensors":
        return exports.arrays(*strings)
    return {"text": np.array([text.encode() for text in strings], object)}


SIGNATURES = ["serving_default", "graph_tensors", "text"]


def in_json(array):
    if array.dtype != object:
        return array.tolist()
    return [{"b64": base64.b64encode(each).decode()} for each in array]
