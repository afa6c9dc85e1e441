"""One round of updates of a graph: edge sets, then node sets, then the context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_access import (
    Names,
    check_merged,
    edge_set,
    feature,
    feature_or_features,
    name_or_names,
    node_set,
    node_set_at,
)
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.tfgnn_bridge import tfgnn


@keras.saving.register_keras_serializable("sggnn_tf")
class GraphUpdate(GraphLayer):
    """Applies one round of updates to a graph.

    The edge sets are updated first, from the input; then the node sets, which see the new edges; then the
    context, which sees both. What an update returns is merged into the features of its piece: a dict
    by its names, a single tensor as `tfgnn.HIDDEN_STATE`.

    Args:
      edge_sets: `{edge_set_name: layer}`, each called as `layer(graph, edge_set_name=...)`.
      node_sets: `{node_set_name: layer}`, each called as `layer(graph, node_set_name=...)`.
      context: a layer, called as `layer(graph)`.
      deferred_init_callback: instead of the three, a function of the `GraphTensorSpec` of the first graph
        that returns them in a dict.

    Call arguments:
      graph: a scalar `GraphTensor`.

    Returns:
      The graph with the new features.

    Example:

    ```python
    update = GraphUpdate(node_sets={"paper": NodeSetUpdate(
        {"cites": SimpleConv(keras.layers.Dense(64, "relu"), receiver_tag=tfgnn.TARGET)},
        NextStateFromConcat(keras.layers.Dense(64, "relu")))})
    graph = update(graph)
    ```
    """

    def __init__(
        self,
        *,
        edge_sets: Mapping[str, keras.layers.Layer] | None = None,
        node_sets: Mapping[str, keras.layers.Layer] | None = None,
        context: keras.layers.Layer | None = None,
        deferred_init_callback: Callable[[Any], Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # Features that pass through keep their precision.
        if deferred_init_callback is not None and (edge_sets or node_sets or context):
            raise ValueError(
                "GraphUpdate takes either deferred_init_callback or any of edge_sets, node_sets and context, not both."
            )
        self.deferred_init_callback = deferred_init_callback
        self._set_updates(edge_sets, node_sets, context)

    def build(self, graph_spec: Any = None) -> None:
        if self.deferred_init_callback is not None:
            self._set_updates(**self.deferred_init_callback(graph_spec))
            self.deferred_init_callback = None

    def call(self, graph: Any) -> Any:
        check_merged(graph, self.name)
        new: dict[str, dict[str, Any]] = {}
        for name, update in self.edge_set_updates.items():
            new[name] = _merged(edge_set(graph, name, self.name), update(graph, edge_set_name=name))
        graph = graph.replace_features(edge_sets=new)
        new = {}
        for name, update in self.node_set_updates.items():
            new[name] = _merged(node_set(graph, name, self.name), update(graph, node_set_name=name))
        graph = graph.replace_features(node_sets=new)
        if self.context_update is None:
            return graph
        return graph.replace_features(context=_merged(graph.context, self.context_update(graph)))

    def get_config(self) -> dict[str, Any]:
        if self.deferred_init_callback is not None:
            raise ValueError(
                f"{self.name} was made with a deferred_init_callback and has not seen a graph yet: call it, or build "
                "its model, before saving."
            )
        return {
            **super().get_config(),
            "edge_sets": dict(self.edge_set_updates),
            "node_sets": dict(self.node_set_updates),
            "context": self.context_update,
        }

    def _set_updates(
        self,
        edge_sets: Mapping[str, keras.layers.Layer] | None = None,
        node_sets: Mapping[str, keras.layers.Layer] | None = None,
        context: keras.layers.Layer | None = None,
    ) -> None:
        self.edge_set_updates = _layers_by_name(edge_sets, "GraphUpdate(edge_sets=...)")
        self.node_set_updates = _layers_by_name(node_sets, "GraphUpdate(node_sets=...)")
        self.context_update = None if context is None else _checked_layer(context, "GraphUpdate(context=...)")


@keras.saving.register_keras_serializable("sggnn_tf")
class EdgeSetUpdate(GraphLayer):
    """Makes the new state of an edge set of the edges, their end nodes and the context.

    Args:
      next_state: the layer that gets `(edge input, {tag: node input}, context input)`.
      edge_input_feature: the edge feature or features to read: a name gives a tensor, a list a dict, `None`
        an empty dict.
      node_input_tags: the ends of the edge to read from.
      node_input_feature: the one feature read from the end nodes, or `None`.
      context_input_feature: the feature or features read from the context, like `edge_input_feature`.

    Call arguments:
      graph: a scalar `GraphTensor`.
      edge_set_name: the edge set to update.

    Returns:
      What `next_state` returns.
    """

    def __init__(
        self,
        next_state: keras.layers.Layer,
        *,
        edge_input_feature: Names = tfgnn.HIDDEN_STATE,
        node_input_tags: Sequence[int] = (tfgnn.SOURCE, tfgnn.TARGET),
        node_input_feature: str | None = tfgnn.HIDDEN_STATE,
        context_input_feature: Names = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(node_input_feature, str | None):
            raise ValueError(f"EdgeSetUpdate reads one node feature, not several: {node_input_feature!r}.")
        self.next_state = _checked_layer(next_state, "EdgeSetUpdate(next_state=...)")
        self.edge_input_feature = name_or_names(edge_input_feature)
        self.node_input_tags = list(node_input_tags)
        self.node_input_feature = node_input_feature
        self.context_input_feature = name_or_names(context_input_feature)

    def call(self, graph: Any, edge_set_name: str) -> Any:
        check_merged(graph, self.name)
        edges = edge_set(graph, edge_set_name, self.name)
        from_edges = feature_or_features(edges, self.edge_input_feature, f"the edge set {edge_set_name!r}", self.name)
        from_nodes = {}
        if self.node_input_feature is not None:
            for tag in self.node_input_tags:
                where = f"the node set {edges.adjacency.node_set_name(tag)!r}"
                value = feature(
                    node_set_at(graph, edge_set_name, tag, self.name), self.node_input_feature, where, self.name
                )
                from_nodes[tag] = tfgnn.broadcast_node_to_edges(graph, edge_set_name, tag, feature_value=value)
        from_context = tf.nest.map_structure(
            lambda value: tfgnn.broadcast_context_to_edges(graph, edge_set_name, feature_value=value),
            feature_or_features(graph.context, self.context_input_feature, "the context", self.name),
        )
        return self.next_state((from_edges, from_nodes, from_context))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "next_state": self.next_state,
            "edge_input_feature": self.edge_input_feature,
            "node_input_tags": self.node_input_tags,
            "node_input_feature": self.node_input_feature,
            "context_input_feature": self.context_input_feature,
        }


@keras.saving.register_keras_serializable("sggnn_tf")
class NodeSetUpdate(GraphLayer):
    """Makes the new state of a node set of the nodes, what arrives over edge sets, and the context.

    Args:
      edge_set_inputs: `{edge_set_name: layer}` of convolutions or edge poolings, each called as
        `layer(graph, edge_set_name=...)` to return a tensor shaped like a node feature.
      next_state: the layer that gets `(node input, {edge_set_name: input}, context input)`.
      node_input_feature: the node feature or features to read: a name gives a tensor, a list a dict, `None` an
        empty dict.
      context_input_feature: the feature or features read from the context, in the same way.

    Call arguments:
      graph: a scalar `GraphTensor`.
      node_set_name: the node set to update.

    Returns:
      What `next_state` returns.
    """

    def __init__(
        self,
        edge_set_inputs: Mapping[str, keras.layers.Layer],
        next_state: keras.layers.Layer,
        *,
        node_input_feature: Names = tfgnn.HIDDEN_STATE,
        context_input_feature: Names = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.edge_set_inputs = _layers_by_name(edge_set_inputs, "NodeSetUpdate(edge_set_inputs=...)")
        self.next_state = _checked_layer(next_state, "NodeSetUpdate(next_state=...)")
        self.node_input_feature = name_or_names(node_input_feature)
        self.context_input_feature = name_or_names(context_input_feature)

    def call(self, graph: Any, node_set_name: str) -> Any:
        check_merged(graph, self.name)
        nodes = node_set(graph, node_set_name, self.name)
        from_nodes = feature_or_features(nodes, self.node_input_feature, f"the node set {node_set_name!r}", self.name)
        from_edges = {name: layer(graph, edge_set_name=name) for name, layer in self.edge_set_inputs.items()}
        from_context = tf.nest.map_structure(
            lambda value: tfgnn.broadcast_context_to_nodes(graph, node_set_name, feature_value=value),
            feature_or_features(graph.context, self.context_input_feature, "the context", self.name),
        )
        return self.next_state((from_nodes, from_edges, from_context))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "edge_set_inputs": dict(self.edge_set_inputs),
            "next_state": self.next_state,
            "node_input_feature": self.node_input_feature,
            "context_input_feature": self.context_input_feature,
        }


@keras.saving.register_keras_serializable("sggnn_tf")
class ContextUpdate(GraphLayer):
    """Makes the new state of the context, one a component, of the context and its nodes and edges.

    Args:
      node_set_inputs: `{node_set_name: layer}`, each called as `layer(graph, node_set_name=...)` to return a
        tensor shaped like a context feature.
      next_state: the layer that gets `(context input, {node_set_name: input}, {edge_set_name: input})`.
      edge_set_inputs: `{edge_set_name: layer}`, each called as `layer(graph, edge_set_name=...)`.
      context_input_feature: the context feature or features to read: a name gives a tensor, a list a dict, `None`
        an empty dict.

    Call arguments:
      graph: a scalar `GraphTensor`.

    Returns:
      What `next_state` returns.
    """

    def __init__(
        self,
        node_set_inputs: Mapping[str, keras.layers.Layer],
        next_state: keras.layers.Layer,
        *,
        edge_set_inputs: Mapping[str, keras.layers.Layer] | None = None,
        context_input_feature: Names = tfgnn.HIDDEN_STATE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.node_set_inputs = _layers_by_name(node_set_inputs, "ContextUpdate(node_set_inputs=...)")
        self.edge_set_inputs = _layers_by_name(edge_set_inputs, "ContextUpdate(edge_set_inputs=...)")
        self.next_state = _checked_layer(next_state, "ContextUpdate(next_state=...)")
        self.context_input_feature = name_or_names(context_input_feature)

    def call(self, graph: Any) -> Any:
        check_merged(graph, self.name)
        from_context = feature_or_features(graph.context, self.context_input_feature, "the context", self.name)
        from_nodes = {name: layer(graph, node_set_name=name) for name, layer in self.node_set_inputs.items()}
        from_edges = {name: layer(graph, edge_set_name=name) for name, layer in self.edge_set_inputs.items()}
        return self.next_state((from_context, from_nodes, from_edges))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "node_set_inputs": dict(self.node_set_inputs),
            "next_state": self.next_state,
            "edge_set_inputs": dict(self.edge_set_inputs),
            "context_input_feature": self.context_input_feature,
        }


def _merged(piece: Any, update: Any) -> dict[str, Any]:
    """The features of a piece with an update merged in."""
    new = update if isinstance(update, Mapping) else {tfgnn.HIDDEN_STATE: update}
    return {**piece.get_features_dict(), **new}


def _layers_by_name(layers: Mapping[str, Any] | None, argument: str) -> dict[str, keras.layers.Layer]:
    """Sorted by name, so that the order of weights never depends on how a dict was written."""
    return {name: _checked_layer(layer, f"{argument} for {name!r}") for name, layer in sorted((layers or {}).items())}


def _checked_layer(layer: Any, argument: str) -> keras.layers.Layer:
    if not isinstance(layer, keras.layers.Layer):
        remedy = ""
        if type(layer).__module__.startswith(("tf_keras.", "tensorflow_gnn.")):
            remedy = " This is a Keras 2 layer: take the Keras 3 one, from `keras.layers` or `sggnn_tf.layers`."
        raise ValueError(f"{argument} has to be a Keras 3 layer, but is a {type(layer).__name__}.{remedy}")
    return layer
