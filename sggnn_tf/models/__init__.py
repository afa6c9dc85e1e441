"""Keras 3 models over `tfgnn.GraphTensor`."""

from sggnn_tf.models.graph_model import GraphModel, GraphSequential

__all__ = ["GraphModel", "GraphSequential"]
