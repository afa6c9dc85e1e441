"""Convolutions: from neighbours to nodes, from edges to nodes, from nodes or edges to the context."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import keras

from sggnn_tf.layers.graph_access import Tag, check_merged, edge_set, feature, node_set, node_set_at
from sggnn_tf.layers.graph_layer import GraphLayer, init_or_call_value
from sggnn_tf.tfgnn_bridge import tfgnn


class AnyToAnyConvolutionBase(GraphLayer, abc.ABC):
    """The base of convolutions: subclasses write `convolve` on tensors, and never see the graph.

    One subclass serves four ways to be called:

    | call | senders | receivers |
    |---|---|---|
    | `edge_set_name=...`, tag `SOURCE` or `TARGET` | the nodes at the other end | the nodes at the tag's end |
    | the same with `sender_node_feature=None` | the edges (`sender_edge_feature`) | the nodes at the tag's end |
    | `node_set_name=...`, tag `CONTEXT` | the nodes | the context of their component |
    | `edge_set_name=...`, tag `CONTEXT` | the edges (`sender_edge_feature`) | the context of their component |

    Args:
      receiver_tag: `tfgnn.SOURCE`, `tfgnn.TARGET` or `tfgnn.CONTEXT`: who receives. If unset, given at call time.
      receiver_feature: the feature that `convolve` gets of the receivers, or `None`.
      sender_node_feature: the feature that it gets of the sender nodes, or `None`.
      sender_edge_feature: the feature that it gets of the edges, or `None`.
      extra_receiver_ops: more functions for `convolve`, such as `{"softmax": tfgnn.softmax}`, each callable as
        `f(graph, tag, edge_set_name=... or node_set_name=..., feature_value=...)`; `convolve` calls them as
        `extra_receiver_ops["softmax"](value)`. Set by the subclass, so not part of the configuration.

    Call arguments:
      graph: a scalar `GraphTensor`.
      edge_set_name, node_set_name: where the messages are computed, as above.
      receiver_tag: as for init; if given in both places, the same.

    Returns:
      What `convolve` returns: a tensor with a row a receiver.

    Example:

    ```python
    @keras.saving.register_keras_serializable("my_package")
    class MaxConvolution(AnyToAnyConvolutionBase):
        def __init__(self, units, **kwargs):
            super().__init__(receiver_feature=None, **kwargs)
            self.message = keras.layers.Dense(units, "relu")

        def convolve(self, *, sender_node_input, broadcast_from_sender_node, pool_to_receiver, **_):
            return pool_to_receiver(broadcast_from_sender_node(self.message(sender_node_input)), reduce_type="max")
    ```
    """

    def __init__(
        self,
        *,
        receiver_tag: Tag | None = None,
        receiver_feature: str | None = tfgnn.HIDDEN_STATE,
        sender_node_feature: str | None = tfgnn.HIDDEN_STATE,
        sender_edge_feature: str | None = None,
        extra_receiver_ops: Mapping[str, Callable[..., Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.receiver_tag = receiver_tag
        self.receiver_feature = receiver_feature
        self.sender_node_feature = sender_node_feature
        self.sender_edge_feature = sender_edge_feature
        self.extra_receiver_ops = extra_receiver_ops

    @property
    def takes_receiver_input(self) -> bool:
        """Whether `convolve` gets a `receiver_input`."""
        return self.receiver_feature is not None

    @property
    def takes_sender_node_input(self) -> bool:
        """Whether `convolve` gets a `sender_node_input`."""
        return self.sender_node_feature is not None

    @property
    def takes_sender_edge_input(self) -> bool:
        """Whether `convolve` gets a `sender_edge_input`."""
        return self.sender_edge_feature is not None

    @abc.abstractmethod
    def convolve(
        self,
        *,
        sender_node_input: Any,
        sender_edge_input: Any,
        receiver_input: Any,
        broadcast_from_sender_node: Callable[[Any], Any],
        broadcast_from_receiver: Callable[[Any], Any],
        pool_to_receiver: Callable[..., Any],
        training: bool,
    ) -> Any:
        """Computes the result for each receiver.

        Args:
          sender_node_input: the feature of the sender nodes, a row a node, or `None`.
          sender_edge_input: the feature of the edges, a row an edge, or `None`.
          receiver_input: the feature of the receivers, a row a receiver, or `None`.
          broadcast_from_sender_node: brings values of sender nodes to the messages.
          broadcast_from_receiver: brings values of receivers to the messages.
          pool_to_receiver: brings messages to the receivers: `pool_to_receiver(values, reduce_type="sum")`.
          training: whether the layer runs in training.
          extra_receiver_ops: the functions given to `__init__`, bound to the graph; absent if there are none.
        """

    def call(
        self,
        graph: Any,
        *,
        edge_set_name: str | None = None,
        node_set_name: str | None = None,
        receiver_tag: Tag | None = None,
        training: bool | None = None,
    ) -> Any:
        check_merged(graph, self.name)
        tag = init_or_call_value(self.name, "receiver_tag", self.receiver_tag, receiver_tag)
        if tag is None:
            raise ValueError(f"{self.name} needs a receiver_tag, at init or at call time.")
        self._check_location(tag, edge_set_name, node_set_name)
        location = {"node_set_name": node_set_name} if edge_set_name is None else {"edge_set_name": edge_set_name}

        def bound(op: Callable[..., Any]) -> Callable[..., Any]:
            return lambda value, **kwargs: op(graph, tag, **location, feature_value=value, **kwargs)

        extra = {}
        if self.extra_receiver_ops is not None:
            extra["extra_receiver_ops"] = {name: bound(op) for name, op in self.extra_receiver_ops.items()}
        return self.convolve(
            sender_node_input=self._sender_node_input(graph, tag, edge_set_name, node_set_name),
            sender_edge_input=self._sender_edge_input(graph, edge_set_name),
            receiver_input=self._receiver_input(graph, tag, edge_set_name),
            broadcast_from_sender_node=_broadcast_from_sender(graph, tag, edge_set_name),
            broadcast_from_receiver=bound(tfgnn.broadcast),
            pool_to_receiver=bound(tfgnn.pool),
            training=bool(training),
            **extra,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "receiver_tag": self.receiver_tag,
            "receiver_feature": self.receiver_feature,
            "sender_node_feature": self.sender_node_feature,
            "sender_edge_feature": self.sender_edge_feature,
        }

    def _check_location(self, tag: Tag, edge_set_name: str | None, node_set_name: str | None) -> None:
        if tag == tfgnn.CONTEXT and (edge_set_name is None) == (node_set_name is None):
            raise ValueError(f"{self.name} with tag CONTEXT needs either an edge_set_name or a node_set_name.")
        if tag != tfgnn.CONTEXT and (edge_set_name is None or node_set_name is not None):
            raise ValueError(f"{self.name} with tag SOURCE or TARGET needs an edge_set_name, and no node_set_name.")

    def _sender_node_input(self, graph: Any, tag: Tag, edge_set_name: str | None, node_set_name: str | None) -> Any:
        if self.sender_node_feature is None or (tag == tfgnn.CONTEXT and edge_set_name is not None):
            return None
        if node_set_name is not None:
            senders = node_set(graph, node_set_name, self.name)
            where = f"the node set {node_set_name!r}"
        elif edge_set_name is not None:
            senders = node_set_at(graph, edge_set_name, tfgnn.reverse_tag(tag), self.name)
            where = f"the node set that sends over {edge_set_name!r}"
        return feature(senders, self.sender_node_feature, where, self.name)

    def _sender_edge_input(self, graph: Any, edge_set_name: str | None) -> Any:
        if edge_set_name is None:
            return None
        edges = edge_set(graph, edge_set_name, self.name)  # Also where no feature of it is read: it has to exist.
        if self.sender_edge_feature is None:
            return None
        return feature(edges, self.sender_edge_feature, f"the edge set {edge_set_name!r}", self.name)

    def _receiver_input(self, graph: Any, tag: Tag, edge_set_name: str | None) -> Any:
        if self.receiver_feature is None:
            return None
        if tag == tfgnn.CONTEXT or edge_set_name is None:
            return feature(graph.context, self.receiver_feature, "the context", self.name)
        receivers = node_set_at(graph, edge_set_name, tag, self.name)
        where = f"the node set that receives over {edge_set_name!r}"
        return feature(receivers, self.receiver_feature, where, self.name)


@keras.saving.register_keras_serializable("sggnn_tf")
class SimpleConv(AnyToAnyConvolutionBase):
    """A message from each edge, its sender and its receiver, pooled at the receiver.

    `pool(message_fn(combine([edge; sender; receiver])))`, each part present if its feature is.

    Args:
      message_fn: the layer that makes a message of the combined inputs.
      reduce_type: how messages are pooled, as for `tfgnn.pool`: "sum", "mean", "max", "sum|max", ...
      combine_type: how inputs are combined: "concat" or "sum".
      receiver_tag, receiver_feature, sender_node_feature, sender_edge_feature: see `AnyToAnyConvolutionBase`.
    """

    def __init__(
        self,
        message_fn: keras.layers.Layer,
        reduce_type: str = "sum",
        *,
        combine_type: str = "concat",
        receiver_tag: Tag | None = tfgnn.TARGET,
        **kwargs: Any,
    ) -> None:
        super().__init__(receiver_tag=receiver_tag, **kwargs)
        self.message_fn = message_fn
        self.reduce_type = reduce_type
        self.combine_type = combine_type

    def convolve(
        self,
        *,
        sender_node_input: Any,
        sender_edge_input: Any,
        receiver_input: Any,
        broadcast_from_sender_node: Callable[[Any], Any],
        broadcast_from_receiver: Callable[[Any], Any],
        pool_to_receiver: Callable[..., Any],
        training: bool,
    ) -> Any:
        inputs = []
        if sender_edge_input is not None:
            inputs.append(sender_edge_input)
        if sender_node_input is not None:
            inputs.append(broadcast_from_sender_node(sender_node_input))
        if receiver_input is not None:
            inputs.append(broadcast_from_receiver(receiver_input))
        messages = self.message_fn(tfgnn.combine_values(inputs, self.combine_type))
        return pool_to_receiver(messages, reduce_type=self.reduce_type)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "message_fn": self.message_fn,
            "reduce_type": self.reduce_type,
            "combine_type": self.combine_type,
        }


def _broadcast_from_sender(graph: Any, tag: Tag, edge_set_name: str | None) -> Callable[[Any], Any]:
    if tag == tfgnn.CONTEXT:
        return lambda value: value  # Messages are computed a node: there is nothing to bring along.
    sender_tag = tfgnn.reverse_tag(tag)
    return lambda value: tfgnn.broadcast_node_to_edges(graph, edge_set_name, sender_tag, feature_value=value)
