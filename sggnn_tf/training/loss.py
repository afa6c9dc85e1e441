"""The loss of the paper's trainings."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("sggnn_tf")
class SmoothedCrossentropy(keras.losses.Loss):
    """Cross-entropy of integer labels with scores (logits), with label smoothing.

    Args:
      label_smoothing: how much of the weight of the label is spread evenly over all classes.
      scale: a factor of the loss. With `reduction="sum"` and a scale of one over the number of graphs of a batch it is
        the sum over the questions of a graph, in the mean over graphs.
      **kwargs: see `keras.losses.Loss`.
    """

    def __init__(self, label_smoothing: float = 0.0, scale: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**{"name": "smoothed_crossentropy", **kwargs})
        self.label_smoothing = label_smoothing
        self.scale = scale

    def call(self, y_true: Any, y_pred: Any) -> Any:
        log_probabilities = ops.log_softmax(y_pred, axis=-1)
        one_hot = ops.one_hot(y_true, y_pred.shape[-1], dtype=log_probabilities.dtype)
        of_label = -ops.sum(one_hot * log_probabilities, axis=-1)
        of_all = -ops.mean(log_probabilities, axis=-1)
        return self.scale * ((1 - self.label_smoothing) * of_label + self.label_smoothing * of_all)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing, "scale": self.scale}
