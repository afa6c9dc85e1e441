"""Warm-up requests: TF Serving runs them when it loads a version; with their answers they are also its check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from sggnn_tf.serving.answers import Case
from sggnn_tf.serving.runtime.layout import WARMUP


def write_warmup(cases: Sequence[Case], name: str, folder: Path) -> None:
    """Writes the requests, each with the live model's answer, which TF Serving ignores and `verify` compares."""
    path = folder / WARMUP
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for case in cases:
            request = predict_pb2.PredictRequest()
            request.model_spec.name, request.model_spec.signature_name = name, case.signature
            response = predict_pb2.PredictResponse(model_spec=request.model_spec)
            for tensors, arrays in ((request.inputs, case.inputs), (response.outputs, case.outputs)):
                for key, array in arrays.items():
                    tensors[key].CopyFrom(_proto(array))
            log = prediction_log_pb2.PredictLog(request=request, response=response)
            file.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())


def _proto(array: np.ndarray) -> tf.compat.v1.TensorProto:
    dtype = tf.string if array.dtype == object else None
    return tf.make_tensor_proto(array, dtype, array.shape)
