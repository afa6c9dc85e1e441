"""The aggregations (gamma): how a node reads its messages, those of all its relations at once."""

from __future__ import annotations

import abc
import math
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.incoming_edges import MANY_RELATIONS, IncomingEdges, take
from sggnn_tf.layers.initializers import InTurn, UniformFanIn, tensor

Weights = dict[str, tf.Tensor]

FOLDED_HEADS = 2
"""Folded queries have a whole message's width for each head: with more heads, that costs more than it saves."""


class Aggregation(keras.layers.Layer, abc.ABC):
    """The base of aggregations: a part of a `RelationalNodeSetUpdate`. A node without messages reads zeros."""

    uses_relation_vectors = False
    """Whether `prepare` needs the relation vectors."""

    def build(self, units: int, num_relations: int) -> None:
        """Creates the weights for messages of this width over so many relations; there may be none."""

    def prepare(self, edges: IncomingEdges, relation_vectors: tf.Tensor | None) -> Weights:
        """Returns what all steps share."""
        return {}

    @abc.abstractmethod
    def summary(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        """Returns what each node reads, `[nodes, units]`, of the messages by row; `state` is the nodes' own."""

    @abc.abstractmethod
    def edge_weights(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        """Returns how much each edge counts in what its receiver reads, `[edges, heads]`: for people to look at."""

    def get_build_config(self) -> dict[str, Any] | None:
        return None

    def get_config(self) -> dict[str, Any]:
        """Keras' own. Without a word of its own, a layer made with a `DTypePolicy` is refused as not serialisable."""
        return super().get_config()


@keras.saving.register_keras_serializable("sggnn_tf")
class Sum(Aggregation):
    """The sum of a node's messages."""

    def summary(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        return edges.sum_to_receivers(edges.at_edges(rows))

    def edge_weights(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        return tf.ones([tf.shape(edges.receiver)[0], 1], rows.dtype)


@keras.saving.register_keras_serializable("sggnn_tf")
class Mean(Aggregation):
    """The mean of a node's messages over all edges that arrive, of all relations."""

    def prepare(self, edges: IncomingEdges, relation_vectors: tf.Tensor | None) -> Weights:
        return {"per_edge": 1.0 / edges.degree(self.compute_dtype)}

    def summary(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        return edges.sum_to_receivers(edges.at_edges(rows)) * weights["per_edge"]

    def edge_weights(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        return edges.from_receivers(weights["per_edge"])


@keras.saving.register_keras_serializable("sggnn_tf")
class Attention(Aggregation):
    """Multi-head attention over all incoming edges of all relations together.

        q_v = Q h_v                              for each head
        k_e = K [mu_e; a_r]                      a_r: the vector of the edge's relation
        w_e = q_v . k_e / sqrt(D / H)
        out = [sum_e softmax(w)_e mu_e, ...]     each head reads its part of the message

    There is no projection of values: a message passes as it is. `K` is split, its part for `a_r` computed once a
    relation. With few heads and relations, keys are folded into queries, `q . (K mu) = (K^T q) . mu`, so that no
    product is left to do for each edge.

    Args:
      num_heads: the number of heads H; it has to divide the width.
      head_bias: if it is not 0, each head has a learned bias for each relation, `w_e + b_r`, and head number i starts
        with this bias for relation number i, in turn. So each head starts by listening along one relation, and
        gradients reach far along every one; without it, all start with the mean over all neighbours. (Not in the
        paper.)
      value_projection: whether to project values, `V mu_e` for each head, as attention elsewhere does. The paper
        found it to hurt; it is here to show that.
    """

    uses_relation_vectors = True

    def __init__(
        self, num_heads: int = 2, *, head_bias: float = 0.0, value_projection: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_bias = head_bias
        self.value_projection = value_projection

    def build(self, units: int, num_relations: int) -> None:
        check_heads(units, self.num_heads, self.name)
        shape = (units, units)
        self.query_kernel = self.add_weight(shape=shape, initializer=UniformFanIn(units), name="query_kernel")
        self.key_kernel = self.add_weight(shape=shape, initializer=UniformFanIn(2 * units), name="key_kernel")
        self.relation_kernel = self.add_weight(shape=shape, initializer=UniformFanIn(2 * units), name="relation_kernel")
        if self.head_bias:
            self.head_bias_weight = self.add_weight(
                shape=(num_relations, self.num_heads), initializer=InTurn(self.head_bias), name="head_bias"
            )
        if self.value_projection:
            self.value_kernel = self.add_weight(shape=shape, initializer=UniformFanIn(units), name="value_kernel")

    def prepare(self, edges: IncomingEdges, relation_vectors: tf.Tensor | None) -> Weights:
        dtype, units = self.compute_dtype, self.query_kernel.shape[0]
        query = tensor(self.query_kernel, dtype) / math.sqrt(units / self.num_heads)
        key = tensor(self.key_kernel, dtype)
        of_relations = relation_vectors @ tensor(self.relation_kernel, dtype)
        if is_folded(self.num_heads, len(edges.relations)):
            query, key, of_relations = (by_head(each, self.num_heads) for each in (query, key, of_relations))
            folded = tf.einsum("ihd,jhd->ihj", query, key)
            by_relation = tf.einsum("ihd,rhd->irh", query, of_relations)
            joined = [tf.reshape(folded, [units, -1]), tf.reshape(by_relation, [units, -1])]
            weights = {"query": tf.concat(joined, axis=1)}
        else:
            weights = {"query": query, "key": key, "relation": of_relations}
        if self.head_bias:
            weights["head_bias"] = tensor(self.head_bias_weight, dtype)
        if self.value_projection:
            weights["value"] = tensor(self.value_kernel, dtype)
        return weights

    def summary(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        values = rows @ weights["value"] if self.value_projection else rows
        return softmax_sum(self._scores(rows, state, edges, weights), edges.at_edges(values), edges)

    def edge_weights(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        return softmax_by_receiver(self._scores(rows, state, edges, weights), edges)

    def _scores(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        scores = self._products(rows, state, edges, weights)
        return scores + edges.relation_at_edges(weights["head_bias"]) if self.head_bias else scores

    def _products(self, rows: tf.Tensor, state: tf.Tensor, edges: IncomingEdges, weights: Weights) -> tf.Tensor:
        queries = state @ weights["query"]
        if is_folded(self.num_heads, len(edges.relations)):
            split = [self.num_heads * rows.shape[1], self.num_heads * len(edges.relations)]
            queries, by_relation = tf.split(queries, split, axis=1)
            by_relation = tf.reshape(by_relation, [-1, self.num_heads])
            by_edge = take(by_relation, edges.receiver_and_relation)
            return folded_scores(queries, edges.at_edges(rows), edges) + by_edge
        keys = rows @ weights["key"] + edges.from_relations(weights["relation"])
        products = edges.from_receivers(queries) * edges.at_edges(keys)
        return tf.reduce_sum(by_head(products, self.num_heads), axis=-1)

    def get_config(self) -> dict[str, Any]:
        config = {
            "num_heads": self.num_heads,
            "head_bias": self.head_bias,
            "value_projection": self.value_projection,
        }
        return {**super().get_config(), **config}


def check_heads(units: int, num_heads: int, reader: str) -> None:
    """Refuses a width that the heads cannot share."""
    if num_heads < 1 or units % num_heads:
        raise ValueError(f"{reader}: a width of {units} cannot be divided among {num_heads} heads.")


def is_folded(num_heads: int, num_relations: int) -> bool:
    """Whether keys are folded into queries: where that saves more than it costs."""
    return num_heads <= FOLDED_HEADS and num_relations <= MANY_RELATIONS


def by_head(values: tf.Tensor, num_heads: int) -> tf.Tensor:
    """`[items, units]` as `[items, heads, units / heads]`."""
    return tf.reshape(values, [-1, num_heads, values.shape[1] // num_heads])


def folded_scores(queries: tf.Tensor, messages: tf.Tensor, edges: IncomingEdges) -> tf.Tensor:
    """`[edges, heads]`: each edge's message times its receiver's queries, which are as wide as a message for each head.

    The gradient is written out: a loop keeps what it uses, and here nothing of it is by edge and head.
    """
    units = messages.shape[1]
    heads = queries.shape[1] // units

    @tf.custom_gradient
    def dot(queries: tf.Tensor, messages: tf.Tensor) -> Any:
        def at_edges() -> tf.Tensor:
            return by_head(tf.gather(queries, edges.receiver), heads)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            upstream = upstream[:, :, None]
            to_queries = tf.reshape(upstream * messages[:, None, :], [-1, heads * units])
            return edges.sum_to_receivers(to_queries), tf.reduce_sum(upstream * at_edges(), axis=1)

        return tf.reduce_sum(at_edges() * messages[:, None, :], axis=2), gradient

    return dot(queries, messages)


def softmax_by_receiver(scores: tf.Tensor, edges: IncomingEdges) -> tf.Tensor:
    """The softmax of scores by edge, `[edges, heads]`, over the edges of each receiver."""
    weight = tf.exp(scores - edges.from_receivers(edges.max_to_receivers(scores)))
    return weight / edges.from_receivers(edges.sum_to_receivers(weight))


def softmax_sum(scores: tf.Tensor, values: tf.Tensor, edges: IncomingEdges) -> tf.Tensor:
    """The sum of values by edge, weighted by the softmax of `scores`, `[edges, heads]`, over each node's edges.

    The gradient is written out: a loop keeps what it uses, and here that is the weights and the values.
    """
    heads, units = scores.shape[1], values.shape[1]

    def per_unit(weight: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.reshape(weight[:, :, None] * by_head(rows, heads), [-1, units])

    @tf.custom_gradient
    def attend(scores: tf.Tensor, values: tf.Tensor) -> Any:
        weight = softmax_by_receiver(scores, edges)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            upstream = edges.from_receivers(tf.convert_to_tensor(upstream))  # After a gather, it comes as slices.
            to_weight = weight * tf.reduce_sum(by_head(upstream * values, heads), axis=-1)
            to_scores = to_weight - weight * edges.from_receivers(edges.sum_to_receivers(to_weight))
            return to_scores, per_unit(weight, upstream)

        return edges.sum_to_receivers(per_unit(weight, values)), gradient

    return attend(scores, values)


def weighted_mean(weight: tf.Tensor, values: tf.Tensor, edges: IncomingEdges) -> tf.Tensor:
    """The mean of values by edge over each node's edges, by weights, `[edges, heads]`; zero without edges.

    Numerator and denominator are summed in one pass.
    """
    heads, units = weight.shape[1], values.shape[1]
    weighted = tf.reshape(by_head(values, heads) * weight[:, :, None], [-1, units])
    sums = edges.sum_to_receivers(tf.concat([weighted, weight], axis=1))
    mean = tf.math.divide_no_nan(by_head(sums[:, :units], heads), sums[:, units:, None])
    return tf.reshape(mean, [-1, units])
