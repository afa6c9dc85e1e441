"""Gradient reach: how much a node's last state depends on the first state of a node some hops away."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn

Encoder = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Reach:
    """The norms of `d h_v^(K) / d h_u^(0)` for pairs of a readout node v and a node u.

    Attributes:
      hops: `[pairs]`, how many edges lie between u and v.
      norms: `[pairs]`, the Frobenius norm of each Jacobian.
      readout: `[pairs]`, the number of the pair's readout node.
    """

    hops: np.ndarray
    norms: np.ndarray
    readout: np.ndarray

    @property
    def by_hop(self) -> dict[int, float]:
        """The mean norm over all pairs of each distance."""
        return {int(hop): float(self.norms[self.hops == hop].mean()) for hop in np.unique(self.hops)}

    @property
    def radius(self) -> float:
        """How far a readout node listens: the mean distance of all nodes, weighted by their norms.

        It is the mean over readout nodes; one that listens to nobody, not even to itself, has the radius 0.
        """
        total = np.bincount(self.readout, self.norms)
        weighted = np.bincount(self.readout, self.norms * self.hops)
        return float(np.mean(np.divide(weighted, total, out=np.zeros_like(total), where=total > 0)))


def joined(parts: Sequence[Reach]) -> Reach:
    """All pairs of several measurements together, such as those of several seeds."""
    firsts = np.cumsum([0, *(int(part.readout.max()) + 1 for part in parts[:-1])])
    return Reach(
        np.concatenate([part.hops for part in parts]),
        np.concatenate([part.norms for part in parts]),
        np.concatenate([part.readout + first for part, first in zip(parts, firsts, strict=True)]),
    )


def model_reach(model: Any, batch: Any, *, probes: int | None = None, seed: int = 0) -> Reach:
    """The reach of a model, over a batch as `fit` takes it: of one readout node a graph, drawn at random.

    Args:
      model: a `RelationalModel`; or one of your own with the attributes `initial_states` (a graph with features to one
        with states) and `encoder` (to the graph with the last states), whose output is read where its `label` says.
      batch: `(graph, labels, weights)`, an element of `Batches(...).dataset()`; or a merged graph.
      probes: see `gradient_reach`.
      seed: of the choice of nodes and of the probes.
    """
    for part in ("initial_states", "encoder", "label"):
        if not hasattr(model, part):
            raise ValueError(
                f"The reach of {model.name} cannot be measured: it has no {part!r}. Give the model that attribute, or "
                "call `gradient_reach` with an encoder and a graph of states."
            )
    graph, _, weights = keras.utils.unpack_x_y_sample_weight(batch)
    node_set, nodes = readout_nodes(graph, model.label, weights)
    chosen = one_for_each_graph(graph, node_set, nodes, seed)
    return gradient_reach(model.encoder, model.initial_states(graph), node_set, chosen, probes=probes, seed=seed)


def gradient_reach(
    encoder: Encoder, graph: Any, node_set: str, nodes: Any, *, probes: int | None = None, seed: int = 0
) -> Reach:
    """The Frobenius norms of the Jacobians of the last states of some nodes by the first states of all others.

    Args:
      encoder: from a graph with states to the graph with the last states; any layer of this package, or your own.
      graph: a merged `GraphTensor` with states (`tfgnn.HIDDEN_STATE`) of its node sets.
      node_set, nodes: the readout nodes v, no two of them in one component of the graph.
      probes: None: exact, by a backward pass for each unit of the state. Otherwise the number of random probes z, with
        which the norm is the root of the mean of `|J^T z|^2`: its relative error is at most `1 / sqrt(2 * probes)`.
      seed: of the probes.

    Returns:
      A pair for each node v and each node u from which v can be reached along edges.
    """
    nodes = np.asarray(nodes)
    states = {
        name: each[tfgnn.HIDDEN_STATE]
        for name, each in graph.node_sets.items()
        if not is_auxiliary(name) and tfgnn.HIDDEN_STATE in each.features
    }
    _check_separate(graph, node_set, nodes)

    @tf.function(autograph=False)
    def pulled_back(probe: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(states)
            first = {name: {tfgnn.HIDDEN_STATE: state} for name, state in states.items()}
            last = encoder(graph.replace_features(node_sets=first)).node_sets[node_set][tfgnn.HIDDEN_STATE]
            rows = tf.gather(last, nodes)
        gradients = tape.gradient(rows, states, probe, unconnected_gradients="zero")
        return {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}  # They may be slices.

    units = states[node_set].shape[1]
    dtype = states[node_set].dtype
    squares = {name: np.zeros(len(state)) for name, state in states.items()}
    number = units if probes is None else probes
    for place in range(number):
        probe = _probe(place if probes is None else None, len(nodes), units, seed + place)
        for name, gradient in pulled_back(tf.constant(probe, dtype)).items():
            squares[name] += np.square(gradient.numpy().astype(float)).sum(axis=1)
    scale = 1.0 if probes is None else 1.0 / number
    return _pairs(graph, node_set, nodes, {name: np.sqrt(scale * square) for name, square in squares.items()})


def readout_nodes(graph: Any, label: str, weights: Any = None) -> tuple[str, np.ndarray]:
    """The node set and the nodes at which a label is read, without those of padding (whose weight is 0)."""
    set_name, _ = schemas.split_label(label)
    if set_name == schemas.CONTEXT:
        raise ValueError(f"The label {label!r} is read of all nodes together; name nodes, and call `gradient_reach`.")
    if is_auxiliary(set_name):
        (target,) = (name for name in graph.edge_sets if name.startswith(f"{set_name}/"))
        adjacency = graph.edge_sets[target].adjacency
        order = np.argsort(adjacency.target.numpy(), kind="stable")
        set_name, nodes = adjacency.source_name, adjacency.source.numpy()[order]
    else:
        nodes = np.arange(int(graph.node_sets[set_name].total_size))
    return set_name, nodes if weights is None else nodes[np.asarray(weights) > 0]


def one_for_each_graph(graph: Any, node_set: str, nodes: np.ndarray, seed: int) -> np.ndarray:
    """One of the nodes in each graph that has any, at random."""
    component = _components(graph, node_set)[nodes]
    shuffled = np.random.default_rng(seed).permutation(len(nodes))
    _, first = np.unique(component[shuffled], return_index=True)
    return nodes[shuffled[first]]


class ReachHistory(keras.callbacks.Callback):
    """Measures the reach of a model while it trains: `history` has it by the number of epochs that are done.

    An epoch's logs get `reach_radius` and `reach_far` (the mean norm at the largest distance), for TensorBoard and
    other callbacks that stand after this one.

    Args:
      batch: on what to measure, see `model_reach`.
      epochs: the numbers of epochs after which to measure; 0 is the start. None: after each, and at the start.
      probes: see `gradient_reach`.

    Example:

    ```python
    history = ReachHistory(next(iter(batches["valid"].dataset())), probes=16)
    model.fit(..., callbacks=[history])
    print({epoch: reach.radius for epoch, reach in history.history.items()})
    ```
    """

    def __init__(self, batch: Any, *, epochs: Sequence[int] | None = None, probes: int | None = 16) -> None:
        super().__init__()
        self.batch = batch
        self.epochs = epochs
        self.probes = probes
        self.history: dict[int, Reach] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        self._measure(0, {})

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._measure(epoch + 1, {} if logs is None else logs)

    def _measure(self, done: int, logs: dict[str, float]) -> None:
        if self.epochs is None or done in self.epochs:
            reach = model_reach(self.model, self.batch, probes=self.probes)
            self.history[done] = reach
            by_hop = reach.by_hop
            logs["reach_radius"], logs["reach_far"] = reach.radius, by_hop[max(by_hop)]


def distances(graph: Any, node_set: str, nodes: np.ndarray) -> dict[str, np.ndarray]:
    """The number of edges on a shortest way from each node to the nearest of some nodes; -1 where there is none."""
    first, total = _places(graph)
    senders, receivers = [np.zeros(0, int)], [np.zeros(0, int)]
    for name, edge_set in graph.edge_sets.items():
        if not is_auxiliary(name):
            adjacency = edge_set.adjacency
            senders.append(adjacency.source.numpy() + first[adjacency.source_name])
            receivers.append(adjacency.target.numpy() + first[adjacency.target_name])
    sender, receiver = np.concatenate(senders), np.concatenate(receivers)
    found = np.full(total, -1)
    ring = np.zeros(total, bool)
    ring[np.asarray(nodes) + first[node_set]] = True
    hop = 0
    while ring.any():
        found[ring] = hop
        ring = np.zeros(total, bool)
        hop += 1
        new = sender[found[receiver] == hop - 1]
        ring[new[found[new] < 0]] = True
    return {name: found[start : start + int(graph.node_sets[name].total_size)] for name, start in first.items()}


def _places(graph: Any) -> tuple[dict[str, int], int]:
    """Where each node set begins, if all nodes stand in one row; and how many there are."""
    names = [name for name in graph.node_sets if not is_auxiliary(name)]
    sizes = [int(graph.node_sets[name].total_size) for name in names]
    return dict(zip(names, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True)), sum(sizes)


def _components(graph: Any, node_set: str) -> np.ndarray:
    sizes = graph.node_sets[node_set].sizes.numpy()
    return np.repeat(np.arange(len(sizes)), sizes)


def _check_separate(graph: Any, node_set: str, nodes: np.ndarray) -> None:
    if not len(nodes):
        raise ValueError("There is no node whose reach could be measured: the batch has none that is read.")
    components = _components(graph, node_set)[nodes]
    if len(set(components.tolist())) < len(nodes):
        raise ValueError("Two of the nodes are in one graph; their gradients would mix. Measure one after the other.")


def _pairs(graph: Any, node_set: str, nodes: np.ndarray, norms: dict[str, np.ndarray]) -> Reach:
    hops = distances(graph, node_set, nodes)
    readouts = np.full(int(graph.num_components), -1)
    readouts[_components(graph, node_set)[nodes]] = np.arange(len(nodes))
    parts = []
    for name, norm in norms.items():
        is_pair = hops[name] >= 0
        readout = readouts[_components(graph, name)]
        parts.append((hops[name][is_pair], norm[is_pair], readout[is_pair]))
    return Reach(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _probe(unit: int | None, rows: int, units: int, seed: int) -> np.ndarray:
    """The same unit vector for all nodes; or random signs, of which the mean of squares is the trace."""
    if unit is not None:
        return np.tile(np.eye(units)[unit], (rows, 1))
    return np.random.default_rng(seed).choice([-1.0, 1.0], (rows, units))
