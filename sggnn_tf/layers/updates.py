"""The updates (phi): how a node changes its state, given what it read of its messages."""

from __future__ import annotations

import abc
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.initializers import UniformFanIn, tensor

Weights = dict[str, tf.Tensor]


class Update(keras.layers.Layer, abc.ABC):
    """The base of updates: a part of a `RelationalNodeSetUpdate`."""

    def __init__(self, units: int, *, dropout: float = 0.0, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"{self.name}: a dropout rate is at least 0 and below 1, not {dropout}.")
        self.units = units
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    @abc.abstractmethod
    def build(self) -> None:
        """Creates the weights."""

    @abc.abstractmethod
    def prepare(self, training: bool) -> Weights:
        """Returns what all steps share: weights, and the random mask of this forward pass."""

    @abc.abstractmethod
    def next_state(self, state: tf.Tensor, summary: tf.Tensor, step: Any, weights: Weights) -> tf.Tensor:
        """Returns the new states, `[nodes, units]`, in step number `step`."""

    def get_build_config(self) -> dict[str, Any] | None:
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "dropout": self.dropout, "seed": self.seed}


class _Cell(Update):
    """What gated cells share: two linear maps of `[x; h]`, variational dropout and layer normalisation.

    One dropout mask a forward pass is shared by all nodes and all steps, and by both maps. It is folded into
    their kernels, so that it costs nothing in a step.
    """

    num_gates = 0

    def __init__(self, units: int, *, candidate_bias: bool = False, layer_norm: bool = False, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.candidate_bias = candidate_bias
        self.layer_norm = layer_norm

    def build(self) -> None:
        units, fan_in = self.units, 2 * self.units
        self.gate_kernel = self.add_weight(
            shape=(fan_in, self.num_gates * units), initializer=UniformFanIn(fan_in), name="gate_kernel"
        )
        self.gate_bias = self.add_weight(
            shape=(self.num_gates * units,), initializer=UniformFanIn(fan_in, self.gate_offsets()), name="gate_bias"
        )
        self.candidate_kernel = self.add_weight(
            shape=(fan_in, units), initializer=UniformFanIn(fan_in), name="candidate_kernel"
        )
        if self.candidate_bias:
            self.candidate_bias_weight = self.add_weight(
                shape=(units,), initializer=UniformFanIn(fan_in), name="candidate_bias"
            )
        if self.layer_norm:
            self.norms = [
                (
                    self.add_weight(shape=(fan_in,), initializer="ones", name=f"{map_name}_norm_scale"),
                    self.add_weight(shape=(fan_in,), initializer="zeros", name=f"{map_name}_norm_offset"),
                )
                for map_name in ("gate", "candidate")
            ]

    def gate_offsets(self) -> list[float]:
        """Where the bias of each gate starts."""
        return [0.0] * self.num_gates

    def prepare(self, training: bool) -> Weights:
        dtype = self.compute_dtype
        weights = {
            "gate": tensor(self.gate_kernel, dtype),
            "gate_bias": tensor(self.gate_bias, dtype),
            "candidate": tensor(self.candidate_kernel, dtype),
        }
        if self.candidate_bias:
            weights["candidate_bias"] = tensor(self.candidate_bias_weight, dtype)
        if self.layer_norm:
            for name, (scale, offset) in zip(("gate", "candidate"), self.norms, strict=True):
                weights[f"{name}_scale"], weights[f"{name}_offset"] = tensor(scale, dtype), tensor(offset, dtype)
        if training and self.dropout:
            ones = tf.ones([2 * self.units, 1], dtype)
            mask = keras.random.dropout(ones, self.dropout, seed=self.seed_generator)
            weights["gate"], weights["candidate"] = mask * weights["gate"], mask * weights["candidate"]
        return weights

    def gates(self, summary: tf.Tensor, state: tf.Tensor, weights: Weights) -> tf.Tensor:
        """The linear parts of all gates, side by side."""
        return self._linear(summary, state, "gate", weights)

    def candidate(self, summary: tf.Tensor, state: tf.Tensor, weights: Weights) -> tf.Tensor:
        """The candidate state, of inputs that were reset already."""
        return tf.tanh(self._linear(summary, state, "candidate", weights))

    def _linear(self, summary: tf.Tensor, state: tf.Tensor, name: str, weights: Weights) -> tf.Tensor:
        inputs = tf.concat([summary, state], axis=1)
        if self.layer_norm:
            mean, variance = tf.nn.moments(inputs, axes=[1], keepdims=True)
            inputs = (inputs - mean) * tf.math.rsqrt(variance + 1e-5)
            inputs = inputs * weights[f"{name}_scale"] + weights[f"{name}_offset"]
        result = inputs @ weights[name]
        return result + weights[f"{name}_bias"] if f"{name}_bias" in weights else result

    def get_config(self) -> dict[str, Any]:
        config = {"candidate_bias": self.candidate_bias, "layer_norm": self.layer_norm}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("sggnn_tf")
class GRUUpdate(_Cell):
    """The gated recurrent unit, as the paper prints it; x is the summary of the messages, h the state.

        r  = sigmoid(W_r x + U_r h + b_r)
        z  = sigmoid(W_z x + U_z h + b_z)
        h~ = tanh(W x + U (h * r))
        h' = (1 - z) * h + z * h~

    Args:
      units: the width D.
      dropout: the rate of the variational dropout of `[x; h]`, before both linear maps.
      candidate_bias: whether the candidate has a bias (not in the paper).
      layer_norm: whether to normalise `[x; h]` before each linear map (not in the paper).
      seed: of the dropout.
    """

    num_gates = 2

    def next_state(self, state: tf.Tensor, summary: tf.Tensor, step: Any, weights: Weights) -> tf.Tensor:
        reset, update = tf.split(tf.sigmoid(self.gates(summary, state, weights)), 2, axis=1)
        candidate = self.candidate(summary, state * reset, weights)
        return state + update * (candidate - state)


@keras.saving.register_keras_serializable("sggnn_tf")
class SymmetricGRUUpdate(_Cell):
    """The symmetrically gated recurrent unit (SGRU): the neighbours' summary x can pass unchanged, like the state h.

        r_h, r_x          = sigmoid(W_. x + U_. h + b_.)
        z_x, z_h, z_u     = W_. x + U_. h + b_.
        z^_x, z^_h, z^_u  = softmax over the three, for each unit
        h~ = tanh(W (x * r_x) + U (h * r_h))
        h' = z^_x * x + z^_h * h + z^_u * h~

    Args:
      units: the width D.
      dropout, candidate_bias, layer_norm, seed: see `GRUUpdate`.
      neighbour_bias: where the bias of `z_x` starts, 0 as printed. At +2 most of a summary passes from the start.
    """

    num_gates = 5

    def __init__(self, units: int, *, neighbour_bias: float = 0.0, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.neighbour_bias = neighbour_bias

    def gate_offsets(self) -> list[float]:
        return [0.0, 0.0, self.neighbour_bias, 0.0, 0.0]

    def next_state(self, state: tf.Tensor, summary: tf.Tensor, step: Any, weights: Weights) -> tf.Tensor:
        resets, shares = tf.split(self.gates(summary, state, weights), [2 * self.units, 3 * self.units], axis=1)
        kept_summary, kept_state = after_reset(resets, summary, state)
        candidate = self.candidate(kept_summary, kept_state, weights)
        return mixed_by_softmax(shares, summary, state, candidate)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "neighbour_bias": self.neighbour_bias}


@keras.saving.register_keras_serializable("sggnn_tf")
class DenseUpdate(Update):
    """The update of RGCN: `h' = dropout(activation(x + W_0 h + b))`.

    Args:
      units: the width D.
      dropout: the rate of dropout after the activation: a mask a node, unit and step.
      activation: "relu" by default.
      seed: of the dropout.
    """

    def __init__(self, units: int, *, activation: Any = "relu", **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.activation = keras.activations.get(activation)

    def build(self) -> None:
        uniform = UniformFanIn(self.units)
        self.kernel = self.add_weight(shape=(self.units, self.units), initializer=uniform, name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def prepare(self, training: bool) -> Weights:
        weights = {"kernel": tensor(self.kernel, self.compute_dtype), "bias": tensor(self.bias, self.compute_dtype)}
        if training and self.dropout:
            weights["seed"] = step_seed(self.seed_generator)
        return weights

    def next_state(self, state: tf.Tensor, summary: tf.Tensor, step: Any, weights: Weights) -> tf.Tensor:
        # The bias is added to the summary: TensorFlow 2.21's graph optimiser fails on `relu(x @ w + b + y)`.
        new = self.activation((summary + weights["bias"]) + state @ weights["kernel"])
        return step_dropout(new, self.dropout, step, weights.get("seed"))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "activation": keras.activations.serialize(self.activation)}


@tf.custom_gradient
def after_reset(resets: tf.Tensor, summary: tf.Tensor, state: tf.Tensor) -> Any:
    """Summary and state times the sigmoids of their resets; `resets` is `[r_h; r_x]`, `[nodes, 2 units]`.

    Here and in `mixed_by_softmax` the gradient is written out: a loop keeps what it uses, and this is less.
    """
    of_state, of_summary = tf.split(tf.sigmoid(resets), 2, axis=1)

    def gradient(to_summary: tf.Tensor, to_state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        to_summary, to_state = to_summary * of_summary, to_state * of_state
        to_resets = [to_state * state * (1.0 - of_state), to_summary * summary * (1.0 - of_summary)]
        return tf.concat(to_resets, axis=1), to_summary, to_state

    return (summary * of_summary, state * of_state), gradient


@tf.custom_gradient
def mixed_by_softmax(shares: tf.Tensor, summary: tf.Tensor, state: tf.Tensor, candidate: tf.Tensor) -> Any:
    """The three mixed, each unit by a softmax; `shares` is `[z_x; z_h; z_u]`, `[nodes, 3 units]`."""
    shares = tf.split(shares, 3, axis=1)
    largest = tf.maximum(tf.maximum(*shares[:2]), shares[2])
    of_summary, of_state, of_candidate = (tf.exp(share - largest) for share in shares)
    total = of_summary + of_state + of_candidate
    of_summary, of_state, of_candidate = of_summary / total, of_state / total, of_candidate / total
    mixed = of_summary * summary + of_state * state + of_candidate * candidate

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        to_each = [upstream * of_summary, upstream * of_state, upstream * of_candidate]
        to_shares = [to * (each - mixed) for to, each in zip(to_each, (summary, state, candidate), strict=True)]
        return tf.concat(to_shares, axis=1), *to_each

    return mixed, gradient


def step_seed(generator: keras.random.SeedGenerator) -> tf.Tensor:
    """The seed of all steps of a forward pass."""
    return tf.cast(generator.next(), tf.int32)


def step_dropout(values: tf.Tensor, rate: float, step: Any, seed: tf.Tensor | None) -> tf.Tensor:
    """Dropout with a mask that depends on the seed and the step only, so that a step can be run again."""
    if seed is None:
        return values
    seed = seed + tf.stack([tf.cast(step, tf.int32), 0])  # A generator counts its passes in the second number.
    # As whole numbers, two from each random number of 64 bits: under XLA on a CPU, floats take 30 times as long.
    size = tf.size(values)
    pairs = tf.random.stateless_uniform([(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.uint64)
    numbers = tf.reshape(tf.bitcast(pairs, tf.uint32), [-1])[:size]
    keep = tf.reshape(numbers >= tf.constant(round(rate * 2**32), tf.uint32), tf.shape(values))
    return values * tf.cast(keep, values.dtype) / (1.0 - rate)
