"""The tasks a second time, slowly and by other ways, and what the tests need to compare."""

import itertools
import math
import re
import string
from collections import defaultdict

import numpy as np


def plain(graph):
    """A graph as lists and numbers, to compare and to print."""
    nodes = {name: {key: np.asarray(a).tolist() for key, a in each.items()} for name, each in graph.nodes.items()}
    edges = {name: [np.asarray(end).tolist() for end in ends] for name, ends in graph.edges.items()}
    return {"nodes": nodes, "edges": edges, "edge_features": dict(graph.edge_features), "context": dict(graph.context)}


def triples(graph):
    """All edges, as (relation, source, target)."""
    edges = plain(graph)["edges"]
    return sorted((name, s, t) for name, ends in edges.items() for s, t in zip(*ends, strict=True))


def answer(text):
    def strength(place):
        kinds = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
        kind = next(number for number, kind in enumerate(kinds) if text[place] in kind)
        return kind, place

    return min(range(len(text)), key=strength)


def string_triples(length):
    pairs = list(itertools.pairwise(range(length)))
    return sorted(
        [("next", i, j) for i, j in pairs]
        + [("previous", j, i) for i, j in pairs]
        + [("self", i, i) for i in range(length)]
        + [("_readout/target", length - 1, 0)]
    )


def family(graph):
    """The edges from a parent to a child."""
    edges = [
        zip(*ends, strict=True) for name, ends in plain(graph)["edges"].items() if re.fullmatch(r"child_\d+", name)
    ]
    return list(itertools.chain(*edges))


def parents(graph):
    up = {child: parent for parent, child in family(graph)}
    return [up.get(node, -1) for node in range(len(graph.nodes["node"]["value"]))]


def line(parents, node):
    """A node and all nodes above it."""
    while node >= 0:
        yield node
        node = parents[node]


def levels(parents):
    return [sum(1 for _ in line(parents, node)) - 1 for node in range(len(parents))]


def largest(parents, values):
    below = [set() for _ in parents]
    for node, value in enumerate(values):
        for above in line(parents, node):
            below[above].add(value)
    return [max(numbers) for numbers in below]


def hops(graph):
    children = defaultdict(list)
    for parent, child in family(graph):
        children[parent].append(child)
    values, labels = graph.nodes["node"]["value"].tolist(), graph.nodes["_readout"]["label"].tolist()

    def distance(start):
        level, hop = [start], 0
        while not any(values[node] == labels[start] for node in level):
            level, hop = [child for node in level for child in children[node]], hop + 1
            assert level, f"Nothing below {start} holds {labels[start]}."
        return hop

    return [distance(node) for node in range(len(values))]


def tree_triples(parents):
    expected = []
    for node, parent in enumerate(parents):
        expected += [("self", node, node), ("_readout/target", node, node)]
        if parent >= 0:
            number = parents[: node + 1].count(parent)
            expected += [(f"child_{number}", parent, node), (f"child_{number}_of", node, parent)]
    return sorted(expected)


def text(parents, values, node=None):
    node = parents.index(-1) if node is None else node
    inside = [text(parents, values, child) for child, parent in enumerate(parents) if parent == node]
    return f"({values[node]} {' '.join(inside)})"


def grow(random, depth, branching):
    """The process word for word: a queue of the level, shuffled before each draw, until the last level has a node."""
    parents, queue, below, level = [-1], [0], [], 0
    numbers = range(len(branching))
    while level < depth - 1:
        random.shuffle(queue)
        node = queue.pop()
        (children,) = random.choices(numbers, branching)
        if children == 0 and not queue:
            (children,) = random.choices(numbers[1:], branching[1:])
        for _ in range(children):
            below.append(len(parents))
            parents.append(node)
        if below and level + 1 == depth - 1:
            break
        if not queue:
            queue, below, level = below, [], level + 1
    return parents


def surprise(counts):
    """How far counts are from equal chances: chi-square, in its standard deviations from its mean."""
    counts = np.asarray(counts)
    expected, freedom = counts.mean(), len(counts) - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom)


def errors_apart(one, other):
    """How many standard errors the means of two samples are apart, for each column."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    error = np.sqrt(one.var(0) / len(one) + other.var(0) / len(other))
    return np.abs(one.mean(0) - other.mean(0)) / error
