"""A factory of graph updates that follow a graph's edge sets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import keras

from sggnn_tf.layers.graph_access import Tag
from sggnn_tf.layers.graph_update import GraphUpdate, NodeSetUpdate
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn


class ConvGNNBuilder:
    """Makes `GraphUpdate` layers with a convolution for each edge set and a next state for each node set.

    Args:
      convolutions_factory: called as `convolutions_factory(edge_set_name, receiver_tag=...)`; without a
        `receiver_tag` (deprecated in TF-GNN) as `convolutions_factory(edge_set_name)`.
      nodes_next_state_factory: called as `nodes_next_state_factory(node_set_name)`.
      receiver_tag: which end of the edges receives, `tfgnn.TARGET` (also if unset) or `tfgnn.SOURCE`.
      node_set_update_factory: called as `f(node_set_name, edge_set_inputs, next_state)`; by default `NodeSetUpdate`.
      graph_update_factory: called as `f(deferred_init_callback=..., name=...)`; by default `GraphUpdate`.

    Example:

    ```python
    gnn = ConvGNNBuilder(
        lambda edge_set_name, receiver_tag: SimpleConv(keras.layers.Dense(64, "relu"), receiver_tag=receiver_tag),
        lambda node_set_name: NextStateFromConcat(keras.layers.Dense(64, "relu")),
        receiver_tag=tfgnn.TARGET,
    )
    graph = gnn.Convolve()(graph)
    ```
    """

    def __init__(
        self,
        convolutions_factory: Callable[..., keras.layers.Layer],
        nodes_next_state_factory: Callable[[str], keras.layers.Layer],
        *,
        receiver_tag: Tag | None = None,
        node_set_update_factory: Callable[..., keras.layers.Layer] | None = None,
        graph_update_factory: Callable[..., keras.layers.Layer] | None = None,
    ) -> None:
        self.convolutions_factory = convolutions_factory
        self.nodes_next_state_factory = nodes_next_state_factory
        self.receiver_tag = receiver_tag
        self.node_set_update_factory = node_set_update_factory or (
            lambda node_set_name, edge_set_inputs, next_state: NodeSetUpdate(edge_set_inputs, next_state)
        )
        self.graph_update_factory = graph_update_factory or GraphUpdate

    def Convolve(  # noqa: N802 - TF-GNN's name: it reads like a layer's.
        self, node_sets: Collection[str] | None = None, name: str | None = None
    ) -> keras.layers.Layer:
        """Returns a `GraphUpdate` of the given node sets, or of all that receive over some edge set."""
        wanted = None if node_sets is None else set(node_sets)

        def updates(graph_spec: Any) -> Mapping[str, Any]:
            senders = self._senders(graph_spec)
            receivers = set(senders) if wanted is None else wanted
            if receivers - set(senders):
                raise ValueError(
                    f"ConvGNNBuilder was asked to update the node sets {sorted(receivers - set(senders))}, but edges "
                    f"arrive only at {sorted(senders)}."
                )
            return {
                "node_sets": {receiver: self._update(receiver, senders[receiver]) for receiver in sorted(receivers)}
            }

        return self.graph_update_factory(deferred_init_callback=updates, name=name)

    def _senders(self, graph_spec: Any) -> dict[str, list[str]]:
        """The edge sets that arrive at each node set."""
        tag = tfgnn.TARGET if self.receiver_tag is None else self.receiver_tag
        senders: dict[str, list[str]] = {}
        for edge_set_name, spec in sorted(graph_spec.edge_sets_spec.items()):
            receiver = spec.adjacency_spec.node_set_name(tag)
            if is_auxiliary(edge_set_name):
                continue
            if is_auxiliary(receiver):
                raise ValueError(
                    f"The edge set {edge_set_name!r} leads to the auxiliary node set {receiver!r}, which is no part of "
                    "the graph: rename one of them (auxiliary names begin with '_')."
                )
            senders.setdefault(receiver, []).append(edge_set_name)
        return senders

    def _update(self, node_set_name: str, edge_set_names: list[str]) -> keras.layers.Layer:
        tag = {} if self.receiver_tag is None else {"receiver_tag": self.receiver_tag}
        convolutions = {name: self.convolutions_factory(name, **tag) for name in edge_set_names}
        return self.node_set_update_factory(node_set_name, convolutions, self.nodes_next_state_factory(node_set_name))
