"""The paper's equations in NumPy, as printed and a node at a time; and small typed graphs to run them on.

Of the package it knows the parts, their options and the names of their weights, and none of their code.
"""

from typing import NamedTuple

import numpy as np

from sggnn_tf import layers, tfgnn

STATE = tfgnn.HIDDEN_STATE
UNITS = 8


class Edge(NamedTuple):
    sender_set: str
    sender: int
    relation: str
    receiver: int


class Piece(NamedTuple):
    """A graph of a batch: features of node sets and "context", and (sender, receiver) of the edges of each relation."""

    sizes: dict
    pairs: dict
    features: dict


def piece(random, sizes, pairs):
    """A graph with random states."""
    return Piece(sizes, pairs, {name: {STATE: random.normal(size=(n, UNITS)) / 2} for name, n in sizes.items()})


def chain(*lengths, seed=0):
    """`(ends, pieces)`: the node sets that each relation connects, and chains of these lengths."""
    random = np.random.default_rng(seed)
    pieces = []
    for n in lengths:
        steps = [(i, i + 1) for i in range(n - 1)]
        pairs = {"next": steps, "previous": [(j, i) for i, j in steps], "self": [(i, i) for i in range(n)]}
        pieces.append(piece(random, {"char": n}, pairs))
    return dict.fromkeys(("next", "previous", "self"), ("char", "char")), pieces


def tree(seed=0):
    """A tree whose nodes have two or three children, or none."""
    children = {0: [1, 2, 3], 1: [4, 5], 3: [6, 7, 8], 6: [9, 10]}
    pairs = {"self": [(i, i) for i in range(11)]}
    for k in range(3):
        pairs[f"child_{k + 1}"] = [(parent, nodes[k]) for parent, nodes in children.items() if len(nodes) > k]
        pairs[f"child_{k + 1}_of"] = [(child, parent) for parent, child in pairs[f"child_{k + 1}"]]
    return dict.fromkeys(pairs, ("node", "node")), [piece(np.random.default_rng(seed), {"node": 11}, pairs)]


def multigraph(node_sets="ab", sizes=(5, 0, 3), many=False, seed=0):
    """Random edges from each node set to each other and itself; the last node of each set has none.

    There are parallel edges and self edges, and a relation `none` of no edges. A graph of size 1 has no edges at all.

    Args:
      node_sets: the names of the node sets, a letter each.
      sizes: the number of nodes of each node set in each graph.
      many: whether to add a relation with more edges than there are nodes to send.
    """
    random = np.random.default_rng(seed)
    ends = {f"{s}_to_{t}": (s, t) for s in node_sets for t in node_sets}
    ends["none"] = ("a", "b")
    if many:
        ends["many"] = ("b", "a")
    pieces = []
    for n in sizes:
        pairs = {name: [] for name in ends}
        for name in ends if n > 1 else ():
            count = {"none": 0, "many": 3 * n}.get(name, n - 1)
            pairs[name] = [tuple(random.integers(n - 1, size=2).tolist()) for _ in range(count)]
        if n > 1:
            pairs["a_to_a"][:3] = [(0, 0), (0, 1), (0, 1)]
        pieces.append(piece(random, dict.fromkeys(node_sets, n), pairs))
    return ends, pieces


def graph_tensor(ends, pieces, dtype="float64"):
    """The graphs as one `GraphTensor` with a component each, their floating-point features of this dtype."""

    def joined(node_set, name):
        values = np.concatenate([each.features[node_set][name] for each in pieces])
        return values.astype(dtype) if values.dtype.kind == "f" else values

    def indices(relation, end):
        return np.array([edge[end] for edge in _numbered(ends, pieces, relation)], np.int32)

    return tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(
            sizes=[1] * len(pieces),
            features={key: joined("context", key) for key in pieces[0].features.get("context", {})},
        ),
        node_sets={
            name: tfgnn.NodeSet.from_fields(
                sizes=[each.sizes[name] for each in pieces],
                features={key: joined(name, key) for key in pieces[0].features.get(name, {})},
            )
            for name in pieces[0].sizes
        },
        edge_sets={
            relation: tfgnn.EdgeSet.from_fields(
                sizes=[len(each.pairs[relation]) for each in pieces],
                adjacency=tfgnn.Adjacency.from_indices((source, indices(relation, 0)), (target, indices(relation, 1))),
            )
            for relation, (source, target) in ends.items()
        },
    )


def states_of(graph):
    return {name: np.array(nodes[STATE], np.float64) for name, nodes in graph.node_sets.items()}


def graph_update(ends, make):
    """An update of each node set by `make(relations)`, of the relations that arrive there."""
    arriving = {}
    for relation, (_, target) in sorted(ends.items()):
        arriving.setdefault(target, []).append(relation)
    return layers.GraphUpdate(node_sets={name: make(relations) for name, relations in arriving.items()})


def build(updates, seed=0):
    """Makes the weights of these `GraphUpdate`s, and moves all a little: also those that start at zero or one."""
    random = np.random.default_rng(seed)
    for layer in (layer for update in updates for layer in update.node_set_updates.values()):
        if not layer.built:
            layer.build()
            for weight in layer.weights:
                weight.assign_add(0.1 * random.normal(size=weight.shape))


def run(updates, ends, pieces, states, masks=None):
    """The states after each of these `GraphUpdate`s in turn, in which all node sets see the same states.

    Args:
      masks: the dropout masks of `[x; h]` of the cells, by node set.
    """
    for update in updates:
        new = dict(states)
        for name, layer in update.node_set_updates.items():
            w, mask = weights(layer), (masks or {}).get(name, np.ones(2 * layer.units))
            step = rgat if "rgat" in w else dense if isinstance(layer.update, layers.DenseUpdate) else cell
            incoming = edges_into(name, ends, pieces, len(states[name]))
            new[name] = np.array(
                [step(layer, w, states, h_v, edges, mask) for h_v, edges in zip(states[name], incoming, strict=True)]
            ).reshape(states[name].shape)
        states = new
    return states


def edges_into(node_set, ends, pieces, num_nodes):
    """The edges that arrive at each node of a set."""
    incoming = [[] for _ in range(num_nodes)]
    for relation, (source, target) in ends.items():
        for sender, receiver in _numbered(ends, pieces, relation) if target == node_set else ():
            incoming[receiver].append(Edge(source, sender, relation, receiver))
    return incoming


def weights(layer):
    """The weights of each part by name; a kernel as the matrix that the paper multiplies by."""

    def of(part):
        arrays = {weight.name: weight.numpy().astype(np.float64) for weight in part.weights}
        return {name: np.swapaxes(a, -1, -2) if a.ndim > 1 else a for name, a in arrays.items()}

    if not hasattr(layer, "message"):
        return {"rgat": of(layer)}
    w = {name: of(getattr(layer, name)) for name in ("message", "aggregation", "update")}
    if layer.relation_vectors is not None:
        w["vectors"] = layer.relation_vectors.numpy().astype(np.float64)
    return w


def summary(layer, w, states, h_v, edges):
    """x: what a node reads of its messages."""
    if not edges:
        return np.zeros_like(h_v)
    relations = [layer.relations.index(edge.relation) for edge in edges]
    vectors = [w["vectors"][r] if "vectors" in w else None for r in relations]
    messages = [
        message(layer.message, w["message"], states[edge.sender_set][edge.sender], r, a_r)
        for edge, r, a_r in zip(edges, relations, vectors, strict=True)
    ]
    return aggregate(layer.aggregation, w["aggregation"], h_v, messages, vectors)


def message(part, w, h_u, r, a_r):
    if isinstance(part, layers.MatrixMessage):
        return w["kernel"][r] @ h_u
    if isinstance(part, layers.ReducedMatrixMessage):
        reduced = w["outer_kernel"] @ (w["kernel"][r] @ (w["inner_kernel"] @ h_u))
        return h_u + reduced if part.skip else reduced
    W_A = np.concatenate([w["state_kernel"], w["relation_kernel"]], axis=1)
    c = celu(w["hidden_bias"] + W_A @ np.concatenate([h_u, a_r]))
    m = sigmoid(w["gate_bias"] + w["gate_kernel"] @ c)
    u = w["update_bias"] + w["update_kernel"] @ c
    return m * h_u + (1 - m) * u


def aggregate(part, w, h_v, messages, vectors):
    if isinstance(part, layers.Sum):
        return sum(messages)
    if isinstance(part, layers.Mean):
        return sum(messages) / len(messages)
    Q, K = w["query_kernel"], np.concatenate([w["key_kernel"], w["relation_kernel"]], axis=1)
    result = []
    for head in _heads(part, len(h_v)):
        q = Q[head] @ h_v
        k = [K[head] @ np.concatenate([mu, a_r]) for mu, a_r in zip(messages, vectors, strict=True)]
        alpha = softmax(np.array([q @ k_u / np.sqrt(len(q)) for k_u in k]))
        values = [w["value_kernel"][head] @ mu if part.value_projection else mu[head] for mu in messages]
        result.append(sum(a * value for a, value in zip(alpha, values, strict=True)))
    return np.concatenate(result)


def dense(layer, w, states, h_v, edges, mask):
    x = summary(layer, w, states, h_v, edges)
    return ACTIVATIONS[layer.update.activation.__name__](x + w["update"]["kernel"] @ h_v + w["update"]["bias"])


def cell(layer, w, states, h, edges, mask):
    """The GRU and the SGRU."""
    x, w, D = summary(layer, w, states, h, edges), w["update"], layer.units

    def normalised(x, h, linear_map):
        n = np.concatenate([x, h])
        if layer.update.layer_norm:
            n = (n - n.mean()) / np.sqrt(((n - n.mean()) ** 2).mean() + 1e-5)
            n = w[f"{linear_map}_norm_scale"] * n + w[f"{linear_map}_norm_offset"]
        return (n * mask)[:D], (n * mask)[D:]

    def gate(index):
        rows = slice(index * D, (index + 1) * D)
        W, U, b = w["gate_kernel"][rows, :D], w["gate_kernel"][rows, D:], w["gate_bias"][rows]
        x_n, h_n = normalised(x, h, "gate")
        return W @ x_n + U @ h_n + b

    def candidate(x, h):
        W, U = w["candidate_kernel"][:, :D], w["candidate_kernel"][:, D:]
        x_n, h_n = normalised(x, h, "candidate")
        return np.tanh(W @ x_n + U @ h_n + w.get("candidate_bias", 0))

    if isinstance(layer.update, layers.GRUUpdate):
        r, z = sigmoid(gate(0)), sigmoid(gate(1))
        return (1 - z) * h + z * candidate(x, h * r)
    r_h, r_x = sigmoid(gate(0)), sigmoid(gate(1))
    z_x, z_h, z_u = softmax(np.array([gate(2), gate(3), gate(4)]))
    return z_x * x + z_h * h + z_u * candidate(x * r_x, h * r_h)


def rgat(layer, w, states, z_i, edges, mask):
    scores = rgat_scores(layer, w, states, z_i, edges)
    result = np.zeros(layer.units)
    for number, head in enumerate(_heads(layer, layer.units) if edges else ()):
        if layer.normaliser == "softmax":
            alpha = softmax(scores[:, number] / np.sqrt(layer.units / layer.num_heads))
        else:
            alpha = scores[:, number] / scores[:, number].sum()
        for a, edge in zip(alpha, edges, strict=True):
            V = w["rgat"]["value_kernel"][layer.relations.index(edge.relation)]
            result[head] += a * (V[head] @ states[edge.sender_set][edge.sender])
    return ACTIVATIONS[layer.activation.__name__](result)


def rgat_scores(layer, w, states, z_i, edges):
    """`[edges, heads]`: the scores before they are normalised."""
    scores = np.zeros([len(edges), layer.num_heads])
    for x, edge in enumerate(edges):
        r = layer.relations.index(edge.relation)
        W, Q, K = (w["rgat"][f"{name}_kernel"][r] for name in ("relation", "query", "key"))
        g_i, g_j = W @ z_i, W @ states[edge.sender_set][edge.sender]
        scores[x] = [(Q[head] @ g_i) @ (K[head] @ g_j) for head in _heads(layer, layer.units)]
    return scores


ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "softplus": lambda x: np.log(1 + np.exp(x)),
}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def celu(x, alpha=1.0):
    return np.maximum(0, x) + np.minimum(0, alpha * (np.exp(x / alpha) - 1))


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=0)


def _heads(part, units):
    size = units // part.num_heads
    return [slice(first, first + size) for first in range(0, units, size)]


def _numbered(ends, pieces, relation):
    """The (sender, receiver) of a relation in all graphs, as numbered in the batch."""
    source, target = ends[relation]
    pairs, first_source, first_target = [], 0, 0
    for each in pieces:
        pairs += [(first_source + s, first_target + t) for s, t in each.pairs[relation]]
        first_source, first_target = first_source + each.sizes[source], first_target + each.sizes[target]
    return pairs
