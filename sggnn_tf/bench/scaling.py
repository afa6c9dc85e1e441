"""How the time and memory of a training step grow: with nodes, edges, relations, steps and units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf.bench.timing import in_turn
from sggnn_tf.bench.worker import Worker
from sggnn_tf.layers import GraphUpdate, Repeat
from sggnn_tf.models import registry
from sggnn_tf.tfgnn_bridge import tfgnn


class Point(NamedTuple):
    """A training step of SGGNN-RV-GAT, the optimizer's included, on a random graph."""

    nodes: int = 4000
    edges: int = 12000
    relations: int = 8
    steps: int = 8
    units: int = 64
    recompute: bool = False


AXES: dict[str, tuple[int, ...]] = {
    "nodes": (1000, 4000, 16000, 64000),
    "edges": (3000, 12000, 48000, 192000),
    "relations": (1, 8, 32, 100, 500),
    "steps": (2, 8, 32),
    "units": (32, 64, 128, 256),
}

MILLION = Point(nodes=200_000, edges=1_000_000, relations=50, steps=4, units=64)


def points() -> Iterator[tuple[str, Point]]:
    """One quantity after the other, the others at their defaults; and a graph of a million edges."""
    for axis, values in AXES.items():
        for value in values:
            yield axis, Point(**{**Point()._asdict(), axis: value})
    yield "million edges", MILLION
    yield "million edges", MILLION._replace(recompute=True)


def run(repetitions: int, report: Callable[[int], None] = lambda done: None) -> list[dict[str, Any]]:
    """Times all points; those of an axis in turn, but large ones, which are timed alone."""
    rows: list[dict[str, Any]] = []
    by_axis: dict[str, list[Point]] = {}
    for axis, point in points():
        by_axis.setdefault(axis, []).append(point)
    for axis, group in by_axis.items():
        at_once = 1 if axis == "million edges" else len(group)
        for first in range(0, len(group), at_once):
            workers = {point: Worker(point._asdict()) for point in group[first : first + at_once]}
            try:
                answers = {point: worker.answer() for point, worker in workers.items()}
                times = in_turn({point: worker.seconds for point, worker in workers.items()}, repetitions)
                for point, worker in workers.items():
                    row = {"axis": axis, **point._asdict(), "seconds": times[point].median}
                    row |= {"spread": times[point].spread, **answers[point], "peak_mib": worker.end()}
                    rows.append(row)
            finally:
                for worker in workers.values():
                    worker.stop()
            report(len(rows))
    return rows


def make(point: Point) -> Callable[[], object]:
    """The training step of a point."""
    graph = random_graph(point)
    relations = sorted(graph.edge_sets)
    update = registry.node_set_update("sggnn-rv-gat", point.units, relations, {})
    layer = Repeat(GraphUpdate(node_sets={"node": update}), point.steps, recompute=point.recompute)
    layer(graph)
    optimizer = keras.optimizers.Adam()
    optimizer.build(layer.trainable_variables)
    tensors = tf.nest.flatten(graph, expand_composites=True)

    def train(tensors: list[tf.Tensor]) -> tf.Tensor:
        packed = tf.nest.pack_sequence_as(graph.spec, tensors, expand_composites=True)
        with tf.GradientTape() as tape:
            states = layer(packed, training=True).node_sets["node"][tfgnn.HIDDEN_STATE]
            loss = tf.reduce_mean(tf.square(states))
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    function = tf.function(train, autograph=False)
    return lambda: function(tensors).numpy()


def random_graph(point: Point) -> Any:
    """Edges between random nodes, shared out among the relations."""
    random = np.random.default_rng(0)
    states = tf.constant(random.normal(size=(point.nodes, point.units)).astype(np.float32))
    nodes = tfgnn.NodeSet.from_fields(sizes=[point.nodes], features={tfgnn.HIDDEN_STATE: states})
    edge_sets = {}
    for relation, count in enumerate(np.diff(np.linspace(0, point.edges, point.relations + 1).astype(int))):
        ends = random.integers(point.nodes, size=(2, count)).astype(np.int32)
        adjacency = tfgnn.Adjacency.from_indices(("node", tf.constant(ends[0])), ("node", tf.constant(ends[1])))
        edge_sets[f"relation_{relation:03}"] = tfgnn.EdgeSet.from_fields(sizes=[count], adjacency=adjacency)
    return tfgnn.GraphTensor.from_pieces(node_sets={"node": nodes}, edge_sets=edge_sets)
