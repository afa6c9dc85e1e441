"""The base of every layer that works on a `GraphTensor`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.tfgnn_bridge import tfgnn

_GRAPH_PIECES = (tfgnn.GraphTensor, tfgnn.NodeSet, tfgnn.EdgeSet, tfgnn.Context)


class ComposedLayer(keras.layers.Layer):
    """A layer whose constructor takes other layers.

    Loading makes layers of their configurations again. They are built when they are first called, so by the
    model that owns them all, which knows the graph and traces itself on it.
    """

    def build(self, input_shape: Any = None) -> None:
        """Nothing to do: this layer has no weights of its own."""
        self.built = True

    def get_build_config(self) -> dict[str, Any] | None:
        """Nothing: the model that owns this layer builds it."""
        return None

    def get_config(self) -> dict[str, Any]:
        """Keras' own. Without a word of its own, a layer made with a `DTypePolicy` is refused as not serialisable."""
        return super().get_config()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> ComposedLayer:
        return cls(**keras.saving.deserialize_keras_object(config))


class GraphLayer(ComposedLayer):
    """A Keras 3 layer that is called on a `tfgnn.GraphTensor` (or on a piece of one).

    Keras 3 takes only tensors as positional arguments and casts only those. A `GraphLayer` takes a graph
    by position or by keyword, casts the floating-point features that it sees to its `compute_dtype` (unless
    made with `autocast=False`, as layers are that hand a graph on), and returns a graph or tensors.

    State is made as in any Keras layer: sublayers in `__init__`, weights in `build`. `build` gets the
    `GraphTensorSpec` of the first graph, for layers whose state depends on it.

    Example:

    ```python
    @keras.saving.register_keras_serializable("my_package")
    class Degree(GraphLayer):
        "The number of edges that arrive at each node."

        def __init__(self, edge_set_name, **kwargs):
            super().__init__(**kwargs)
            self.edge_set_name = edge_set_name

        def call(self, graph):
            ones = tf.ones([graph.edge_sets[self.edge_set_name].total_size, 1], self.compute_dtype)
            return tfgnn.pool_edges_to_node(graph, self.edge_set_name, tfgnn.TARGET, feature_value=ones)

        def get_config(self):
            return {**super().get_config(), "edge_set_name": self.edge_set_name}
    ```
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(arg, _GRAPH_PIECES) for arg in args):
            kwargs = self._by_keyword(args, kwargs)
            args = ()
        if not self.built:
            graph = next((v for v in kwargs.values() if isinstance(v, _GRAPH_PIECES)), None)
            if graph is not None:
                self.build(graph.spec)
        if self.autocast:
            kwargs = {name: cast_features(value, self.compute_dtype) for name, value in kwargs.items()}
        return super().__call__(*args, **kwargs)

    def build(self, graph_spec: Any = None) -> None:
        """Creates the state that depends on the graph. Sublayers are built when `call` calls them."""
        self.built = True

    def _by_keyword(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [
            name
            for name, parameter in inspect.signature(self.call).parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        if len(args) > len(names):
            raise TypeError(
                f"{type(self).__name__}.call takes {len(names)} positional arguments ({', '.join(names)}) "
                f"but {len(args)} were given; pass the others by keyword."
            )
        given = dict(zip(names, args, strict=False))
        for name in given:
            if name in kwargs:
                raise TypeError(f"{type(self).__name__}.call got the argument {name!r} twice.")
        return {**given, **kwargs}


def init_or_call_value(layer: str, argument: str, at_init: Any, at_call: Any) -> Any:
    """The value of an argument that may be given at init, at call time or, if it is the same, at both."""
    if at_init is not None and at_call is not None and at_init != at_call:
        raise ValueError(f"{layer} was made with {argument}={at_init!r} and called with {argument}={at_call!r}.")
    return at_init if at_call is None else at_call


def cast_features(graph: Any, dtype: str) -> Any:
    """Returns the graph with its floating-point features cast to `dtype`; anything else as it is."""
    if not isinstance(graph, tfgnn.GraphTensor):
        return graph
    context = _cast_pieces({"": graph.context}, dtype).get("")
    node_sets = _cast_pieces(graph.node_sets, dtype)
    edge_sets = _cast_pieces(graph.edge_sets, dtype)
    if context is None and not node_sets and not edge_sets:
        return graph
    return graph.replace_features(context=context, node_sets=node_sets, edge_sets=edge_sets)


def _cast_pieces(pieces: Mapping[str, Any], dtype: str) -> dict[str, dict[str, Any]]:
    """The features of those pieces that have any to cast."""

    def differs(value: Any) -> bool:
        return value.dtype.is_floating and value.dtype != dtype

    return {
        name: {key: tf.cast(v, dtype) if differs(v) else v for key, v in piece.features.items()}
        for name, piece in pieces.items()
        if any(differs(value) for value in piece.features.values())
    }
