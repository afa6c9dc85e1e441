"""A version of a model that is being served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tensorflow_serving.apis import get_model_metadata_pb2, prediction_log_pb2

from sggnn_tf.serving.runtime.layout import DEFAULT, WARMUP
from sggnn_tf.serving.runtime.protos import to_array
from sggnn_tf.serving.runtime.records import read_records
from sggnn_tf.serving.runtime.session import Arrays, RunError, Session

INVALID_ARGUMENT, NOT_FOUND = 3, 5  # Status codes, of gRPC and of TensorFlow.


class Model:
    """A version that is loaded and warm.

    Args:
      folder: the version.
      name: what clients call the model.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.version = int(folder.name) if folder.name.isdecimal() else 1
        self.session = Session(folder)
        if (folder / WARMUP).exists():
            for record in read_records(folder / WARMUP):
                request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
                self.predict(
                    request.model_spec.signature_name,
                    {key: to_array(proto) for key, proto in request.inputs.items()},
                )

    def find(self, name: str, version: int | None = None) -> None:
        """Refuses a request for another model or version."""
        if name != self.name:
            raise RunError(NOT_FOUND, f"There is no model {name!r} here; there is {self.name!r}.")
        if version not in (None, self.version):
            raise RunError(NOT_FOUND, f"There is no version {version} of {name!r} here; there is {self.version}.")

    def predict(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] = ()) -> Arrays:
        """The outputs of a signature; an empty name is the default one."""
        return self.session.run(signature or DEFAULT, inputs, outputs)

    def signature_map(self) -> get_model_metadata_pb2.SignatureDefMap:
        """The signatures, as the protocol has them."""
        found = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in self.session.meta_graph.signature_def.items():
            found.signature_def[name].CopyFrom(signature)
        return found
