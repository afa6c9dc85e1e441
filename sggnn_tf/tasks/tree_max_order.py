"""What the training trees of Tree Max tell of the order of its numbers.

A model sees numbers as names: that 58 is larger than 57 it can only learn from a tree in which one of the two is the
answer of a node with the other below it, or from a chain of such trees by way of other numbers. An answer that hangs on
an order that no tree has shown is a guess, for any model; but not a blind one, since a number that is larger than many
is likely to be larger than one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sggnn_tf.graph import Graph
from sggnn_tf.tasks.tree_max import TreeMax, downwards, parents_of


def order_told(trees: Iterable[Graph], max_value: int) -> np.ndarray:
    """Whether trees tell, each by itself or several together, that the number i is at least j: `[i, j]`."""
    at_least = np.eye(max_value + 1, dtype=bool)
    for tree in trees:
        np.logical_or.at(at_least, _answers(tree), _numbers_below(tree, max_value))
    for between in range(max_value + 1):
        at_least |= np.outer(at_least[:, between], at_least[between])
    return at_least


def answers_told(tree: Graph, at_least: np.ndarray) -> np.ndarray:
    """For each node of a tree, whether its answer follows from an order: it is at least every number below the node."""
    below = _numbers_below(tree, len(at_least) - 1)
    return ~(below & ~at_least[_answers(tree)]).any(axis=1)


def answers_ranked(tree: Graph, at_least: np.ndarray) -> np.ndarray:
    """For each node of a tree, whether its answer is right by a ranking that an order suggests.

    A number ranks by how many are told to be below it, less those above it: what is told comes out right, and what is
    not is guessed.
    """
    rank = at_least.sum(axis=1) - at_least.sum(axis=0)
    below = _numbers_below(tree, len(at_least) - 1)
    return np.where(below, rank, rank.min() - 1).argmax(axis=1) == _answers(tree)


def shares(task: TreeMax, *ways: Callable[[Graph, np.ndarray], np.ndarray]) -> list[tuple[float, float]]:
    """For each way, the share of the nodes of `test` that are right by the order of `train`; and of trees all right."""
    at_least = order_told(map(task.example, task.splits["train"]), task.max_value)
    trees = [task.example(number) for number in task.splits["test"]]
    found = [[right(tree, at_least) for tree in trees] for right in ways]
    return [(float(np.concatenate(each).mean()), float(np.mean([tree.all() for tree in each]))) for each in found]


def _answers(tree: Graph) -> np.ndarray:
    readout: Any = tree.nodes["_readout"]
    return np.asarray(readout["label"])


def _numbers_below(tree: Graph, max_value: int) -> np.ndarray:
    """Whether a number is that of a node or of one below it: `[nodes, numbers]`."""
    nodes: Any = tree.nodes["node"]
    parents = parents_of(tree)
    below = np.zeros([len(parents), max_value + 1], bool)
    below[np.arange(len(parents)), nodes["value"]] = True
    for node in reversed(downwards(parents)[1:]):
        below[parents[node]] |= below[node]
    return below
