"""A check of an installation: what is there, and whether a graph network trains, compiles and comes back."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import layers
from sggnn_tf.models import GraphSequential
from sggnn_tf.tfgnn_bridge import tfgnn

PACKAGES = ("tensorflow", "tensorflow-gnn", "keras", "tf-keras", "numpy")

COLOURS = 5
NODES = 12
HOPS = 3
RINGS = 256
BATCH_SIZE = 32


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    result: str
    is_fine: bool


def versions() -> dict[str, str]:
    """The versions of what the package stands on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def devices() -> list[str]:
    """The kinds of devices that TensorFlow sees."""
    return sorted({device.device_type for device in tf.config.list_physical_devices()})


_plain = tf.autograph.experimental.do_not_convert  # Converting TF-GNN's functions takes seconds.


def rings(seed: int = 0) -> tf.data.Dataset:
    """Rings of coloured nodes; a node's label is the colour of the node HOPS steps before it.

    Each batch is a `GraphTensor` of BATCH_SIZE rings, padded by one component, with a weight of zero for its nodes.
    """
    random = np.random.default_rng(seed)
    colours = random.integers(0, COLOURS, [RINGS, NODES])
    labels = np.roll(colours, HOPS, axis=1)
    nodes, sizes = np.arange(NODES), tf.constant([NODES])

    def ring(colours: tf.Tensor, labels: tf.Tensor) -> tuple[tfgnn.GraphTensor, tf.Tensor]:
        adjacency = tfgnn.Adjacency.from_indices(("node", nodes), ("node", np.roll(nodes, -1)))
        return tfgnn.GraphTensor.from_pieces(
            node_sets={"node": tfgnn.NodeSet.from_fields(sizes=sizes, features={"colour": colours, "label": labels})},
            edge_sets={"next": tfgnn.EdgeSet.from_fields(sizes=sizes, adjacency=adjacency)},
        )

    padded_sizes = tfgnn.SizeConstraints(
        total_num_components=BATCH_SIZE + 1,
        total_num_nodes={"node": BATCH_SIZE * NODES + 1},
        total_num_edges={"next": BATCH_SIZE * NODES},
    )

    def example(batch: tfgnn.GraphTensor) -> tuple[tfgnn.GraphTensor, tf.Tensor, tf.Tensor]:
        graph, is_real = tfgnn.pad_to_total_sizes(batch.merge_batch_to_components(), padded_sizes)
        is_real = tfgnn.broadcast_context_to_nodes(graph, "node", feature_value=is_real)
        label = graph.node_sets["node"]["label"]
        return graph.remove_features(node_sets={"node": ["label"]}), label, tf.cast(is_real, tf.float32)

    data = tf.data.Dataset.from_tensor_slices((colours, labels)).map(_plain(ring))
    return data.batch(BATCH_SIZE, drop_remainder=True).map(_plain(example))


def ring_model(units: int = 32) -> GraphSequential:
    """A network that sees as far as the task needs: HOPS updates."""

    def update() -> layers.GraphUpdate:
        convolution = layers.SimpleConv(keras.layers.Dense(units, "relu"), receiver_feature=None)
        next_state = layers.NextStateFromConcat(keras.layers.Dense(units, "relu"))
        return layers.GraphUpdate(node_sets={"node": layers.NodeSetUpdate({"next": convolution}, next_state)})

    return GraphSequential(
        [
            layers.MapFeatures(
                node_sets_fn=lambda nodes, node_set_name: keras.layers.Embedding(COLOURS, units)(nodes["colour"])
            ),
            *(update() for _ in range(HOPS)),
            layers.Readout(node_set_name="node"),
            keras.layers.Dense(COLOURS),
        ]
    )


def train(jit_compile: bool, epochs: int) -> tuple[GraphSequential, dict[str, list[float]]]:
    """Trains the model on rings, from the same start each time; returns it and its history."""
    keras.utils.set_random_seed(0)
    model = ring_model()
    model.compile(
        keras.optimizers.Adam(3e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit_compile,
    )
    history = model.fit(rings(seed=0), validation_data=rings(seed=1), epochs=epochs, verbose=0)
    return model, history.history


def checks() -> Iterator[Finding]:
    """Runs the checks one by one, from the cheapest on."""
    yield Finding("Keras 3 beside TF-GNN", f"keras {keras.__version__}", keras.__version__.startswith("3."))
    epochs = 20
    model, history = train(jit_compile=False, epochs=epochs)
    accuracy = history["val_accuracy"][-1]
    yield Finding(
        "fit on GraphTensors",
        f"colour of the node {HOPS} steps before: {accuracy:.1%} right on new rings after {epochs} epochs "
        f"(guessing: {1 / COLOURS:.0%})",
        accuracy > 0.95,
    )
    _, compiled = train(jit_compile=True, epochs=2)
    difference = max(abs(a - b) for a, b in zip(compiled["loss"], history["loss"], strict=False))
    yield Finding("the same under XLA", f"losses differ by {difference:.1e}", difference < 1e-4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.saving.load_model(path)
    graph, *_ = next(iter(rings(seed=1)))
    difference = float(np.abs(model(graph) - loaded(graph)).max())
    yield Finding("saved and loaded (.keras)", f"outputs differ by {difference}", difference == 0.0)
