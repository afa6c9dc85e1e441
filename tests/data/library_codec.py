"""The codec of the library, a graph of it, and the same graph with changes."""

import dataclasses

from sggnn_tf.data.codec import Codec
from tests.data.schemas import library, library_graph

LIBRARY = Codec(library())
GRAPH = library_graph()


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def with_nodes(graph=GRAPH, **sets):
    return dataclasses.replace(graph, nodes={**graph.nodes, **sets})


def with_features(node_set, **features):
    return with_nodes(**{node_set: {**GRAPH.nodes[node_set], **features}})


def with_edges(graph=GRAPH, **edges):
    return dataclasses.replace(graph, edges={**graph.edges, **edges})


def with_context(**features):
    return dataclasses.replace(GRAPH, context={**GRAPH.context, **features})
