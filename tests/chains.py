"""Chains of symbols, in which the last node is asked for the first one's symbol."""

import functools

import numpy as np
import tensorflow as tf

from sggnn_tf import tfgnn

SYMBOLS = 7
LENGTH = 5
BATCH_SIZE = 8

SCHEMA = tfgnn.parse_schema("""
  node_sets { key: "char" value {
    features { key: "symbol" value { dtype: DT_INT64 } }
    metadata { extra { key: "num_values/symbol" value: "7" } } } }
  node_sets { key: "_readout" value {
    features { key: "label" value { dtype: DT_INT64 } }
    metadata { extra { key: "num_values/label" value: "7" } } } }
  edge_sets { key: "next" value { source: "char" target: "char" } }
  edge_sets { key: "previous" value { source: "char" target: "char" } }
  edge_sets { key: "self" value { source: "char" target: "char" } }
  edge_sets { key: "_readout/target" value { source: "char" target: "_readout" } }
""")


def chain(symbols):
    """The graph of one chain."""
    size, nodes = len(symbols), np.arange(len(symbols))

    def edges(source, target, target_set="char"):
        adjacency = tfgnn.Adjacency.from_indices(("char", source), (target_set, target))
        return tfgnn.EdgeSet.from_fields(sizes=[len(source)], adjacency=adjacency)

    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            "char": tfgnn.NodeSet.from_fields(sizes=[size], features={"symbol": symbols}),
            "_readout": tfgnn.NodeSet.from_fields(sizes=[1], features={"label": symbols[:1]}),
        },
        edge_sets={
            "next": edges(nodes[:-1], nodes[1:]),
            "previous": edges(nodes[1:], nodes[:-1]),
            "self": edges(nodes, nodes),
            "_readout/target": edges(nodes[-1:], np.array([0]), "_readout"),
        },
    )


def merged(strings):
    """These chains as one graph with a component each."""
    graphs = [chain(np.asarray(symbols)) for symbols in strings]
    spec = graphs[0].spec.relax(num_nodes=True, num_edges=True)
    data = tf.data.Dataset.from_generator(lambda: iter(graphs), output_signature=spec)
    return data.batch(len(graphs)).get_single_element().merge_batch_to_components()


@functools.cache
def batches(count=6):
    """Batches of `(graph, labels)`, all of the same sizes."""
    random = np.random.default_rng(0)
    strings = random.integers(0, SYMBOLS, [count, BATCH_SIZE, LENGTH])
    return [(merged(batch), tf.constant(batch[:, 0])) for batch in strings]


def dataset():
    elements = batches()
    signature = tf.nest.map_structure(tf.type_spec_from_value, elements[0])
    data = tf.data.Dataset.from_generator(lambda: iter(elements), output_signature=signature)
    return data.apply(tf.data.experimental.assert_cardinality(len(elements)))
