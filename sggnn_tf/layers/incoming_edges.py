"""The typed edges that arrive at a node set, as flat tensors: captured once, used in every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from sggnn_tf.layers.graph_access import Tag, edge_set, node_set
from sggnn_tf.tfgnn_bridge import tfgnn

MANY_RELATIONS = 32


@dataclasses.dataclass(frozen=True)
class IncomingEdges:
    """The edges of several relations into one node set, relation after relation.

    A message depends on its sender and its relation only. So messages are computed in *rows*, one for each
    (sender, relation) that sends: as a rule a row an edge; where a relation has more edges than senders, a row
    a sender, which several edges then read.

    Attributes:
      relations: the names of the edge sets.
      senders: the names of the node sets that send; their states are stacked in this order.
      row_sender: `[rows]`, the index of each row's sender among the stacked states.
      row_relation: `[rows]`, the index of each row's relation.
      row_sizes: the number of rows of each relation.
      edge_sizes: the number of edges of each relation.
      edge_row: `[edges]`, the row that each edge reads, or `None` if edge i reads row i.
      receiver: `[edges]`, the node that each edge arrives at.
      receiver_and_relation: `[edges]`, its place in a table of all receivers by all relations.
      num_receivers: the number of nodes of the receiving set.
    """

    relations: tuple[str, ...]
    senders: tuple[str, ...]
    row_sender: tf.Tensor
    row_relation: tf.Tensor
    row_sizes: list[Any]
    edge_sizes: list[Any]
    edge_row: tf.Tensor | None
    receiver: tf.Tensor
    receiver_and_relation: tf.Tensor
    num_receivers: Any

    @classmethod
    def from_graph(
        cls, graph: Any, node_set_name: str, relations: Sequence[str], receiver_tag: Tag, reader: str
    ) -> IncomingEdges:
        """Collects the edges of these relations, which have to arrive at this node set."""
        sender_tag = tfgnn.reverse_tag(receiver_tag)
        adjacencies = {name: edge_set(graph, name, reader).adjacency for name in relations}
        for name, adjacency in adjacencies.items():
            if adjacency.node_set_name(receiver_tag) != node_set_name:
                raise ValueError(
                    f"{reader} updates the node set {node_set_name!r}, but the relation {name!r} arrives at "
                    f"{adjacency.node_set_name(receiver_tag)!r}."
                )
        senders = tuple(dict.fromkeys(adjacency.node_set_name(sender_tag) for adjacency in adjacencies.values()))
        offsets = _offsets([size_of(node_set(graph, name, reader)) for name in senders])
        row_senders, row_sizes, edge_rows, is_shared = [], [], [], False
        first_row: Any = 0
        for name, adjacency in adjacencies.items():
            sender = adjacency.node_set_name(sender_tag)
            index = tf.cast(adjacency[sender_tag], tf.int32)
            offset = offsets[senders.index(sender)]
            num_edges, num_senders = size_of(graph.edge_sets[name]), size_of(graph.node_sets[sender])
            if isinstance(num_edges, int) and isinstance(num_senders, int) and num_edges > num_senders:
                is_shared = True
                row_senders.append(tf.range(num_senders) + offset)
                edge_rows.append(index + first_row)
                row_sizes.append(num_senders)
            else:
                row_senders.append(index + offset)
                edge_rows.append(tf.range(num_edges) + first_row)
                row_sizes.append(num_edges)
            first_row = first_row + row_sizes[-1]
        edge_sizes = [size_of(graph.edge_sets[name]) for name in relations]
        receiver = _concat([tf.cast(adjacency[receiver_tag], tf.int32) for adjacency in adjacencies.values()])
        return cls(
            relations=tuple(relations),
            senders=senders,
            row_sender=_concat(row_senders),
            row_relation=_relation_of(row_sizes),
            row_sizes=row_sizes,
            edge_sizes=edge_sizes,
            edge_row=_concat(edge_rows) if is_shared else None,
            receiver=receiver,
            receiver_and_relation=receiver * len(relations) + _relation_of(edge_sizes),
            num_receivers=size_of(node_set(graph, node_set_name, reader)),
        )

    def stacked(self, states: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The states of all sending node sets, one below the other."""
        if not self.senders:
            return next(iter(states.values()))[:0]
        if len(self.senders) == 1:
            return states[self.senders[0]]
        return tf.concat([states[name] for name in self.senders], axis=0)

    def from_relations(self, values: tf.Tensor) -> tf.Tensor:
        """What each row reads of values by relation.

        As a product with a matrix of ones and zeros, where relations are few: gradients are then a product too,
        and not a slow sum over all rows into a handful of places.
        """
        if len(self.relations) > MANY_RELATIONS:
            return take(values, self.row_relation)
        return tf.one_hot(self.row_relation, len(self.relations), dtype=values.dtype) @ values

    def relation_at_edges(self, values: tf.Tensor) -> tf.Tensor:
        """What each edge reads of values by relation."""
        return take(values, self.receiver_and_relation % len(self.relations))

    def from_senders(self, values: tf.Tensor) -> tf.Tensor:
        """What each row reads of values by sending node."""
        return take(values, self.row_sender)

    def at_edges(self, rows: tf.Tensor) -> tf.Tensor:
        """What each edge reads of values by row."""
        return rows if self.edge_row is None else take(rows, self.edge_row)

    def from_receivers(self, values: tf.Tensor) -> tf.Tensor:
        """What each edge reads of values by receiving node."""
        return take(values, self.receiver)

    def sum_to_receivers(self, values: tf.Tensor) -> tf.Tensor:
        """The sum of values by edge over the edges that arrive at each node; zero where none does."""
        return tf.math.unsorted_segment_sum(values, self.receiver, self.num_receivers)

    def max_to_receivers(self, values: tf.Tensor) -> tf.Tensor:
        """The maximum of values by edge over the edges that arrive at each node."""
        return tf.math.unsorted_segment_max(values, self.receiver, self.num_receivers)

    def degree(self, dtype: str) -> tf.Tensor:
        """`[receivers, 1]`: the number of edges that arrive at each node, at least 1."""
        ones = tf.ones([tf.shape(self.receiver)[0], 1], dtype)
        return tf.maximum(self.sum_to_receivers(ones), tf.ones([], dtype))


def size_of(piece: Any) -> Any:
    """The number of items of a node or edge set: an integer where it is known, else a tensor."""
    static = piece.spec.total_size
    return tf.cast(piece.total_size, tf.int32) if static is None else static


def take(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """`values[index]`, by rows, with a dense gradient: the sparse one of `tf.gather` is slow in a loop."""

    @tf.custom_gradient
    def gather(values: tf.Tensor) -> Any:
        num_rows = values.shape[0] if values.shape[0] is not None else tf.shape(values)[0]

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.math.unsorted_segment_sum(upstream, index, num_rows)

        return tf.gather(values, index), gradient

    return gather(values)


def _offsets(sizes: list[Any]) -> list[Any]:
    offsets: list[Any] = [0]
    for size in sizes[:-1]:
        offsets.append(offsets[-1] + size)
    return offsets


def _concat(tensors: list[tf.Tensor]) -> tf.Tensor:
    # Also of a single one: the gradient of a loop cannot use a tensor that its function only captured.
    return tf.concat(tensors, axis=0) if tensors else tf.zeros([0], tf.int32)


def _relation_of(sizes: list[Any]) -> tf.Tensor:
    """The relation of each item, of so many items of each relation."""
    if not sizes:
        return tf.range(0)
    relations = tf.repeat(tf.range(len(sizes)), tf.stack(sizes))
    return tf.ensure_shape(relations, [sum(sizes) if all(isinstance(size, int) for size in sizes) else None])
