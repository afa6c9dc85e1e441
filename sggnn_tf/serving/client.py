"""Asks a served model: by gRPC, by REST, or a folder by way of a server of its own."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc

from sggnn_tf.serving.local import serve
from sggnn_tf.serving.runtime.layout import DEFAULT

Arrays = dict[str, np.ndarray]
SECONDS = 60


class Answer(NamedTuple):
    """What a model says to one graph: a class for each question, and how sure it is."""

    predictions: list[int]
    labels: list[str]
    confidences: list[float]
    extras: dict[str, Any]  # What else the signature tells, such as `within_reach`.

    def to_dict(self) -> dict[str, Any]:
        """The answer as it is written in JSON."""
        found = {"prediction": self.predictions, "label": self.labels, "confidence": self.confidences}
        return {**found, **self.extras}


class Client(Protocol):
    """A way to a served model."""

    def signatures(self) -> list[str]:
        """The names of its signatures."""

    def predict(self, signature: str, key: str, values: Sequence[bytes]) -> Arrays:
        """All outputs of a signature with one input of texts or bytes."""


class GrpcClient:
    """Asks by gRPC.

    Args:
      address: `HOST:PORT`.
      name: of the model.
    """

    def __init__(self, address: str, name: str) -> None:
        channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        self.stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self.name = name

    def signatures(self) -> list[str]:
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = self.name
        found = get_model_metadata_pb2.SignatureDefMap()
        self._call(self.stub.GetModelMetadata, request).metadata["signature_def"].Unpack(found)
        return sorted(name for name in found.signature_def if not name.startswith("__"))

    def predict(self, signature: str, key: str, values: Sequence[bytes]) -> Arrays:
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = self.name, signature
        request.inputs[key].CopyFrom(tf.make_tensor_proto(list(values), tf.string, [len(values)]))
        response = self._call(self.stub.Predict, request)
        return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=SECONDS)
        except grpc.RpcError as error:
            raise ValueError(f"The server answers {error.code().name}: {tidy(error.details())}") from None


class RestClient:
    """Asks by REST.

    Args:
      address: `http://HOST:PORT`, or the whole address of the model.
      name: of the model, if it is not in the address.
    """

    def __init__(self, address: str, name: str) -> None:
        self.address = address.rstrip("/") if "/v1/models/" in address else f"{address.rstrip('/')}/v1/models/{name}"

    def signatures(self) -> list[str]:
        found = self._call("/metadata")["metadata"]["signature_def"]["signature_def"]
        return sorted(name for name in found if not name.startswith("__"))

    def predict(self, signature: str, key: str, values: Sequence[bytes]) -> Arrays:
        coded = [{"b64": base64.b64encode(value).decode()} for value in values]
        outputs = self._call(":predict", {"signature_name": signature, "inputs": {key: coded}})["outputs"]
        arrays = {name: np.array(value) for name, value in outputs.items()}
        return {
            name: np.char.encode(array, "utf-8").astype(object) if array.dtype.kind == "U" else array
            for name, array in arrays.items()
        }

    def _call(self, what: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(f"{self.address}{what}", content, timeout=SECONDS) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise ValueError(f"The server answers {error.code}: {tidy(_message(error.read()))}") from None
        except (urllib.error.URLError, TimeoutError) as error:
            raise ValueError(f"There is no answer from {self.address}: {error}.") from None


@contextlib.contextmanager
def connect(target: str, name: str | None = None) -> Iterator[Client]:
    """A way to a served model.

    Args:
      target: a folder, `http://HOST:PORT` or `HOST:PORT` (gRPC).
      name: of the model; not needed for a folder, nor with `http://HOST:PORT/v1/models/NAME`.
    """
    if Path(target).is_dir():
        with serve(target) as server:
            yield GrpcClient(server.grpc, server.name)
    elif target.startswith(("http://", "https://")):
        if name is None and "/v1/models/" not in target:
            raise ValueError(f"Say which model: {target}/v1/models/NAME, or --name NAME.")
        yield RestClient(target, name or "")
    elif ":" in target:
        if name is None:
            raise ValueError("Say which model, by --name NAME.")
        yield GrpcClient(target, name)
    else:
        raise ValueError(f"{target} is neither a folder nor an address (http://HOST:PORT, or HOST:PORT for gRPC).")


def ask_texts(client: Client, texts: Sequence[str]) -> list[Answer]:
    """Asks the signature `text`."""
    return answers(client.predict("text", "text", [text.encode() for text in texts]))


def ask_records(client: Client, records: Sequence[bytes]) -> list[Answer]:
    """Asks the default signature, with serialized `tf.train.Example`s."""
    return answers(client.predict(DEFAULT, "examples", records))


def answers(outputs: Arrays) -> list[Answer]:
    """The outputs for several graphs, one by one and without padding."""
    extras = outputs.keys() - {"scores", "prediction", "label", "num_readouts"}
    found = []
    for graph, number in enumerate(outputs["num_readouts"].tolist()):
        told = {name: outputs[name][graph].tolist() for name in sorted(extras)}
        if not number:
            found.append(Answer([], [], [], told))
            continue
        classes = outputs["scores"].shape[-1]
        scores = np.asarray(outputs["scores"][graph], np.float64).reshape(-1, classes)[:number]
        predictions = np.reshape(outputs["prediction"][graph], -1)[:number].tolist()
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        labels = [str(each) for each in predictions]
        if "label" in outputs:
            labels = [each.decode() for each in np.reshape(outputs["label"][graph], -1)[:number]]
        found.append(
            Answer(
                predictions,
                labels,
                (odds.max(axis=1) / odds.sum(axis=1)).tolist(),
                told,
            )
        )
    return found


def _message(body: bytes) -> str:
    """What a REST server says of an error."""
    text = body.decode(errors="replace")
    try:
        return str(json.loads(text)["error"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return text


def tidy(message: str) -> str:
    """The sentence in an error of TensorFlow, without where in the graph it arose."""
    refused = re.search(r"assertion failed: \[(.*)\]", message)
    return refused[1] if refused else message.split("\n\t [[")[0]
