"""Static sizes for batches: a few shapes, found from the data, that waste little.

A compiler needs static shapes, and graphs differ in size. A batch of random graphs is padded to the smallest of a few
*shapes* into which it fits. More shapes waste less and compile more often: their number is bounded. The last shape
holds any batch that can occur.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sggnn_tf.data.pad import pad
from sggnn_tf.tfgnn_bridge import is_auxiliary

MAX_SHAPES = 8
ENOUGH = 0.9  # No further shape is added once so large a part of the padded edges is real.
SAMPLED_BATCHES = 1000
HEADROOM = 1.03  # For batches larger than all that were sampled.


@dataclasses.dataclass(frozen=True)
class Sets:
    """The node and edge sets of a schema, in the order in which their sizes are written."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    ends: tuple[tuple[int, int], ...]  # The places in `nodes` of the source and target of each edge set.

    @classmethod
    def of(cls, schema: Any) -> Sets:
        nodes, edges = sorted(schema.node_sets), sorted(schema.edge_sets)
        pieces = [schema.edge_sets[name] for name in edges]
        ends = tuple((nodes.index(piece.source), nodes.index(piece.target)) for piece in pieces)
        return cls(tuple(nodes), tuple(edges), ends)

    @property
    def names(self) -> list[str]:
        return [*self.nodes, *self.edges]

    def cost(self, sizes: np.ndarray) -> np.ndarray:
        """The number of edges that messages pass, of sizes `[..., sets]`."""
        ordinary = [not is_auxiliary(name) for name in self.edges]
        return sizes[..., len(self.nodes) :][..., ordinary].sum(axis=-1)


@dataclasses.dataclass(frozen=True)
class Padding:
    """The shapes to which batches are padded.

    Attributes:
      sets: what the sizes are of.
      graphs: the number of components of a padded batch.
      capacities: the largest sizes of a batch that is padded to a shape, `[shapes, sets]`; each row is no smaller
        than the one before.
      room: what is added to make the shape, `[sets]`: padding is graphs of its own, with a node for its edges to end
        at.
    """

    sets: Sets
    graphs: int
    capacities: np.ndarray
    room: np.ndarray

    @property
    def shapes(self) -> np.ndarray:
        """The sizes of padded batches, `[shapes, sets]`."""
        return self.capacities + self.room

    def efficiency(self, batches: Sequence[np.ndarray]) -> float:
        """Real over padded edges of these batches, each the sizes of its graphs `[graphs, sets]`."""
        totals = np.array([sizes.sum(axis=0) for sizes in batches])
        fits = (totals[:, None] <= self.capacities[None]).all(axis=2)
        padded = self.sets.cost(self.shapes)[fits.argmax(axis=1)]
        return float(self.sets.cost(totals).sum() / padded.sum()) if padded.any() else 1.0

    def pad(self, graph: Any) -> tuple[Any, tf.Tensor]:
        """A batch, padded to the first shape that holds it; and whether each of its components is real."""
        pieces = {**graph.node_sets, **graph.edge_sets}
        totals = tf.stack([tf.cast(pieces[name].total_size, tf.int64) for name in self.sets.names])
        fits = tf.reduce_all(totals <= tf.constant(self.capacities, tf.int64), axis=1)
        message = "A batch is larger than every shape that was found for the data set; its sizes:"
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_any(fits), [message, totals])]):
            sizes: dict[str, int | tf.Tensor] = dict(zip(self.sets.names, self.shapes[0].tolist(), strict=True))
            if len(self.shapes) > 1:
                chosen = tf.constant(self.shapes, tf.int64)[tf.argmax(fits)]
                sizes = {name: chosen[place] for place, name in enumerate(self.sets.names)}
            return pad(graph, self.graphs, sizes)


def find_padding(
    sizes: np.ndarray, sets: Sets, batch_size: int, *, shuffled: bool, max_shapes: int = MAX_SHAPES
) -> Padding:
    """Finds shapes for the batches of a data set: as few as waste little, and no more than asked for.

    Args:
      sizes: the sizes of each graph, `[graphs, sets]`.
      sets: what the sizes are of.
      batch_size: the number of graphs of a batch (of all but the last).
      shuffled: whether batches are drawn at random in each epoch, or taken in order.
      max_shapes: the largest number of shapes, and so of compilations.
    """
    if max_shapes < 1:
        raise ValueError(f"max_shapes is {max_shapes}; it has to be at least 1.")
    graphs = min(batch_size, len(sizes))
    bound = np.sort(sizes, axis=0)[-graphs:].sum(axis=0)  # Of any batch.
    if (sizes == sizes[0]).all():  # Batches are equal, and what the last one lacks is whole graphs.
        return Padding(sets, graphs, bound[None], np.zeros_like(bound))
    batches = list(_sampled(sizes, batch_size)) if shuffled else in_order(sizes, batch_size)
    totals = np.array([batch.sum(axis=0) for batch in batches])
    totals = totals[np.argsort(sets.cost(totals), kind="stable")]
    largest = np.maximum.accumulate(totals, axis=0)  # What holds a batch and all that are smaller.
    room = np.array([1] * len(sets.nodes) + [int(is_auxiliary(name)) for name in sets.edges])
    padding = Padding(sets, graphs + 1, bound[None], room)
    for number in range(1, max_shapes + 1):
        ends = _best_ends(sets.cost(largest), number - shuffled)
        found = [largest[end] for end in ends]
        if shuffled and found:
            found[-1] = np.minimum(np.ceil(found[-1] * HEADROOM).astype(int), bound)
        if shuffled and not (found and (found[-1] == bound).all()):
            found.append(bound)
        padding = dataclasses.replace(padding, capacities=np.array(found))
        if padding.efficiency(batches) >= ENOUGH:
            break
    return padding


def in_order(sizes: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """The sizes of the graphs of each batch, taken in order."""
    return [sizes[start : start + batch_size] for start in range(0, len(sizes), batch_size)]


def _sampled(sizes: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    """Batches as they may occur, of a few epochs or of a part of one."""
    random = np.random.default_rng(0)
    epochs = math.ceil(SAMPLED_BATCHES / math.ceil(len(sizes) / batch_size))
    for _ in range(epochs):
        yield from in_order(random.permutation(sizes), batch_size)[:SAMPLED_BATCHES]


def _best_ends(costs: np.ndarray, groups: int) -> list[int]:
    """Cuts a rising sequence into groups such that the sum of each one's last element, once a member, is smallest.

    Returns the places of the last elements.
    """
    if groups < 1:
        return []
    costs = costs.astype(float)
    places = np.arange(1, len(costs) + 1)
    members = places[None, :] - np.arange(len(costs))[:, None]  # Of a group from a row's place to a column's.
    of_one_group = np.where(members > 0, members * costs[None, :], np.inf)
    total, starts = of_one_group[0], []
    for _ in range(min(groups, len(costs)) - 1):
        before = np.concatenate([[np.inf], total[:-1]])
        choices = before[:, None] + of_one_group
        starts.append(choices.argmin(axis=0))
        total = choices.min(axis=0)
    ends = [len(costs) - 1]
    for start in reversed(starts):
        ends.append(int(start[ends[-1]]) - 1)
    return ends[::-1]
