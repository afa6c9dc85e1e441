"""SGGNN-RV-GAT as printed, in TensorFlow: every product a relation or a node shares is computed for every edge.

It has the weights, gathers, segment operations, cell and loop of the package's own, so that only the form differs.
"""

import math

import tensorflow as tf

from sggnn_tf.layers.aggregations import by_head, softmax_sum
from sggnn_tf.layers.incoming_edges import take
from sggnn_tf.layers.initializers import tensor
from sggnn_tf.layers.relational_update import Prepared, RelationalNodeSetUpdate


class PrintedUpdate(RelationalNodeSetUpdate):
    def prepare(self, graph, node_set_name, training):
        message, attention = self.message, self.aggregation
        weights = {
            "vectors": self.relation_vectors,
            "gate": message.gate_kernel,
            "gate_bias": message.gate_bias_weight,
            "update": message.update_kernel,
            "update_bias": message.update_bias,
            "hidden_bias": message.hidden_bias,
            "query": attention.query_kernel,
        }
        weights = {name: tensor(weight, self.compute_dtype) for name, weight in weights.items()}
        weights["hidden"] = tf.concat([message.state_kernel, message.relation_kernel], axis=0)
        weights["key"] = tf.concat([attention.key_kernel, attention.relation_kernel], axis=0)
        return Prepared(
            self._edges(graph, node_set_name), {"printed": weights, "update": self.update.prepare(training)}
        )

    def step(self, states, node_set_name, step, prepared):
        edges, weights = prepared.edges, prepared.weights["printed"]
        state, heads = states[node_set_name], self.aggregation.num_heads
        senders = take(edges.stacked(states), edges.row_sender)
        vectors = take(weights["vectors"], edges.row_relation)
        hidden = tf.nn.elu(tf.concat([senders, vectors], axis=1) @ weights["hidden"] + weights["hidden_bias"])
        gate = tf.sigmoid(hidden @ weights["gate"] + weights["gate_bias"])
        messages = gate * senders + (1.0 - gate) * (hidden @ weights["update"] + weights["update_bias"])
        keys = tf.concat([messages, vectors], axis=1) @ weights["key"]
        queries = edges.from_receivers(state @ weights["query"])
        scores = tf.reduce_sum(by_head(queries * edges.at_edges(keys), heads), axis=-1)
        summary = softmax_sum(scores / math.sqrt(self.units / heads), edges.at_edges(messages), edges)
        return self.update.next_state(state, summary, step, prepared.weights["update"])
