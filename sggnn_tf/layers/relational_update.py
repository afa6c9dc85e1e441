"""The relational update of a node set: a message, an aggregation and an update, over typed edge sets read jointly."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from sggnn_tf.layers.aggregations import Aggregation
from sggnn_tf.layers.graph_access import Tag, check_merged, edge_set, feature, node_set
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.layers.incoming_edges import IncomingEdges
from sggnn_tf.layers.initializers import UniformFanIn, tensor
from sggnn_tf.layers.messages import Message
from sggnn_tf.layers.updates import Update
from sggnn_tf.tfgnn_bridge import tfgnn

States = Mapping[str, tf.Tensor]
"""The state of each node set, `[nodes, units]`."""


class Prepared(NamedTuple):
    """What all steps of an update share: the edges, and tensors that gradients flow to."""

    edges: IncomingEdges
    weights: dict[str, dict[str, tf.Tensor]]


class SteppedNodeSetUpdate(GraphLayer, abc.ABC):
    """A node set update in two parts, so that `Repeat` does once what all steps share.

    `prepare` looks at the graph; `step` sees only states. Called as a layer, it does one of each.

    Args:
      units: the width of the states of all node sets involved.
      relations: the names of the edge sets that are read, together.
      receiver_tag: which end of the edges receives.
    """

    def __init__(
        self, units: int, relations: Sequence[str], *, receiver_tag: Tag = tfgnn.TARGET, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.relations = list(relations)
        self.receiver_tag = receiver_tag
        if len(set(self.relations)) != len(self.relations):
            raise ValueError(f"{self.name}: a relation is named twice in {self.relations}.")

    @abc.abstractmethod
    def prepare(self, graph: Any, node_set_name: str, training: bool) -> Prepared:
        """Returns what all steps share."""

    @abc.abstractmethod
    def step(self, states: States, node_set_name: str, step: Any, prepared: Prepared) -> tf.Tensor:
        """Returns the new state of the node set, given the states of all."""

    @abc.abstractmethod
    def edge_weights(self, states: States, node_set_name: str, prepared: Prepared) -> tf.Tensor:
        """Returns how much each edge counts in the step from these states, `[edges, heads]`, relation by relation."""

    def call(self, graph: Any, node_set_name: str, training: bool | None = None) -> Any:
        prepared = self.prepare(graph, node_set_name, bool(training))
        return self.step(self.states(graph, node_set_name), node_set_name, 0, prepared)

    def states(self, graph: Any, node_set_name: str) -> dict[str, tf.Tensor]:
        """The states that an update reads: those of the node set and of all that send to it."""
        sender_tag = tfgnn.reverse_tag(self.receiver_tag)
        senders = [edge_set(graph, name, self.name).adjacency.node_set_name(sender_tag) for name in self.relations]
        return {name: self._state(graph, name) for name in dict.fromkeys([node_set_name, *senders])}

    def get_config(self) -> dict[str, Any]:
        config = {"units": self.units, "relations": list(self.relations), "receiver_tag": self.receiver_tag}
        return {**super().get_config(), **config}

    def _edges(self, graph: Any, node_set_name: str) -> IncomingEdges:
        check_merged(graph, self.name)
        return IncomingEdges.from_graph(graph, node_set_name, self.relations, self.receiver_tag, self.name)

    def _state(self, graph: Any, node_set_name: str) -> tf.Tensor:
        where = f"the node set {node_set_name!r}"
        state = feature(node_set(graph, node_set_name, self.name), tfgnn.HIDDEN_STATE, where, self.name)
        if state.shape.rank != 2 or state.shape[1] != self.units:
            raise ValueError(
                f"{self.name} works on states of width {self.units}, but that of {where} has the shape {state.shape}. "
                "All node sets that send and receive need the same width."
            )
        return tf.cast(state, self.compute_dtype)


@keras.saving.register_keras_serializable("sggnn_tf")
class RelationalNodeSetUpdate(SteppedNodeSetUpdate):
    """`h_v <- update(h_v, aggregation({message(h_u, r) : u -r-> v}))`, over all relations at once.

    A node set update for TF-GNN's `GraphUpdate`, where a `NodeSetUpdate` would read each edge set by itself.
    Senders and receivers may be of different node sets; a relation may have no edges.

    Args:
      relations: the names of the edge sets that are read, together. Each has a vector of its own, if the
        message or the aggregation uses relation vectors: the same in both.
      message: a `MatrixMessage`, `ReducedMatrixMessage` or `GatedMessage`.
      aggregation: `Sum`, `Mean` or `Attention`.
      update: a `GRUUpdate`, `SymmetricGRUUpdate` or `DenseUpdate`.
      receiver_tag: which end of the edges receives.

    Call arguments:
      graph: a scalar `GraphTensor` whose node sets have states (`tfgnn.HIDDEN_STATE`) of the same width.
      node_set_name: the node set to update.

    Returns:
      The new states.

    Example:

    ```python
    step = GraphUpdate(node_sets={"char": RelationalNodeSetUpdate(
        ["next", "previous", "self"],
        message=GatedMessage(120), aggregation=Attention(num_heads=2), update=SymmetricGRUUpdate(120, dropout=0.3))})
    graph = Repeat(step, steps=11)(graph)
    ```
    """

    def __init__(
        self,
        relations: Sequence[str],
        *,
        message: Message,
        aggregation: Aggregation,
        update: Update,
        **kwargs: Any,
    ) -> None:
        kwargs.pop("units", None)  # In the configuration: that of the message.
        super().__init__(message.units, relations, **kwargs)
        if message.units != update.units:
            raise ValueError(
                f"{self.name}: the message has {message.units} units and the update {update.units}; both are the width "
                "of the states."
            )
        self.message = message
        self.aggregation = aggregation
        self.update = update

    def build(self, graph_spec: Any = None) -> None:
        self.message.build(len(self.relations))
        self.aggregation.build(self.units, len(self.relations))
        self.update.build()
        if self.message.uses_relation_vectors or self.aggregation.uses_relation_vectors:
            self.relation_vectors = self.add_weight(
                shape=(len(self.relations), self.units), initializer=UniformFanIn(self.units), name="relation_vectors"
            )
        else:
            self.relation_vectors = None

    def prepare(self, graph: Any, node_set_name: str, training: bool) -> Prepared:
        edges = self._edges(graph, node_set_name)
        vectors = None
        if self.relation_vectors is not None:
            vectors = tensor(self.relation_vectors, self.compute_dtype)
        return Prepared(
            edges,
            {
                "message": self.message.prepare(vectors),
                "aggregation": self.aggregation.prepare(edges, vectors),
                "update": self.update.prepare(training),
            },
        )

    def step(self, states: States, node_set_name: str, step: Any, prepared: Prepared) -> tf.Tensor:
        edges, weights = prepared
        state = states[node_set_name]
        rows = self.message.rows(edges.stacked(states), edges, weights["message"])
        summary = self.aggregation.summary(rows, state, edges, weights["aggregation"])
        return self.update.next_state(state, summary, step, weights["update"])

    def edge_weights(self, states: States, node_set_name: str, prepared: Prepared) -> tf.Tensor:
        edges, weights = prepared
        rows = self.message.rows(edges.stacked(states), edges, weights["message"])
        return self.aggregation.edge_weights(rows, states[node_set_name], edges, weights["aggregation"])

    def get_config(self) -> dict[str, Any]:
        config = {"message": self.message, "aggregation": self.aggregation, "update": self.update}
        return {**super().get_config(), **config}
