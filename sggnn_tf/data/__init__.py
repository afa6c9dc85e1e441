"""Data sets: from arrays, NetworkX graphs, records or a task to batches for `fit`, and to records."""

from sggnn_tf.data.batches import Batches
from sggnn_tf.data.examples import Examples, generate, read, read_card, task_schema
from sggnn_tf.data.export import export
from sggnn_tf.data.networkx_graphs import from_networkx
from sggnn_tf.graph import Graph

__all__ = [
    "Batches",
    "Examples",
    "Graph",
    "export",
    "from_networkx",
    "generate",
    "read",
    "read_card",
    "task_schema",
]
