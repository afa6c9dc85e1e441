"""The first states of nodes, made of their features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_access import check_merged, feature, node_set
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.layers.initializers import UniformFanIn, tensor
from sggnn_tf.tfgnn_bridge import tfgnn

CATEGORICAL = "categorical"
DENSE = "dense"

Features = Mapping[str, tuple[str, int]]
"""By feature name: ("categorical", number of values) or ("dense", width)."""


@keras.saving.register_keras_serializable("sggnn_tf")
class InitialStates(GraphLayer):
    """Embeds categorical features in a few dimensions, joins them with dense ones, and projects to the width of states.

    A node set without features gets one learned state for all its nodes. Features of the context go to all nodes.

    Args:
      units: the width of the states.
      embedding_units: the width of each embedding, before the projection.
      node_sets: by name of a node set, what its features are.
      context: what the features of the context are.
      embedding_stddev: the spread of the initial embeddings. 1 is usual. With less, values that mean the same are told
        from others sooner, since what is learned of a value is soon larger than what it started with.
      embedding_gain: embeddings are their weights times this, and the weights start smaller by as much: the same start,
        but under Adam, whose steps are of one size, embeddings learn so many times faster than other weights.
      node_dropout: in training, the share of nodes whose first state is zero. So a model cannot learn graphs by heart.
      seed: of the dropout.

    Call arguments:
      graph: a scalar `GraphTensor`.

    Returns:
      The graph with the states as `tfgnn.HIDDEN_STATE` of these node sets, their only feature.
    """

    def __init__(
        self,
        units: int,
        *,
        embedding_units: int,
        node_sets: Mapping[str, Features],
        context: Features | None = None,
        embedding_stddev: float = 1.0,
        embedding_gain: float = 1.0,
        node_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        if not 0.0 <= node_dropout < 1.0:
            raise ValueError(f"{self.name}: node_dropout is at least 0 and below 1, not {node_dropout}.")
        for option, value in (("embedding_stddev", embedding_stddev), ("embedding_gain", embedding_gain)):
            if not value > 0.0:
                raise ValueError(f"{self.name}: {option} has to be above 0, not {value}.")
        self.embedding_stddev = embedding_stddev
        self.embedding_gain = embedding_gain
        self.node_dropout = node_dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if node_dropout else None
        self.units = units
        self.embedding_units = embedding_units
        self.node_sets = {name: _plain(features) for name, features in sorted(node_sets.items())}
        self.context = _plain(context or {})

    def build(self, graph_spec: Any = None) -> None:
        self.tables = {
            f"{set_name}/{name}": self.add_weight(
                shape=(size, self.embedding_units),
                initializer=keras.initializers.RandomNormal(stddev=self.embedding_stddev / self.embedding_gain),
                name=f"embedding_{index}",
            )
            for index, (set_name, name, size) in enumerate(self._categorical())
        }
        self.kernels = {}
        for index, (set_name, features) in enumerate(self.node_sets.items()):
            width = self._width(features) + self._width(self.context)
            if width == 0:
                initializer, shape = UniformFanIn(self.units), (1, self.units)
            else:
                initializer, shape = UniformFanIn(width), (width, self.units)
            self.kernels[set_name] = self.add_weight(shape=shape, initializer=initializer, name=f"kernel_{index}")

    def call(self, graph: Any, training: bool | None = None) -> Any:
        check_merged(graph, self.name)
        of_context = self._inputs("context", graph.context, self.context)
        states = {}
        for set_name, features in self.node_sets.items():
            nodes = node_set(graph, set_name, self.name)
            inputs = self._inputs(set_name, nodes, features)
            inputs += [tfgnn.broadcast_context_to_nodes(graph, set_name, feature_value=value) for value in of_context]
            kernel = tensor(self.kernels[set_name], self.compute_dtype)
            if inputs:
                states[set_name] = tf.concat(inputs, axis=1) @ kernel
            else:
                states[set_name] = tf.ones([nodes.total_size, 1], self.compute_dtype) * kernel
            if training and self.node_dropout:
                states[set_name] = self._with_hidden_nodes(states[set_name])
        return graph.replace_features(
            node_sets={set_name: {tfgnn.HIDDEN_STATE: state} for set_name, state in states.items()}
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "embedding_units": self.embedding_units,
            "node_sets": {name: dict(features) for name, features in self.node_sets.items()},
            "context": dict(self.context),
            "embedding_stddev": self.embedding_stddev,
            "embedding_gain": self.embedding_gain,
            "node_dropout": self.node_dropout,
            "seed": self.seed,
        }

    def _with_hidden_nodes(self, states: tf.Tensor) -> tf.Tensor:
        """States without those of some nodes; the others are not scaled up: they look as they will without dropout."""
        numbers = keras.random.uniform([tf.shape(states)[0], 1], seed=self.seed_generator)
        return states * tf.cast(numbers >= self.node_dropout, states.dtype)

    def _categorical(self) -> list[tuple[str, str, int]]:
        sets = {**self.node_sets, "context": self.context}
        return [
            (set_name, name, size)
            for set_name, features in sets.items()
            for name, (kind, size) in features.items()
            if kind == CATEGORICAL
        ]

    def _width(self, features: Features) -> int:
        return sum(self.embedding_units if kind == CATEGORICAL else size for kind, size in features.values())

    def _inputs(self, set_name: str, piece: Any, features: Features) -> list[tf.Tensor]:
        inputs = []
        for name, (kind, size) in features.items():
            value = feature(piece, name, f"the set {set_name!r}", self.name)
            if kind == CATEGORICAL:
                rows = tf.gather(tensor(self.tables[f"{set_name}/{name}"], self.compute_dtype), value)
                inputs.append(self.embedding_gain * rows if self.embedding_gain != 1.0 else rows)
            else:
                inputs.append(tf.reshape(tf.cast(value, self.compute_dtype), [-1, size]))
        return inputs


def _plain(features: Features) -> dict[str, tuple[str, int]]:
    """A copy, in the order of names; a file has lists where there were tuples."""
    return {name: (str(kind), int(size)) for name, (kind, size) in sorted(features.items())}
