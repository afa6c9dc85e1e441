"""Initial weights as in the framework that the paper's experiments used, which differ from Keras' own.

Like all of Keras' initializers, one object makes the same numbers each time: every weight needs its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf


@keras.saving.register_keras_serializable("sggnn_tf")
class UniformFanIn(keras.initializers.RandomUniform):
    """Uniform in +-1/sqrt(fan_in), plus a constant: linear weights, and their biases too.

    Args:
      fan_in: the width of the input of the linear map. For a bias, that of its kernel.
      offset: what is added; a gate that starts open has a bias with an offset. Several, for a bias of several
        gates: one for each of as many equal parts.
      seed: of the random numbers.
    """

    def __init__(self, fan_in: int, offset: float | Sequence[float] = 0.0, seed: int | None = None) -> None:
        bound = 1.0 / math.sqrt(fan_in)
        super().__init__(-bound, bound, seed)
        self.fan_in = fan_in
        if not isinstance(offset, int | float) and not all(isinstance(each, int | float) for each in offset):
            raise ValueError(f"A bias starts at a number, or at several, not at {offset!r}.")
        self.offset = offset if isinstance(offset, int | float) else list(offset)

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        values = super().__call__(shape, dtype)
        if isinstance(self.offset, list):
            return values + tf.cast(np.repeat(self.offset, shape[0] // len(self.offset)), values.dtype)
        return values + tf.cast(self.offset, values.dtype)

    def get_config(self) -> dict[str, Any]:
        return {"fan_in": self.fan_in, "offset": self.offset, "seed": super().get_config()["seed"]}


@keras.saving.register_keras_serializable("sggnn_tf")
class RelationMatrices(keras.initializers.Initializer):
    """Glorot-uniform for a stack of matrices `[relations, inputs, outputs]`.

    Args:
      fans: "per_matrix" takes the fans of one matrix, so that a hop neither shrinks nor grows a state.
        "whole_tensor" takes those that a framework infers for a tensor of three axes (and the gain of a ReLU):
        each hop then shrinks a state, to 0.18 of its size at width 120 with 3 relations. It is there to explain
        published numbers, not to be used.
      seed: of the random numbers.
    """

    def __init__(self, fans: str = "per_matrix", seed: int | None = None) -> None:
        if fans not in ("per_matrix", "whole_tensor"):
            raise ValueError(f"The fans of relation matrices are 'per_matrix' or 'whole_tensor', not {fans!r}.")
        self.fans = fans
        self.uniform = keras.initializers.RandomUniform(-1.0, 1.0, seed)

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        relations, inputs, outputs = shape
        if self.fans == "per_matrix":
            bound = math.sqrt(6.0 / (inputs + outputs))
        else:
            bound = math.sqrt(2.0) * math.sqrt(6.0 / (inputs * outputs + relations * outputs))
        return bound * self.uniform(shape, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"fans": self.fans, "seed": self.uniform.get_config()["seed"]}


@keras.saving.register_keras_serializable("sggnn_tf")
class InTurn(keras.initializers.Initializer):
    """A value at one place of each column, the first in the first row, the next in the second, and so on; else zeros.

    Args:
      value: the value.
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        rows, columns = shape
        chosen = np.arange(rows)[:, None] == np.arange(columns)[None, :] % rows
        return tf.cast(self.value * chosen, dtype or keras.config.floatx())

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


def tensor(weight: Any, dtype: str) -> tf.Tensor:
    """The value of a Keras weight, in the precision of the computation."""
    return tf.cast(tf.convert_to_tensor(weight), dtype)
