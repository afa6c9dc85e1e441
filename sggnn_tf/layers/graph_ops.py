"""Small operations on graphs and features: self loops, dropout of items, empty features."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_access import check_merged, edge_set
from sggnn_tf.layers.graph_layer import ComposedLayer, GraphLayer
from sggnn_tf.tfgnn_bridge import tfgnn


@keras.saving.register_keras_serializable("sggnn_tf")
class AddSelfLoops(GraphLayer):
    """Adds an edge from each node to itself, whether or not it has one.

    Args:
      edge_set_name: the edge set, from a node set to itself.

    Call arguments:
      graph_tensor: a scalar `GraphTensor`.

    Returns:
      The graph with the added edges.
    """

    def __init__(self, edge_set_name: str, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.edge_set_name = edge_set_name

    def call(self, graph_tensor: Any) -> Any:
        check_merged(graph_tensor, self.name)
        adjacency = edge_set(graph_tensor, self.edge_set_name, self.name).adjacency
        if adjacency.source_name != adjacency.target_name:
            raise ValueError(
                f"{self.name}: the edge set {self.edge_set_name!r} leads from the node set {adjacency.source_name!r} "
                f"to {adjacency.target_name!r}; self loops need one from a node set to itself."
            )
        return tfgnn.add_self_loops(graph_tensor, self.edge_set_name)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "edge_set_name": self.edge_set_name}


@keras.saving.register_keras_serializable("sggnn_tf")
class ItemDropout(ComposedLayer):
    """Drops whole items (nodes, edges or components): all features of an item, or none.

    Args:
      rate: the share of items to drop in training; the others are scaled up by `1 / (1 - rate)`.
      seed: of the random numbers.

    Call arguments:
      inputs: a feature of a scalar `GraphTensor`, of shape `[items, ...]`.
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seed = seed

    def build(self, input_shape: Any = None) -> None:
        noise_shape = (None,) + (1,) * (len(input_shape) - 1)
        self.dropout = keras.layers.Dropout(self.rate, noise_shape=noise_shape, seed=self.seed, dtype=self.dtype_policy)
        self.dropout.build(input_shape)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        rank = len(self.dropout.noise_shape)
        if inputs.shape.rank != rank:
            raise ValueError(
                f"{self.name} was built for inputs of rank {rank} and called with rank {inputs.shape.rank}."
            )
        return self.dropout(inputs, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


@keras.saving.register_keras_serializable("sggnn_tf")
class MakeEmptyFeature(GraphLayer):
    """Makes a feature of width 0, for pieces without any, such as latent nodes.

    Call arguments:
      graph_piece: a `NodeSet`, `EdgeSet` or `Context` of a graph, batched or not; or what a callback of
        `MapFeatures` gets for it.

    Returns:
      A tensor of shape `[items, 0]`; for a batch of graphs, a ragged one of shape `[batch, (items), 0]`.
    """

    def __call__(self, graph_piece: Any, **kwargs: Any) -> Any:
        # In a callback of MapFeatures, Keras has to see a symbolic tensor, to know what depends on what.
        return super().__call__(getattr(graph_piece, "no_features", graph_piece), **kwargs)

    def call(self, graph_piece: Any) -> Any:
        if tf.is_tensor(graph_piece):
            return tf.cast(graph_piece, self.compute_dtype)
        if graph_piece.rank == 0:
            return tf.zeros([graph_piece.total_size, 0], self.compute_dtype)
        if graph_piece.rank > 1:
            raise ValueError(f"{self.name} takes graphs of rank 0 or 1, not {graph_piece.rank}.")
        items = tf.reduce_sum(graph_piece.sizes, axis=-1)
        empty = tf.zeros([tf.reduce_sum(items), 0], self.compute_dtype)
        return tf.RaggedTensor.from_row_lengths(empty, items)
