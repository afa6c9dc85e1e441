"""The next-state layers: how a piece of the graph makes its new state of its inputs.

A next-state layer is called on a tuple of three nests of tensors, all shaped like features of the piece
that is updated: what comes from the piece itself (a tensor, or a dict by feature name), and what comes
from the two other kinds of pieces (dicts by set name or tag). Any Keras layer that takes this will do.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_layer import ComposedLayer
from sggnn_tf.tfgnn_bridge import tfgnn


@keras.saving.register_keras_serializable("sggnn_tf")
class NextStateFromConcat(ComposedLayer):
    """Concatenates all inputs and transforms them: `transformation([self; others...])`.

    Args:
      transformation: the layer that makes the new state of the concatenated inputs.
    """

    def __init__(self, transformation: keras.layers.Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.transformation = transformation

    def call(self, inputs: Any) -> Any:
        return self.transformation(tf.concat(tf.nest.flatten(inputs), axis=-1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "transformation": self.transformation}


@keras.saving.register_keras_serializable("sggnn_tf")
class ResidualNextState(ComposedLayer):
    """Adds the transformed inputs to the old state: `activation(state + residual_block([self; others...]))`.

    Where the old state has width 0 (a latent node set), there is nothing to add to, and the sum is left out.

    Args:
      residual_block: the layer that makes a change of state of the concatenated inputs.
      activation: an activation, by name, function or layer, applied to the sum.
      skip_connection_feature_name: which input of the piece itself is the old state, if it has several
        (default: `tfgnn.HIDDEN_STATE`).
    """

    def __init__(
        self,
        residual_block: keras.layers.Layer,
        *,
        activation: Any = None,
        skip_connection_feature_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.residual_block = residual_block
        is_layer = isinstance(activation, keras.layers.Layer)
        self.activation = activation if is_layer else keras.layers.Activation(activation)
        self.skip_connection_feature_name = skip_connection_feature_name

    def call(self, inputs: Any) -> Any:
        state = self._old_state(inputs[0])
        change = self.residual_block(tf.concat(tf.nest.flatten(inputs), axis=-1))
        if state.shape[1:].num_elements() == 0:
            return self.activation(change)
        if not state.shape.is_compatible_with(change.shape):
            raise ValueError(
                f"{self.name}: the residual block returned shape {change.shape} for a state of shape {state.shape}; "
                "to be added, they have to be the same."
            )
        # ensure_shape keeps TensorFlow 2.21's graph optimiser from fusing `relu(x @ w + b + state)`: it makes a
        # node without a name of it, and then leaves the whole function as it is, with a page of errors.
        return self.activation(tf.ensure_shape(change, state.shape) + state)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "residual_block": self.residual_block,
            "activation": self.activation,
            "skip_connection_feature_name": self.skip_connection_feature_name,
        }

    def _old_state(self, own_input: Any) -> Any:
        name = self.skip_connection_feature_name
        if not isinstance(own_input, dict):
            if name is not None:
                raise ValueError(
                    f"{self.name}: skip_connection_feature_name={name!r} chooses among several features, but the "
                    "updated piece gave a single one; leave the argument out."
                )
            return own_input
        name = name or tfgnn.HIDDEN_STATE
        if name not in own_input:
            raise ValueError(
                f"{self.name}: the skip connection reads the feature {name!r}, but the updated piece gave "
                f"{sorted(own_input) or 'none'}."
            )
        return own_input[name]


@keras.saving.register_keras_serializable("sggnn_tf")
class SingleInputNextState(ComposedLayer):
    """Replaces the state by the one input from outside, such as that of a node set's single edge set."""

    def call(self, inputs: Any) -> Any:
        _, from_others, from_third = inputs
        if tf.nest.flatten(from_third) or len(from_others) != 1:
            raise ValueError(
                f"{self.name} takes exactly one input besides the old state, but got {sorted(from_others)} and "
                f"{len(tf.nest.flatten(from_third))} more."
            )
        return next(iter(from_others.values()))
