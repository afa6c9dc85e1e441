"""The messages (mu): what an edge carries, made of its sender's state and its relation."""

from __future__ import annotations

import abc
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.incoming_edges import IncomingEdges
from sggnn_tf.layers.initializers import RelationMatrices, UniformFanIn, tensor

Weights = dict[str, tf.Tensor]


class Message(keras.layers.Layer, abc.ABC):
    """The base of messages.

    A part of a `RelationalNodeSetUpdate`, which builds it for its relations and calls `prepare` once and
    `rows` in every step.
    """

    uses_relation_vectors = False
    """Whether `prepare` needs the relation vectors."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    @abc.abstractmethod
    def build(self, num_relations: int) -> None:
        """Creates the weights."""

    @abc.abstractmethod
    def prepare(self, relation_vectors: tf.Tensor | None) -> Weights:
        """Returns what all steps share: weights, and work that depends on the relation only."""

    @abc.abstractmethod
    def rows(self, states: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        """Returns the messages, `[rows, units]`, for the stacked states of the senders."""

    def get_build_config(self) -> dict[str, Any] | None:
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable("sggnn_tf")
class MatrixMessage(Message):
    """A matrix for each relation: `mu(h_u, r) = W_r h_u`.

    Args:
      units: the width D of states and messages.
      relation_fans: the fans of the relation matrices' initial values, see `RelationMatrices`.
    """

    def __init__(self, units: int, *, relation_fans: str = "per_matrix", **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.relation_fans = relation_fans

    def build(self, num_relations: int) -> None:
        shape = (num_relations, self.units, self.units)
        self.kernel = self.add_weight(shape=shape, initializer=RelationMatrices(self.relation_fans), name="kernel")

    def prepare(self, relation_vectors: tf.Tensor | None) -> Weights:
        return {"kernel": tensor(self.kernel, self.compute_dtype)}

    def rows(self, states: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        return by_relation_matrix(edges.from_senders(states), edges.row_sizes, weights["kernel"])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "relation_fans": self.relation_fans}


@keras.saving.register_keras_serializable("sggnn_tf")
class ReducedMatrixMessage(Message):
    """A smaller matrix for each relation, between two shared ones: `mu(h_u, r) = W_B W*_r W_A h_u`.

    `W_A h_u` is computed once a node.

    Args:
      units: the width D of states and messages.
      inner_units: the width of the relation matrices.
      skip: whether to add the sender's state, `h_u + W_B W*_r W_A h_u` (not in the paper).
      relation_fans: the fans of the relation matrices' initial values, see `RelationMatrices`.
    """

    def __init__(
        self,
        units: int,
        *,
        inner_units: int = 150,
        skip: bool = False,
        relation_fans: str = "per_matrix",
        **kwargs: Any,
    ) -> None:
        super().__init__(units, **kwargs)
        self.inner_units = inner_units
        self.skip = skip
        self.relation_fans = relation_fans

    def build(self, num_relations: int) -> None:
        units, inner = self.units, self.inner_units
        self.inner_kernel = self.add_weight(shape=(units, inner), initializer=UniformFanIn(units), name="inner_kernel")
        self.kernel = self.add_weight(
            shape=(num_relations, inner, inner), initializer=RelationMatrices(self.relation_fans), name="kernel"
        )
        self.outer_kernel = self.add_weight(shape=(inner, units), initializer=UniformFanIn(inner), name="outer_kernel")

    def prepare(self, relation_vectors: tf.Tensor | None) -> Weights:
        kernels = {"inner": self.inner_kernel, "kernel": self.kernel, "outer": self.outer_kernel}
        return {name: tensor(kernel, self.compute_dtype) for name, kernel in kernels.items()}

    def rows(self, states: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        inner = edges.from_senders(states @ weights["inner"])
        messages = by_relation_matrix(inner, edges.row_sizes, weights["kernel"]) @ weights["outer"]
        return messages + edges.from_senders(states) if self.skip else messages

    def get_config(self) -> dict[str, Any]:
        config = {"inner_units": self.inner_units, "skip": self.skip, "relation_fans": self.relation_fans}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable("sggnn_tf")
class GatedMessage(Message):
    """A gate between the sender's state and an update that knows the relation, by its vector `a_r`.

        c  = CELU(b_A + W_A [h_u; a_r])
        m  = sigmoid(b_M + W_M c)
        u  = b_B + W_B c
        mu = m * h_u + (1 - m) * u

    The weights are shared by all relations. `W_A` is split: its part for `h_u` is computed once a node, that for
    `a_r` once a relation.

    Args:
      units: the width D of states, messages and relation vectors.
      hidden_units: the width of `c` (default: `units`, as printed).
      gate_bias: where `b_M` starts. 0 as printed; at +3 the gate starts near copying (m about 0.95), and gradients
        reach much further.
    """

    uses_relation_vectors = True

    def __init__(self, units: int, *, hidden_units: int | None = None, gate_bias: float = 0.0, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.hidden_units = hidden_units or units
        self.gate_bias = gate_bias

    def build(self, num_relations: int) -> None:
        units, hidden = self.units, self.hidden_units
        self.state_kernel = self.add_weight(
            shape=(units, hidden), initializer=UniformFanIn(2 * units), name="state_kernel"
        )
        self.relation_kernel = self.add_weight(
            shape=(units, hidden), initializer=UniformFanIn(2 * units), name="relation_kernel"
        )
        self.hidden_bias = self.add_weight(shape=(hidden,), initializer=UniformFanIn(2 * units), name="hidden_bias")
        self.gate_kernel = self.add_weight(shape=(hidden, units), initializer=UniformFanIn(hidden), name="gate_kernel")
        gate_bias = UniformFanIn(hidden, self.gate_bias)
        self.gate_bias_weight = self.add_weight(shape=(units,), initializer=gate_bias, name="gate_bias")
        self.update_kernel = self.add_weight(
            shape=(hidden, units), initializer=UniformFanIn(hidden), name="update_kernel"
        )
        self.update_bias = self.add_weight(shape=(units,), initializer=UniformFanIn(hidden), name="update_bias")

    def prepare(self, relation_vectors: tf.Tensor | None) -> Weights:
        dtype = self.compute_dtype
        by_relation = relation_vectors @ tensor(self.relation_kernel, dtype) + tensor(self.hidden_bias, dtype)
        return {
            "state": tensor(self.state_kernel, dtype),
            "relation": by_relation,
            "kernel": tf.concat([tensor(self.gate_kernel, dtype), tensor(self.update_kernel, dtype)], axis=1),
            "bias": tf.concat([tensor(self.gate_bias_weight, dtype), tensor(self.update_bias, dtype)], axis=0),
        }

    def rows(self, states: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        hidden = edges.from_senders(states @ weights["state"]) + edges.from_relations(weights["relation"])
        return gated_mix(tf.nn.elu(hidden) @ weights["kernel"] + weights["bias"], states, edges.row_sender)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "hidden_units": self.hidden_units, "gate_bias": self.gate_bias}


def gated_mix(gate_and_update: tf.Tensor, states: tf.Tensor, sender: tf.Tensor) -> tf.Tensor:
    """`m * h_u + (1 - m) * u`, for `[b_M + W_M c; u]`, `[rows, 2 units]`, and the index of each row's sender.

    The gradient is written out: a loop keeps what it uses, and here that is two tensors of rows, not six.
    """

    @tf.custom_gradient
    def mix(gate_and_update: tf.Tensor, states: tf.Tensor) -> Any:
        gate, update = tf.split(gate_and_update, 2, axis=1)
        gate = tf.sigmoid(gate)
        num_states = states.shape[0] if states.shape[0] is not None else tf.shape(states)[0]

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            to_sent = upstream * gate
            to_update = upstream - to_sent
            to_gate = to_update * gate * (tf.gather(states, sender) - update)
            to_states = tf.math.unsorted_segment_sum(to_sent, sender, num_states)
            return tf.concat([to_gate, to_update], axis=1), to_states

        return update + gate * (tf.gather(states, sender) - update), gradient

    return mix(gate_and_update, states)


def by_relation_matrix(rows: tf.Tensor, sizes: list[Any], kernel: tf.Tensor) -> tf.Tensor:
    """Multiplies each relation's run of rows by the relation's matrix: dense products, no gather of matrices."""
    if not sizes:
        return tf.zeros([0, kernel.shape[-1]], rows.dtype)
    runs = tf.split(rows, sizes)
    return tf.concat([run @ kernel[relation] for relation, run in enumerate(runs)], axis=0)
