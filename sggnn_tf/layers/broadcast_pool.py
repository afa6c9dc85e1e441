"""Moving features between the many (edges, nodes) and the one (end node, context) they belong to."""

from __future__ import annotations

from typing import Any

import keras

from sggnn_tf.layers.graph_access import Names, Tag, check_merged, edge_set, feature, name_or_names, node_set
from sggnn_tf.layers.graph_layer import GraphLayer, init_or_call_value
from sggnn_tf.tfgnn_bridge import tfgnn

_TAGS = {tfgnn.SOURCE: "SOURCE", tfgnn.TARGET: "TARGET", tfgnn.CONTEXT: "CONTEXT"}


class _BroadcastOrPool(GraphLayer):
    """What Broadcast and Pool share: a tag, an edge or node set (or several) and a feature name.

    Each can be set at init or at call time; if at both, to the same.
    """

    def __init__(
        self,
        tag: Tag | None = None,
        *,
        edge_set_name: Names = None,
        node_set_name: Names = None,
        feature_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # Moves values: what they are is not its business.
        self.tag = tag
        self.edge_set_name = name_or_names(edge_set_name)
        self.node_set_name = name_or_names(node_set_name)
        self.feature_name = feature_name
        if tag is not None:
            self._check(tag, self.edge_set_name, self.node_set_name, needs_location=False)

    @property
    def location(self) -> dict[str, Any]:
        """The edge or node sets given at init, under the name of their argument."""
        given = {"edge_set_name": self.edge_set_name, "node_set_name": self.node_set_name}
        return {name: value for name, value in given.items() if value is not None}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "tag": self.tag,
            "edge_set_name": self.edge_set_name,
            "node_set_name": self.node_set_name,
            "feature_name": self.feature_name,
        }

    def _resolve(
        self, graph: Any, tag: Any, edge_set_name: Any, node_set_name: Any, feature_name: Any
    ) -> tuple[Tag, dict[str, Any], str]:
        check_merged(graph, self.name)
        tag = init_or_call_value(self.name, "tag", self.tag, tag)
        if tag is None:
            raise ValueError(f"{self.name} needs a tag, at init or at call time.")
        edges = init_or_call_value(self.name, "edge_set_name", self.edge_set_name, name_or_names(edge_set_name))
        nodes = init_or_call_value(self.name, "node_set_name", self.node_set_name, name_or_names(node_set_name))
        name = init_or_call_value(self.name, "feature_name", self.feature_name, feature_name)
        self._check(tag, edges, nodes, needs_location=True)
        location = {"node_set_name": nodes} if edges is None else {"edge_set_name": edges}
        return tag, location, name or tfgnn.HIDDEN_STATE

    def _check(self, tag: Tag, edges: Any, nodes: Any, *, needs_location: bool) -> None:
        if tag not in _TAGS:
            raise ValueError(f"{self.name}: the tag is tfgnn.SOURCE, tfgnn.TARGET or tfgnn.CONTEXT, not {tag!r}.")
        if edges is not None and nodes is not None:
            raise ValueError(f"{self.name} takes an edge_set_name or a node_set_name, not both.")
        if needs_location and edges is None and nodes is None:
            raise ValueError(f"{self.name} needs an edge_set_name or, with tag CONTEXT, a node_set_name.")
        if tag != tfgnn.CONTEXT and nodes is not None:
            raise ValueError(f"{self.name} with tag {_TAGS[tag]} takes an edge_set_name, not a node_set_name.")


@keras.saving.register_keras_serializable("sggnn_tf")
class Broadcast(_BroadcastOrPool):
    """Brings a feature of nodes to their edges (tag `SOURCE` or `TARGET`), or of the context to nodes or edges.

    Args:
      tag: `tfgnn.SOURCE`, `tfgnn.TARGET` or `tfgnn.CONTEXT`: where the value comes from.
      edge_set_name: the edge set, or a list of them, that gets it.
      node_set_name: the node set, or a list of them, that gets it (from the context).
      feature_name: the feature to read (default: `tfgnn.HIDDEN_STATE`).

    Call arguments:
      graph: a scalar `GraphTensor`; and any of the above.

    Returns:
      A tensor shaped like a feature of the receiving set; for a list of sets, a list.
    """

    def call(
        self,
        graph: Any,
        *,
        tag: Tag | None = None,
        edge_set_name: Names = None,
        node_set_name: Names = None,
        feature_name: str | None = None,
    ) -> Any:
        tag, location, name = self._resolve(graph, tag, edge_set_name, node_set_name, feature_name)
        self._check_sender(graph, tag, location, name)
        return tfgnn.broadcast(graph, tag, **location, feature_name=name)

    def _check_sender(self, graph: Any, tag: Tag, location: dict[str, Any], name: str) -> None:
        for kind, set_name in _flat(location):
            receiver = _set(graph, kind, set_name, self.name)
            if tag == tfgnn.CONTEXT:
                feature(graph.context, name, "the context", self.name)
            else:
                sender = receiver.adjacency.node_set_name(tag)
                feature(node_set(graph, sender, self.name), name, f"the node set {sender!r}", self.name)


@keras.saving.register_keras_serializable("sggnn_tf")
class Pool(_BroadcastOrPool):
    """Reduces a feature of edges to their nodes (tag `SOURCE` or `TARGET`), or of nodes or edges to the context.

    Args:
      tag: `tfgnn.SOURCE`, `tfgnn.TARGET` or `tfgnn.CONTEXT`: where the value goes.
      reduce_type: "sum", "mean", "max", ... as for `tfgnn.pool`.
      edge_set_name: the edge set, or a list of them, whose values are pooled, together.
      node_set_name: the node set, or a list of them, whose values are pooled (to the context).
      feature_name: the feature to read (default: `tfgnn.HIDDEN_STATE`).

    Call arguments:
      graph: a scalar `GraphTensor`; and any of the above.

    Returns:
      A tensor shaped like a feature of the receiving node set or context.
    """

    def __init__(self, tag: Tag | None = None, reduce_type: str | None = None, **kwargs: Any) -> None:
        super().__init__(tag, **kwargs)
        self.reduce_type = reduce_type

    def call(
        self,
        graph: Any,
        *,
        tag: Tag | None = None,
        reduce_type: str | None = None,
        edge_set_name: Names = None,
        node_set_name: Names = None,
        feature_name: str | None = None,
    ) -> Any:
        tag, location, name = self._resolve(graph, tag, edge_set_name, node_set_name, feature_name)
        reduce_type = init_or_call_value(self.name, "reduce_type", self.reduce_type, reduce_type)
        if reduce_type is None:
            raise ValueError(f"{self.name} needs a reduce_type, at init or at call time.")
        for kind, set_name in _flat(location):
            feature(_set(graph, kind, set_name, self.name), name, f"the {kind} {set_name!r}", self.name)
        return tfgnn.pool(graph, tag, **location, reduce_type=reduce_type, feature_name=name)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "reduce_type": self.reduce_type}


def _flat(location: dict[str, Any]) -> list[tuple[str, str]]:
    """`[("edge set", name), ...]` of `{"edge_set_name": name or names}`."""
    ((argument, names),) = location.items()
    kind = "edge set" if argument == "edge_set_name" else "node set"
    return [(kind, name) for name in ([names] if isinstance(names, str) else names)]


def _set(graph: Any, kind: str, name: str, reader: str) -> Any:
    return edge_set(graph, name, reader) if kind == "edge set" else node_set(graph, name, reader)
