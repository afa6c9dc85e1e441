"""Keras 3 layers over `tfgnn.GraphTensor`, with the names, arguments and meaning of `tfgnn.keras.layers`."""

from sggnn_tf.layers.broadcast_pool import Broadcast, Pool
from sggnn_tf.layers.conv_gnn_builder import ConvGNNBuilder
from sggnn_tf.layers.convolution import AnyToAnyConvolutionBase, SimpleConv
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.layers.graph_ops import AddSelfLoops, ItemDropout, MakeEmptyFeature
from sggnn_tf.layers.graph_update import ContextUpdate, EdgeSetUpdate, GraphUpdate, NodeSetUpdate
from sggnn_tf.layers.map_features import MapFeatures
from sggnn_tf.layers.next_state import NextStateFromConcat, ResidualNextState, SingleInputNextState
from sggnn_tf.layers.readout import (
    AddReadoutFromFirstNode,
    Readout,
    ReadoutFirstNode,
    StructuredReadout,
    StructuredReadoutIntoFeature,
)

__all__ = [
    "AddReadoutFromFirstNode",
    "AddSelfLoops",
    "AnyToAnyConvolutionBase",
    "Broadcast",
    "ContextUpdate",
    "ConvGNNBuilder",
    "EdgeSetUpdate",
    "GraphLayer",
    "GraphUpdate",
    "ItemDropout",
    "MakeEmptyFeature",
    "MapFeatures",
    "NextStateFromConcat",
    "NodeSetUpdate",
    "Pool",
    "Readout",
    "ReadoutFirstNode",
    "ResidualNextState",
    "SimpleConv",
    "SingleInputNextState",
    "StructuredReadout",
    "StructuredReadoutIntoFeature",
]
