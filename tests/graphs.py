"""Small heterogeneous graphs, as data sets with and without padding, and models on them."""

import functools

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import GraphSequential, tfgnn
from sggnn_tf.layers import (
    ContextUpdate,
    GraphUpdate,
    MakeEmptyFeature,
    MapFeatures,
    NextStateFromConcat,
    NodeSetUpdate,
    Pool,
    Readout,
    ResidualNextState,
    SimpleConv,
)

NUM_GRAPHS = 14
BATCH_SIZE = 4  # Does not divide NUM_GRAPHS: the last batch is partial.


def graph(seed, num_nodes=None):
    """Users who follow each other and are members of groups; a group has no features."""
    random = np.random.default_rng(seed)
    users = 3 + seed % 5 if num_nodes is None else num_nodes
    groups = 2 if users else 0
    follows, memberships = (2 * users, users) if users else (0, 0)
    return tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(features={"season": random.normal(size=[1, 3]).astype("float32")}),
        node_sets={
            "user": tfgnn.NodeSet.from_fields(
                sizes=[users],
                features={
                    "profile": random.normal(size=[users, 4]).astype("float32"),
                    "age": random.integers(0, 7, users),
                },
            ),
            "group": tfgnn.NodeSet.from_fields(sizes=[groups], features={}),
        },
        edge_sets={
            "follows": tfgnn.EdgeSet.from_fields(
                sizes=[follows],
                adjacency=tfgnn.Adjacency.from_indices(
                    ("user", random.integers(0, max(users, 1), follows)),
                    ("user", random.integers(0, max(users, 1), follows)),
                ),
            ),
            "member": tfgnn.EdgeSet.from_fields(
                sizes=[memberships],
                features={"since": random.normal(size=[memberships, 1]).astype("float32")},
                adjacency=tfgnn.Adjacency.from_indices(
                    ("user", random.integers(0, max(users, 1), memberships)),
                    ("group", random.integers(0, max(groups, 1), memberships)),
                ),
            ),
        },
    )


def spec():
    return graph(0).spec.relax(num_components=True, num_nodes=True, num_edges=True)


SIZES = tfgnn.SizeConstraints(
    total_num_components=BATCH_SIZE + 1,
    total_num_nodes={"user": 40, "group": 12},
    total_num_edges={"follows": 80, "member": 40},
)


def merged(seeds):
    """The graphs of these seeds as one graph with a component each."""
    element_spec = graph(0).spec.relax(num_nodes=True, num_edges=True)
    graphs = tf.data.Dataset.from_generator(lambda: map(graph, seeds), output_signature=element_spec)
    return next(iter(graphs.batch(len(seeds)))).merge_batch_to_components()


@functools.cache
def batches(label, padded):
    """All batches of `(graph, labels, weights)`, or without padding `(graph, labels)`.

    Args:
      label: "graph" for a label a graph, "node" for a label a user.
      padded: whether to pad all batches to SIZES.
    """
    result = []
    for start in range(0, NUM_GRAPHS, BATCH_SIZE):
        batch = merged(range(start, min(start + BATCH_SIZE, NUM_GRAPHS)))
        if padded:
            batch, is_real = tfgnn.pad_to_total_sizes(batch, SIZES)
            if label == "node":
                is_real = tfgnn.broadcast_context_to_nodes(batch, "user", feature_value=is_real)
        labels = tf.cast(batch.context["season"][:, 0] > 0, tf.int64)
        if label == "node":
            labels = batch.node_sets["user"]["age"] % 2
        result.append((batch, labels, tf.cast(is_real, tf.float32)) if padded else (batch, labels))
    return result


def dataset(label="graph", padded=True):
    """A data set of known size, like those of a pipeline that counts its batches."""
    elements = batches(label, padded)
    signature = tf.nest.map_structure(tf.type_spec_from_value, elements[0])
    if not padded:
        signature = (spec(), tf.TensorSpec([None], tf.int64))
    data = tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=signature)
    return data.apply(tf.data.experimental.assert_cardinality(len(elements)))


def initial_states(node_set, *, node_set_name):
    if node_set_name == "group":
        return MakeEmptyFeature()(node_set)
    age = keras.layers.Embedding(7, 3)(node_set["age"])
    return keras.layers.Dense(8)(keras.layers.Concatenate()([node_set["profile"], age]))


def update(label, dropout):
    """An update of what the label depends on: the users, or also the groups and the context."""

    def next_state():
        return NextStateFromConcat(keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dropout(dropout)]))

    user = NodeSetUpdate(
        {"follows": SimpleConv(keras.layers.Dense(8, "relu"), "mean")},
        ResidualNextState(keras.layers.Dense(8), activation="relu"),
        context_input_feature=tfgnn.HIDDEN_STATE,
    )
    if label == "node":
        return GraphUpdate(node_sets={"user": user})
    member = SimpleConv(keras.layers.Dense(8, "relu"), sender_edge_feature="since", receiver_feature=None)
    return GraphUpdate(
        node_sets={"user": user, "group": NodeSetUpdate({"member": member}, next_state())},
        context=ContextUpdate({"user": Pool(tfgnn.CONTEXT, "mean"), "group": Pool(tfgnn.CONTEXT, "sum")}, next_state()),
    )


def model(label="graph", dropout=0.0):
    """One round of updates, then a class for each graph or for each user."""
    keras.utils.set_random_seed(1)
    readout = Readout(from_context=True) if label == "graph" else Readout(node_set_name="user")
    return GraphSequential(
        [
            MapFeatures(
                node_sets_fn=initial_states,
                context_fn=lambda context: {
                    "season": context["season"],
                    tfgnn.HIDDEN_STATE: keras.layers.Dense(8)(context["season"]),
                },
            ),
            update(label, dropout),
            readout,
            keras.layers.Dense(2, dtype="float32"),
        ]
    )


def loss(**kwargs):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **kwargs)
