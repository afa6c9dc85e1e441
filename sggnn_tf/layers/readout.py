"""Reading results out of a graph."""

from __future__ import annotations

from typing import Any

import keras

from sggnn_tf.layers.graph_access import check_merged, edge_set, feature, node_set
from sggnn_tf.layers.graph_layer import GraphLayer, init_or_call_value
from sggnn_tf.tfgnn_bridge import tfgnn


@keras.saving.register_keras_serializable("sggnn_tf")
class Readout(GraphLayer):
    """Reads one feature of one node set, edge set or the context.

    Args:
      edge_set_name, node_set_name, from_context: where to read; exactly one of them, at init or at call time.
      feature_name: what to read (default: `tfgnn.HIDDEN_STATE`).

    Call arguments:
      graph: a `GraphTensor`; and any of the above.
    """

    def __init__(
        self,
        *,
        edge_set_name: str | None = None,
        node_set_name: str | None = None,
        from_context: bool = False,
        feature_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # Hands a feature over as it is.
        self.location = self._location(edge_set_name, node_set_name, from_context)
        self.feature_name = feature_name

    def call(
        self,
        graph: Any,
        *,
        edge_set_name: str | None = None,
        node_set_name: str | None = None,
        from_context: bool = False,
        feature_name: str | None = None,
    ) -> Any:
        at_call = self._location(edge_set_name, node_set_name, from_context)
        location = init_or_call_value(self.name, "location", dict(self.location) or None, at_call or None)
        if location is None:
            raise ValueError(
                f"{self.name} needs one of edge_set_name, node_set_name and from_context, at init or at call time."
            )
        name = init_or_call_value(self.name, "feature_name", self.feature_name, feature_name) or tfgnn.HIDDEN_STATE
        if "node_set_name" in location:
            set_name = location["node_set_name"]
            return feature(node_set(graph, set_name, self.name), name, f"the node set {set_name!r}", self.name)
        if "edge_set_name" in location:
            set_name = location["edge_set_name"]
            return feature(edge_set(graph, set_name, self.name), name, f"the edge set {set_name!r}", self.name)
        return feature(graph.context, name, "the context", self.name)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.location, "feature_name": self.feature_name}

    def _location(self, edge_set_name: str | None, node_set_name: str | None, from_context: bool) -> dict[str, Any]:
        given = {"edge_set_name": edge_set_name, "node_set_name": node_set_name, "from_context": from_context or None}
        location = {name: value for name, value in given.items() if value is not None}
        if len(location) > 1:
            raise ValueError(f"{self.name} reads one place, but was given {location}.")
        return location


@keras.saving.register_keras_serializable("sggnn_tf")
class ReadoutFirstNode(GraphLayer):
    """Reads a feature of the first node of each component, by convention the seed of a sampled graph.

    Prefer `StructuredReadout`, which says in the data which nodes are meant.

    Args:
      node_set_name: the node set; every component has to have a node of it.
      feature_name: what to read (default: `tfgnn.HIDDEN_STATE`).

    Call arguments:
      graph: a scalar `GraphTensor`; and any of the above.

    Returns:
      A tensor shaped like a context feature.
    """

    def __init__(self, *, node_set_name: str | None = None, feature_name: str | None = None, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.node_set_name = node_set_name
        self.feature_name = feature_name

    def call(self, graph: Any, *, node_set_name: str | None = None, feature_name: str | None = None) -> Any:
        check_merged(graph, self.name)
        set_name = init_or_call_value(self.name, "node_set_name", self.node_set_name, node_set_name)
        if set_name is None:
            raise ValueError(f"{self.name} needs a node_set_name, at init or at call time.")
        name = init_or_call_value(self.name, "feature_name", self.feature_name, feature_name) or tfgnn.HIDDEN_STATE
        feature(node_set(graph, set_name, self.name), name, f"the node set {set_name!r}", self.name)
        return tfgnn.gather_first_node(graph, set_name, feature_name=name)

    @property
    def location(self) -> dict[str, Any]:
        """The node set given at init, as TF-GNN's layer of this name reports it."""
        return {} if self.node_set_name is None else {"node_set_name": self.node_set_name}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "node_set_name": self.node_set_name, "feature_name": self.feature_name}


class _ReadoutByKey(GraphLayer):
    """What the structured readouts share: the key of the readout, and its validation.

    TF-GNN validates with assertions on values, which XLA drops: a malformed readout structure is caught
    without XLA, and in the input pipeline.
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        feature_name: str = tfgnn.HIDDEN_STATE,
        readout_node_set: str = "_readout",
        validate: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.key = key
        self.feature_name = feature_name
        self.readout_node_set = readout_node_set
        self.validate = validate

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "key": self.key,
            "feature_name": self.feature_name,
            "readout_node_set": self.readout_node_set,
            "validate": self.validate,
        }

    def _resolve(self, graph: Any, key: str | None) -> str:
        check_merged(graph, self.name)
        key = init_or_call_value(self.name, "key", self.key, key)
        if key is None:
            raise ValueError(f"{self.name} needs a key, at init or at call time.")
        node_set(graph, self.readout_node_set, self.name)
        return key


@keras.saving.register_keras_serializable("sggnn_tf")
class StructuredReadout(_ReadoutByKey):
    """Reads a feature of the nodes (or edges) that the graph itself names as those that answer.

    The auxiliary node set `_readout` has an item an answer, and the edge set `_readout/KEY` leads to it from
    the node that gives it.

    Args:
      key: the name of the readout, such as "target".
      feature_name: what to read (default: `tfgnn.HIDDEN_STATE`).
      readout_node_set: the name of the auxiliary node set.
      validate: whether to check the auxiliary sets.

    Call arguments:
      graph: a scalar `GraphTensor`.
      key: as for init.

    Returns:
      A tensor shaped like a feature of `_readout`.
    """

    def call(self, graph: Any, *, key: str | None = None) -> Any:
        return tfgnn.structured_readout(
            graph,
            self._resolve(graph, key),
            feature_name=self.feature_name,
            readout_node_set=self.readout_node_set,
            validate=self.validate,
        )


@keras.saving.register_keras_serializable("sggnn_tf")
class StructuredReadoutIntoFeature(_ReadoutByKey):
    """Like `StructuredReadout`, but stores the result as a feature of `_readout`, for instance a label.

    Args:
      key, readout_node_set, validate: see `StructuredReadout`.
      feature_name: what to read.
      new_feature_name: the name under which it is stored (default: the same).
      remove_input_feature: whether to take it away where it was read.
      overwrite: whether it may replace a feature of `_readout`.

    Call arguments:
      graph: a scalar `GraphTensor`.
      key: as for init.

    Returns:
      The graph with the feature added.
    """

    def __init__(
        self,
        key: str | None = None,
        *,
        feature_name: str,
        new_feature_name: str | None = None,
        remove_input_feature: bool = False,
        overwrite: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(key, feature_name=feature_name, **kwargs)
        self.new_feature_name = new_feature_name
        self.remove_input_feature = remove_input_feature
        self.overwrite = overwrite

    def call(self, graph: Any, *, key: str | None = None) -> Any:
        return tfgnn.structured_readout_into_feature(
            graph,
            self._resolve(graph, key),
            feature_name=self.feature_name,
            new_feature_name=self.new_feature_name,
            remove_input_feature=self.remove_input_feature,
            overwrite=self.overwrite,
            readout_node_set=self.readout_node_set,
            validate=self.validate,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "new_feature_name": self.new_feature_name,
            "remove_input_feature": self.remove_input_feature,
            "overwrite": self.overwrite,
        }


@keras.saving.register_keras_serializable("sggnn_tf")
class AddReadoutFromFirstNode(GraphLayer):
    """Adds the readout structure that makes `StructuredReadout` do what `ReadoutFirstNode` does.

    Args:
      key: the name of the readout.
      node_set_name: the node set whose first nodes answer.
      readout_node_set: the name of the auxiliary node set.

    Call arguments:
      graph: a scalar `GraphTensor`.

    Returns:
      The graph with the readout added.
    """

    def __init__(self, key: str, *, node_set_name: str, readout_node_set: str = "_readout", **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.key = key
        self.node_set_name = node_set_name
        self.readout_node_set = readout_node_set

    def call(self, graph: Any) -> Any:
        check_merged(graph, self.name)
        node_set(graph, self.node_set_name, self.name)
        return tfgnn.add_readout_from_first_node(
            graph, self.key, node_set_name=self.node_set_name, readout_node_set=self.readout_node_set
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "key": self.key,
            "node_set_name": self.node_set_name,
            "readout_node_set": self.readout_node_set,
        }
