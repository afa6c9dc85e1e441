"""TF-GNN's own way, with Keras 2: a `MultiHeadAttentionConv` for each edge set, and a GRU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras
from tensorflow_gnn.models.multi_head_attention import MultiHeadAttentionConv

from sggnn_tf.bench.problem import Problem
from sggnn_tf.tfgnn_bridge import tfgnn


class GRUNextState(tf_keras.layers.Layer):
    """The next state by a GRU, of all that the edge sets bring, side by side."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.cell = tf_keras.layers.GRUCell(units)

    def call(self, inputs: Any) -> Any:
        state, by_edge_set, _ = inputs
        new, _ = self.cell(tf.concat(list(by_edge_set.values()), axis=1), state)
        return new


class Model(tf_keras.Model):
    """Embedding, projection, a shared graph update several times, and a linear head."""

    def __init__(self, problem: Problem, heads: int = 2) -> None:
        super().__init__()
        self.embedding = tf_keras.layers.Embedding(problem.num_values, problem.embedding_units)
        self.projection = tf_keras.layers.Dense(problem.units, use_bias=False)
        convolutions = {
            f"relation_{relation}": MultiHeadAttentionConv(
                num_heads=heads, per_head_channels=problem.units // heads, receiver_tag=tfgnn.TARGET
            )
            for relation in range(problem.num_relations)
        }
        update = tfgnn.keras.layers.NodeSetUpdate(convolutions, GRUNextState(problem.units))
        self.update = tfgnn.keras.layers.GraphUpdate(node_sets={"node": update})
        self.head = tf_keras.layers.Dense(problem.classes)
        self.steps = problem.steps

    def call(self, graph: Any, asked: Any) -> Any:
        states = self.projection(self.embedding(graph.node_sets["node"]["value"]))
        graph = graph.replace_features(node_sets={"node": {tfgnn.HIDDEN_STATE: states}})
        for _ in range(self.steps):
            graph = self.update(graph)
        return self.head(tf.gather(graph.node_sets["node"][tfgnn.HIDDEN_STATE], asked))


def make(problem: Problem, mode: str) -> tuple[Callable[[], object], int]:
    """One training step or forward pass, and its operations in matrix products, forward."""
    model = Model(problem)
    graph = _graph(problem)
    asked, labels = tf.constant(problem.asked), tf.constant(problem.labels)
    optimizer = tf_keras.optimizers.Adam(problem.learning_rate, global_clipnorm=problem.clip_norm)
    loss_function = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def predict() -> Any:
        return tf.reduce_sum(model(graph, asked))

    @tf.function
    def train() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_function(labels, model(graph, asked))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    run = train if mode == "train" else predict
    return (lambda: run().numpy()), _flops(predict.get_concrete_function().graph)


def _graph(problem: Problem) -> Any:
    nodes = tfgnn.NodeSet.from_fields(sizes=[len(problem.values)], features={"value": tf.constant(problem.values)})
    edge_sets = {}
    for relation in range(problem.num_relations):
        places = problem.relation == relation
        adjacency = tfgnn.Adjacency.from_indices(
            ("node", tf.constant(problem.senders[places])), ("node", tf.constant(problem.receivers[places]))
        )
        edge_sets[f"relation_{relation}"] = tfgnn.EdgeSet.from_fields(sizes=[places.sum()], adjacency=adjacency)
    return tfgnn.GraphTensor.from_pieces(node_sets={"node": nodes}, edge_sets=edge_sets)


def _flops(graph: Any) -> int:
    """The operations of all matrix products in a graph of known shapes."""
    total = 0
    for node in graph.get_operations():
        if node.type in ("MatMul", "BatchMatMulV2"):
            left, right = (tensor.shape.as_list() for tensor in node.inputs)
            total += 2 * math.prod(left) * right[-1]
    return total
