"""Examples of several sizes for the tests of batches, and epochs of them."""

import functools

import numpy as np

from sggnn_tf import schema as schemas
from sggnn_tf.data import Batches, Examples, Graph
from tests.data.schemas import library, library_graph


@functools.cache
def libraries():
    return Examples.from_graphs(library_graphs(), library())


def library_graphs():
    return [library_graph(2 + n % 3, 1 + n % 4, n % 2, seed=n) for n in range(10)]


def chain_schema():
    schema = schemas.shipped("conditional_recall")
    for name in ("previous", "self"):
        del schema.edge_sets[name]
    return schema


def chain(length, random):
    """A chain that asks some of its nodes; no symbol and no label is 0."""
    asked = random.choice(length, random.integers(1, 3), replace=False)
    symbols, labels = random.integers(1, 61, length), random.integers(1, 61, len(asked))
    nodes = np.arange(length)
    return Graph(
        nodes={"char": {"symbol": symbols}, "_readout": {"label": labels}},
        edges={"next": (nodes[:-1], nodes[1:]), "_readout/target": (asked, np.arange(len(asked)))},
    )


@functools.cache
def chain_graphs():
    random = np.random.default_rng(0)
    return [chain(length, random) for length in random.integers(2, 12, 30)]


@functools.cache
def chains():
    return Examples.from_graphs(chain_graphs(), chain_schema(), "chains")


@functools.cache
def shuffled():
    """Batches that are shuffled, and three epochs of them."""
    batches = Batches(chains(), 4, shuffle_seed=5, max_shapes=4)
    dataset = batches.dataset()
    return batches, [list(dataset) for _ in range(3)]


def listed(values):
    return np.asarray(values).tolist()
