"""TF Serving's gRPC services, by its official stubs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from sggnn_tf.serving.runtime.layout import DEFAULT
from sggnn_tf.serving.runtime.model import INVALID_ARGUMENT, Model
from sggnn_tf.serving.runtime.protos import to_array, to_proto
from sggnn_tf.serving.runtime.session import RunError

MAX_BYTES = 64 << 20  # Of a request; more is RESOURCE_EXHAUSTED.
MOST_TEXT = 500  # Of an error: TensorFlow quotes what it cannot read, and more than 8 kB would not arrive.
THREADS = 8
STATUS = {code.value[0]: code for code in grpc.StatusCode}


def start(model: Model, port: int) -> tuple[grpc.Server, int]:
    """Starts to serve a model on the loopback address; returns the server and its port."""
    options = [("grpc.max_receive_message_length", MAX_BYTES), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), options=[*options, ("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Prediction(model), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(_Status(model), server)
    try:
        port = server.add_insecure_port(f"127.0.0.1:{port}")
    except RuntimeError:
        raise ValueError(f"The port {port} is in use: choose another by --grpc-port.") from None
    server.start()
    return server, port


class _Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model: Model) -> None:
        self.model = model

    def Predict(self, request: Any, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            _find(self.model, request.model_spec)
            inputs = {key: to_array(proto) for key, proto in request.inputs.items()}
            signature = request.model_spec.signature_name or DEFAULT
            outputs = self.model.predict(signature, inputs, request.output_filter)
            response = predict_pb2.PredictResponse()
            _describe(response.model_spec, self.model, signature)
            for key, array in outputs.items():
                response.outputs[key].CopyFrom(to_proto(array))
            return response

        return _answer(answer, context)

    def GetModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            _find(self.model, request.model_spec)
            wanted = list(request.metadata_field)
            if wanted != ["signature_def"]:
                raise RunError(INVALID_ARGUMENT, f"The metadata there is is signature_def, not {wanted}.")
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            _describe(response.model_spec, self.model, "")
            response.metadata["signature_def"].Pack(self.model.signature_map())
            return response

        return _answer(answer, context)


class _Status(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, model: Model) -> None:
        self.model = model

    def GetModelStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        def answer() -> Any:
            _find(self.model, request.model_spec)
            response = get_model_status_pb2.GetModelStatusResponse()
            available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
            response.model_version_status.add(version=self.model.version, state=available)
            return response

        return _answer(answer, context)


def _find(model: Model, spec: Any) -> None:
    if spec.version_label:
        raise RunError(INVALID_ARGUMENT, "Version labels are not supported here.")
    model.find(spec.name, spec.version.value if spec.HasField("version") else None)


def _describe(spec: Any, model: Model, signature: str) -> None:
    spec.name, spec.signature_name = model.name, signature
    spec.version.value = model.version


def _answer(make: Callable[[], Any], context: Any) -> Any:
    """An answer, or the status of an error."""
    try:
        return make()
    except RunError as error:
        context.abort(STATUS.get(error.code, grpc.StatusCode.UNKNOWN), str(error)[:MOST_TEXT])
    except ValueError as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)[:MOST_TEXT])
