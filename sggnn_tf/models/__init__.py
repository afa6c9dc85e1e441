"""Keras 3 models over `tfgnn.GraphTensor`."""

from sggnn_tf.models.graph_model import GraphModel, GraphSequential
from sggnn_tf.models.registry import MODELS
from sggnn_tf.models.relational_model import RelationalModel, build_model

__all__ = ["MODELS", "GraphModel", "GraphSequential", "RelationalModel", "build_model"]
