"""The relational graph attention network (RGAT): queries, keys and values of each relation's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import keras
import tensorflow as tf

from sggnn_tf.layers.aggregations import by_head, check_heads, softmax_by_receiver, softmax_sum, weighted_mean
from sggnn_tf.layers.initializers import RelationMatrices, tensor
from sggnn_tf.layers.messages import by_relation_matrix
from sggnn_tf.layers.relational_update import Prepared, States, SteppedNodeSetUpdate
from sggnn_tf.layers.updates import step_dropout, step_seed


@keras.saving.register_keras_serializable("sggnn_tf")
class RGATNodeSetUpdate(SteppedNodeSetUpdate):
    """Attention with relation-specific maps, over all relations together; i receives from j over relation r.

        g_i = W_r z_i
        s   = (Q_r g_i) . (K_r g_j)                              for each head
        z'  = activation([sum over messages of a(s) V_r z_j, ...])

    where `a` normalises the scores over all messages of a node: by their sum, as printed, or by a softmax of
    `s / sqrt(D / H)`. `Q_r W_r` and `K_r W_r` are multiplied once a step for all edges of the relation.

    Args:
      units: the width D.
      relations: the names of the edge sets that are read, together.
      num_heads: the number of heads H; it has to divide the width.
      normaliser: "ratio" as printed, or "softmax". A ratio of scores of both signs is not a distribution, and
        can be anything where their sum is near zero.
      activation: `None` (linear) or "relu"; the paper tried both.
      dropout: the rate of dropout of the result.
      relation_fans: the fans of the matrices' initial values, see `RelationMatrices`.
      seed: of the dropout.

    Call arguments:
      graph: a scalar `GraphTensor` whose node sets have states (`tfgnn.HIDDEN_STATE`) of the same width.
      node_set_name: the node set to update.

    Returns:
      The new states.
    """

    def __init__(
        self,
        units: int,
        relations: Sequence[str],
        *,
        num_heads: int = 2,
        normaliser: Literal["ratio", "softmax"] = "ratio",
        activation: Any = None,
        dropout: float = 0.0,
        relation_fans: str = "per_matrix",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, relations, **kwargs)
        check_heads(units, num_heads, self.name)
        if normaliser not in ("ratio", "softmax"):
            raise ValueError(f"{self.name}: the normaliser is 'ratio' or 'softmax', not {normaliser!r}.")
        self.num_heads = num_heads
        self.normaliser = normaliser
        self.activation = keras.activations.get(activation)
        self.relation_fans = relation_fans
        self.dropout = dropout
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if dropout else None

    def build(self, graph_spec: Any = None) -> None:
        shape = (len(self.relations), self.units, self.units)

        def matrices(name: str) -> Any:
            return self.add_weight(shape=shape, initializer=RelationMatrices(self.relation_fans), name=name)

        self.relation_kernel = matrices("relation_kernel")
        self.query_kernel = matrices("query_kernel")
        self.key_kernel = matrices("key_kernel")
        self.value_kernel = matrices("value_kernel")

    def prepare(self, graph: Any, node_set_name: str, training: bool) -> Prepared:
        dtype = self.compute_dtype
        relation = tensor(self.relation_kernel, dtype)
        query, key, value = (tensor(w, dtype) for w in (self.query_kernel, self.key_kernel, self.value_kernel))
        if self.normaliser == "softmax":
            query = query / math.sqrt(self.units / self.num_heads)
        weights = {"query": relation @ query, "key_value": tf.concat([relation @ key, value], axis=2)}
        if training and self.dropout:
            weights["seed"] = step_seed(self.seed_generator)
        return Prepared(self._edges(graph, node_set_name), {"rgat": weights})

    def step(self, states: States, node_set_name: str, step: Any, prepared: Prepared) -> tf.Tensor:
        scores, values = self._scores_and_values(states, node_set_name, prepared)
        normalised_sum = softmax_sum if self.normaliser == "softmax" else weighted_mean
        result = self.activation(normalised_sum(scores, values, prepared.edges))
        return step_dropout(result, self.dropout, step, prepared.weights["rgat"].get("seed"))

    def edge_weights(self, states: States, node_set_name: str, prepared: Prepared) -> tf.Tensor:
        scores, _ = self._scores_and_values(states, node_set_name, prepared)
        if self.normaliser == "softmax":
            return softmax_by_receiver(scores, prepared.edges)
        total = prepared.edges.from_receivers(prepared.edges.sum_to_receivers(scores))
        return tf.math.divide_no_nan(scores, total)

    def _scores_and_values(self, states: States, node_set_name: str, prepared: Prepared) -> tuple[tf.Tensor, tf.Tensor]:
        edges, weights = prepared.edges, prepared.weights["rgat"]
        senders = edges.from_senders(edges.stacked(states))
        keys, values = tf.split(by_relation_matrix(senders, edges.row_sizes, weights["key_value"]), 2, axis=1)
        receivers = edges.from_receivers(states[node_set_name])
        queries = by_relation_matrix(receivers, edges.edge_sizes, weights["query"])
        scores = tf.reduce_sum(by_head(queries * edges.at_edges(keys), self.num_heads), axis=-1)
        return scores, edges.at_edges(values)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "normaliser": self.normaliser,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "relation_fans": self.relation_fans,
            "seed": self.seed,
        }
