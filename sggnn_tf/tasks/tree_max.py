"""Tree Max: a tree of numbers, in which every node is asked for the largest number below it, its own included."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from sggnn_tf.graph import Graph
from sggnn_tf.tasks.task import Task

# The paper's; and where it is silent or its value does not carry far, what does: docs/results.md has the evidence.
RECIPE = {
    "units": 150,
    "steps": 17,
    "embedding_units": 30,
    "embedding_gain": 15.0,
    "batch_size": 5,
    "learning_rate": 1.5e-3,
    "schedule": "cosine",
    "warmup": 1,
    "clip_norm": 0.5,
    "label_smoothing": 0.1,
    "loss": "graphs",
    "epochs": 36,
    "min_epochs": 20,
    "patience": 10,
    "dropout": 0.4,
    "num_heads": 10,
    "head_bias": 2.0,
    "gate_bias": 3.0,
    "neighbour_bias": 2.0,
    "candidate_bias": True,
    "normaliser": "softmax",
}
RECIPE_OF_MODEL: dict[str, dict[str, Any]] = {  # By their trials, and what came of them: docs/results.md.
    "rgcn": {"steps": 7, "dropout": 0.0},
    "ggnn": {"dropout": 0.0},
    "rgat": {"steps": 5, "dropout": 0.25, "epochs": 24},
    "ggnn-rv-gat": {"dropout": 0.25},
    "sggnn-rv-mean": {"dropout": 0.25},
    "sggnn-rm-gat": {"dropout": 0.25, "learning_rate": 5e-4},  # A third, as in the paper: else it may diverge.
}
RANGES: dict[str, Sequence[Any]] = {"dropout": (0.0, 0.25, 0.4)}
DEPTHS: dict[str, Sequence[int]] = {"rgcn": (4, 7, 12, 17), "rgat": (5, 10, 14, 17)}  # The paper's.

SHIPPED_CHILDREN = 3  # The schema has relations for so many children.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeMax(Task):
    """Random trees, grown level by level until the tree is as deep as drawn.

    Of each level, a random node has children for certain, so that the tree goes on; the others have none, 2 or 3 as
    it happens. The tree is done with the first children on its last level: their parent is the only one on the level
    above. (So the share of far answers is the paper's, and a tree has 50 nodes in the mean.)

    Args:
      trees: the number of trees.
      min_depth, max_depth: the number of levels of a tree is drawn evenly from this range.
      branching: the probabilities of 0, 1, 2, ... children.
      max_value: numbers are drawn evenly from 1 to this.
    """

    name: ClassVar[str] = "tree_max"
    held_out: ClassVar[int] = 4
    size_argument: ClassVar[str] = "trees"

    trees: int = 800
    min_depth: int = 5
    max_depth: int = 15
    branching: tuple[float, ...] = (0.6, 0.0, 0.3, 0.1)
    max_value: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "branching", tuple(self.branching))
        self.require("trees", self.trees >= 1, "at least 1")
        self.require("min_depth", self.min_depth >= 1, "at least 1")
        self.require("max_depth", self.max_depth >= self.min_depth, f"at least min_depth, {self.min_depth}")
        fine = all(p >= 0 for p in self.branching) and abs(sum(self.branching) - 1) < 1e-6
        self.require("branching", fine, "probabilities of 0, 1, 2, ... children that sum to 1")
        self.require("branching", any(p > 0 for p in self.branching[1:]), "such that a node can have children")
        self.require("max_value", self.max_value >= 1, "at least 1")

    @property
    def max_children(self) -> int:
        """The largest number of children of a node."""
        return max(number for number, p in enumerate(self.branching) if p > 0)

    @property
    def num_examples(self) -> int:
        return self.trees

    @property
    def values(self) -> dict[str, int]:
        return {"node/value": self.max_value + 1, "_readout/label": self.max_value + 1}

    @property
    def relations_like(self) -> dict[str, str]:
        more = range(SHIPPED_CHILDREN + 1, self.max_children + 1)
        return {f"child_{n}{end}": f"child_{SHIPPED_CHILDREN}{end}" for n in more for end in ("", "_of")}

    def make_example(self, number: int) -> Graph:
        random = self.random(number)
        parents = self._grow(random)
        return self.graph(parents, random.integers(1, self.max_value + 1, len(parents)))

    def graph(self, parents: Sequence[int] | np.ndarray, values: Sequence[int] | np.ndarray) -> Graph:
        """The graph of a tree, with its answers.

        Args:
          parents: the parent of each node; -1 for the root. Children are numbered in the order of the nodes.
          values: the number of each node.
        """
        parents, values = np.asarray(parents), np.asarray(values)
        order = downwards(parents)
        if values.shape != parents.shape:
            raise ValueError(f"There are {len(parents)} nodes and {len(values)} values; each node has one.")
        if values.min() < 1 or values.max() > self.max_value or values.dtype.kind not in "iu":
            raise ValueError(f"The values have to be whole numbers from 1 to {self.max_value}, the max_value.")
        nodes = np.arange(len(parents))
        edges = {"self": (nodes, nodes), "_readout/target": (nodes, nodes)}
        numbers = _child_numbers(parents)
        if numbers.max() > max(self.max_children, SHIPPED_CHILDREN):
            parent = parents[numbers.argmax()]
            raise ValueError(
                f"The node {parent} has {numbers.max()} children; these graphs have relations for "
                f"{max(self.max_children, SHIPPED_CHILDREN)}. Give probabilities for more children in `branching`."
            )
        for number in range(1, numbers.max() + 1):
            children = np.flatnonzero(numbers == number)
            edges[f"child_{number}"] = (parents[children], children)
            edges[f"child_{number}_of"] = (children, parents[children])
        labels = _largest_below(parents, values, order)
        return Graph(nodes={"node": {"value": values}, "_readout": {"label": labels}}, edges=edges)

    def from_text(self, text: str) -> Graph:
        return self.graph(*parse(text))

    def answer_text(self, graph: Graph, answers: Sequence[str]) -> str:
        return write(parents_of(graph), answers)

    def hops(self, graph: Graph) -> np.ndarray:
        parents, values = parents_of(graph), _values(graph)
        labels: Any = graph.nodes["_readout"]
        labels = labels["label"]
        far = len(parents)
        hops = np.where(values == labels, 0, far).tolist()
        for node in reversed(downwards(parents)[1:]):
            parent = parents[node]
            if labels[node] == labels[parent]:
                hops[parent] = min(hops[parent], hops[node] + 1)
        return np.array(hops)

    def recipe(self, model: str) -> dict[str, Any]:
        return {**RECIPE, **RECIPE_OF_MODEL.get(model, {})}

    def ranges(self, model: str) -> dict[str, Sequence[Any]]:
        return RANGES

    def depths(self, model: str) -> Sequence[int]:
        return DEPTHS.get(model, ())

    def positions(self, graph: Graph) -> np.ndarray:
        parents = parents_of(graph)
        order = downwards(parents)
        children: list[list[int]] = [[] for _ in parents]
        depth = np.zeros(len(parents), int)
        for node in order[1:]:
            children[parents[node]].append(node)
            depth[node] = depth[parents[node]] + 1
        places = np.zeros(len(parents))
        leaves = itertools.count()
        for node in _leaves_in_order(order[0], children):
            places[node] = next(leaves)
        for node in reversed(order):
            if children[node]:  # Above the middle of its children.
                places[node] = places[children[node]].mean()
        return np.stack([0.9 * places, -depth], axis=1).astype(float)

    def _grow(self, random: np.random.Generator) -> list[int]:
        """The parents of the nodes of a random tree, level by level."""
        depth = int(random.integers(self.min_depth, self.max_depth + 1))
        for_any, for_certain = _thresholds(self.branching)
        parents, level = [-1], range(1)
        for levels_left in range(depth - 1, 0, -1):
            draws = random.random(len(level) + 1).tolist()
            chosen = level[int(draws.pop() * len(level))]
            for node, draw in zip(level, draws, strict=True):
                if node == chosen:
                    parents += [node] * bisect.bisect_right(for_certain, draw)
                elif levels_left > 1:
                    parents += [node] * bisect.bisect_right(for_any, draw)
            level = range(level.stop, len(parents))
        return parents


def downwards(parents: Sequence[int] | np.ndarray) -> list[int]:
    """The nodes of a tree, each after its parent; what is not one tree is refused."""
    parents = np.asarray(parents).tolist()
    roots = [node for node, parent in enumerate(parents) if parent == -1]
    if len(roots) != 1:
        raise ValueError(f"A tree has one root, a node whose parent is -1; here there are {len(roots)}: {roots[:5]}.")
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents):
        if parent >= len(parents) or parent < -1:
            raise ValueError(f"The parent of node {node} is {parent}; the tree has the nodes 0 to {len(parents) - 1}.")
        if parent >= 0:
            children[parent].append(node)
    order = list(roots)
    for node in order:
        order += children[node]
    if len(order) < len(parents):
        lost = min(set(range(len(parents))) - set(order))
        raise ValueError(
            f"This is no tree: going up from node {lost} one comes in a circle, not to the root {roots[0]}."
        )
    return order


def parents_of(graph: Graph) -> np.ndarray:
    """The parent of each node of a graph of this task, by its `child` relations; -1 for the root."""
    parents = np.full(len(_values(graph)), -1)
    for relation, (sources, targets) in graph.edges.items():
        if re.fullmatch(r"child_\d+", relation):
            parents[targets] = sources
    return parents


def parse(text: str) -> tuple[list[int], list[int]]:
    """The parents and values of a tree such as `(1 (2 (3 ) (4 )) (5 ))`, in the order of the text."""
    parents: list[int] = []
    values: list[int] = []
    above = [-1]
    tokens = re.findall(r"\(|\)|[^\s()]+", text)
    for place, token in enumerate(tokens):
        if token == "(":
            parents.append(above[-1])
            above.append(len(parents) - 1)
        elif token == ")" and len(above) > 1:
            above.pop()
        elif token.isdecimal() and place and tokens[place - 1] == "(":
            values.append(int(token))
        else:
            raise ValueError(f"{text!r} is no tree: {token!r} cannot stand there. An example: (1 (2 (3 ) (4 )) (5 )).")
        if len(values) < len(parents) and tokens[place + 1 : place + 2] in ([], ["("], [")"]):
            raise ValueError(f"{text!r} is no tree: a number has to follow each opening bracket.")
    if len(above) > 1 or not parents:
        raise ValueError(f"{text!r} is no tree: brackets are missing. An example: (1 (2 (3 ) (4 )) (5 )).")
    downwards(parents)
    return parents, values


def write(parents: Sequence[int] | np.ndarray, values: Sequence[Any] | np.ndarray) -> str:
    """A tree as text: `(1 (2 (3 ) (4 )) (5 ))`."""
    texts: dict[int, str] = {}
    inside: dict[int, list[str]] = {}
    order = downwards(parents)
    for node in reversed(order):
        texts[node] = f"({values[node]} {' '.join(reversed(inside.get(node, [])))})"
        inside.setdefault(parents[node], []).append(texts[node])
    return texts[order[0]]


def _values(graph: Graph) -> np.ndarray:
    nodes: Any = graph.nodes["node"]
    return nodes["value"]


def _largest_below(parents: np.ndarray, values: np.ndarray, order: list[int]) -> np.ndarray:
    up, largest = parents.tolist(), values.tolist()
    for node in reversed(order[1:]):
        if largest[node] > largest[up[node]]:
            largest[up[node]] = largest[node]
    return np.array(largest)


def _child_numbers(parents: np.ndarray) -> np.ndarray:
    """Which child of its parent each node is, from 1 on; 0 for the root."""
    made = dict.fromkeys(parents.tolist(), 0)
    numbers = []
    for parent in parents.tolist():
        made[parent] += parent >= 0
        numbers.append(made[parent])
    return np.array(numbers)


def _leaves_in_order(root: int, children: list[list[int]]) -> Iterator[int]:
    """The leaves of a tree, from left to right."""
    left = [root]
    while left:
        node = left.pop()
        left += reversed(children[node])
        if not children[node]:
            yield node


@functools.lru_cache
def _thresholds(branching: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Where a number from 0 to 1 becomes one more child: for any node, and for one that has to have children."""
    any_number = list(itertools.accumulate(branching[:-1]))
    some = 1 - branching[0]
    return any_number, [0.0, *itertools.accumulate(p / some for p in branching[1:-1])]
