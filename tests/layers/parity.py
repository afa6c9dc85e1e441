"""Runs a layer of TF-GNN (Keras 2) and its port (Keras 3) on the same inputs with the same weights, and compares."""

import types
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import layers, tfgnn

STATE = tfgnn.HIDDEN_STATE
# The middle component is empty: it has a context and nothing else.
SIZES = {"paper": (4, 0, 5), "author": (3, 0, 4), "topic": (2, 0, 1)}

# What `make(layers, keras)` is called with, for TF-GNN's Keras 2 and for ours.
THEIRS = (
    types.SimpleNamespace(**vars(tfgnn.keras.layers), ConvGNNBuilder=tfgnn.keras.ConvGNNBuilder),
    tf.keras,
)
OURS = (layers, keras)


def make_graph(seed=0, sizes=SIZES):
    """A random graph with edges in both directions between node sets, a latent node set and an edge set of no edges.

    Wherever there are edges, there are parallel ones, and the last of several nodes of a component has none.
    """
    rng = np.random.default_rng(seed)

    def floats(total, width=4):
        return tf.constant(rng.normal(size=[total, width]), tf.float32)

    def node_set(name, features=None):
        return tfgnn.NodeSet.from_fields(sizes=sizes[name], features=features)

    def edge_set(source, target, *, edges_per_pair, features=(STATE,)):
        counts, ends = [], [[], []]
        offsets = np.zeros(2, int)
        for component in zip(sizes[source], sizes[target], strict=True):
            connected = np.maximum(np.subtract(component, 1), 1)
            counts.append(edges_per_pair * int(np.prod(connected)) if all(component) else 0)
            for end, offset, nodes in zip(ends, offsets, connected, strict=True):
                end.extend(offset + rng.integers(nodes, size=counts[-1]))
            offsets += component
        indices = [(name, tf.constant(end, tf.int32)) for name, end in zip((source, target), ends, strict=True)]
        return tfgnn.EdgeSet.from_fields(
            sizes=counts,
            features={name: floats(sum(counts)) for name in features},
            adjacency=tfgnn.Adjacency.from_indices(*indices),
        )

    total = {name: sum(size) for name, size in sizes.items()}
    components = len(sizes["paper"])
    paper = {
        STATE: floats(total["paper"]),
        "embedding": floats(total["paper"], 2),
        "year": tf.constant(rng.integers(7, size=total["paper"]), tf.int64),
        "venue": tf.constant(rng.choice(["ICML", "KDD", "unknown"], size=total["paper"])),
    }
    return tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(
            sizes=[1] * components, features={STATE: floats(components), "mood": floats(components, 2)}
        ),
        node_sets={
            "paper": node_set("paper", paper),
            "author": node_set("author", {STATE: floats(total["author"])}),
            "topic": node_set("topic"),
        },
        edge_sets={
            "cites": edge_set("paper", "paper", edges_per_pair=2, features=(STATE, "weight")),
            "writes": edge_set("author", "paper", edges_per_pair=2),
            "reads": edge_set("paper", "author", edges_per_pair=2, features=()),
            "reviews": edge_set("author", "paper", edges_per_pair=0),
            "covers": edge_set("topic", "paper", edges_per_pair=2),
        },
    )


def random_graph():
    """A graph of the same kind, by TF-GNN's own generator: of random topology and number of components."""
    tf.random.set_seed(0)
    spec = make_graph().spec.relax(num_components=True, num_nodes=True, num_edges=True)
    samples = {(tfgnn.NODES, "paper", "year"): list(range(7)), (tfgnn.NODES, "paper", "venue"): ["ICML", "KDD"]}
    return tfgnn.random_graph_tensor(spec, sample_dict=samples, num_components_range=(2, 4))


def readout_graph(readout="_readout"):
    """A graph with readouts of nodes, of edges, and of nodes of several node sets."""

    def leading_to_readout(source, source_index, target_index):
        return tfgnn.EdgeSet.from_fields(
            sizes=[sum(1 for item in target_index if item in part) for part in ([0, 1], [], [2])],
            adjacency=tfgnn.Adjacency.from_indices((source, source_index), (readout, target_index)),
        )

    graph = make_graph()
    aux_node_sets = {
        readout: tfgnn.NodeSet.from_fields(sizes=[2, 0, 1], features={"label": [3, 1, 2]}),
        "_shadow/cites": tfgnn.NodeSet.from_fields(sizes=graph.edge_sets["cites"].sizes),
    }
    aux_edge_sets = {
        f"{readout}/seed": leading_to_readout("paper", [1, 1, 8], [0, 1, 2]),
        f"{readout}/edge": leading_to_readout("_shadow/cites", [5, 0, 20], [0, 1, 2]),
        f"{readout}/mixed/1": leading_to_readout("paper", [3, 4], [0, 2]),
        f"{readout}/mixed/2": leading_to_readout("author", [2], [1]),
    }
    return tfgnn.GraphTensor.from_pieces(
        context=graph.context,
        node_sets={**graph.node_sets, **aux_node_sets},
        edge_sets={**graph.edge_sets, **aux_edge_sets},
    )


def batched_graph():
    """Two graphs that are not merged: of rank 1, with ragged features."""
    graphs = [make_graph(seed) for seed in range(2)]
    spec = graphs[0].spec.relax(num_components=True, num_nodes=True, num_edges=True)
    return next(iter(tf.data.Dataset.from_generator(lambda: graphs, output_signature=spec).batch(2)))


def assert_parity(make, inputs, call=lambda layer, inputs: layer(inputs), *, first_inputs=None, traced=False):
    """Checks that both Kerases compute the same outputs, and gradients for weights and floating-point inputs.

    Args:
      make: `make(layers, keras)` returns the layer. Sublayers with weights need names: these are how weights match.
      inputs: a graph, a piece of one, or a structure of tensors.
      call: calls the layer, as `call(layer, inputs)`.
      first_inputs: what the layers are built on, if not on `inputs`.
      traced: whether to run in a `tf.function` that does not know the sizes of the graph.
    """
    made = [make(*side) for side in (THEIRS, OURS)]
    for layer in made:
        call(layer, inputs if first_inputs is None else first_inputs)
    their_weights, our_weights = (_weights_by_name(layer) for layer in made)
    assert our_weights.keys() == their_weights.keys()
    for name in sorted(their_weights):
        value = _noise(name, their_weights[name].shape)  # Also for biases, which start at zero.
        their_weights[name].assign(value)
        our_weights[name].assign(value)
    theirs = _run(made[0], call, inputs, their_weights, traced)
    ours = _run(made[1], call, inputs, our_weights, traced)
    for what in theirs:
        assert ours[what].keys() == theirs[what].keys(), what
        for name, value in theirs[what].items():
            _assert_equal(ours[what][name], value, f"{what} {name}")


def flat(value, path=""):
    """`{path: tensor}` of a graph, of a piece of one (its structure too) or of any structure."""
    if isinstance(value, tfgnn.GraphTensor):
        value = {"context": value.context, "nodes": value.node_sets, "edges": value.edge_sets}
    elif isinstance(value, tfgnn.Context | tfgnn.NodeSet | tfgnn.EdgeSet):
        adjacency = value.adjacency.get_indices_dict() if isinstance(value, tfgnn.EdgeSet) else {}
        ends = {tag: {"name": tf.constant(name), "index": index} for tag, (name, index) in adjacency.items()}
        value = {**value.features, "#sizes": value.sizes, "#ends": ends}
    elif isinstance(value, tf.RaggedTensor):
        value = {"values": value.values, "row_splits": value.row_splits}
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        return {path: value}
    return {key: leaf for name, part in parts for key, leaf in flat(part, f"{path}/{name}").items()}


def _run(layer, call, inputs, weights, traced):
    def apply(inputs):
        return call(layer, inputs)

    if traced:
        spec = inputs.spec.relax(num_components=True, num_nodes=True, num_edges=True)
        apply = tf.function(apply, input_signature=[spec])
    sources = {"weights": weights, "inputs": _floats(flat(inputs))}
    with tf.GradientTape() as tape:
        tape.watch(sources["inputs"])
        outputs = flat(apply(inputs))
        loss = tf.constant(0.0)
        for name, value in _floats(outputs).items():
            loss += tf.reduce_sum(tf.cast(value, tf.float32) * _noise(name, value.shape))
    gradients = tape.gradient(loss, sources)
    return {"outputs": outputs, **{f"gradients of {kind}": values for kind, values in gradients.items()}}


def _weights_by_name(layer):
    """`{"dense/kernel": variable}`: what scopes there are around that, and in which order, is up to each Keras."""
    named = {}
    for weight in layer.weights:
        path, variable = (weight.path, weight.value) if isinstance(weight, keras.Variable) else (weight.name, weight)
        named["/".join(path.removesuffix(":0").split("/")[-2:])] = variable
    assert len(named) == len(layer.weights), "The names of sublayers have to differ."
    return named


def _floats(named):
    return {name: value for name, value in named.items() if value.dtype.is_floating}


def _noise(name, shape):
    return np.random.default_rng(list(name.encode())).normal(scale=0.5, size=shape).astype(np.float32)


def _assert_equal(ours, theirs, what):
    assert (ours is None) == (theirs is None), what
    if ours is None:
        return
    ours, theirs = tf.convert_to_tensor(ours), tf.convert_to_tensor(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), what
    if theirs.dtype.is_floating:
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6, err_msg=what)
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=what)
