"""Keras 3 layers over `tfgnn.GraphTensor`: those of `tfgnn.keras.layers`, and the relational updates."""

from sggnn_tf.layers.aggregations import Attention, Mean, Sum
from sggnn_tf.layers.broadcast_pool import Broadcast, Pool
from sggnn_tf.layers.conv_gnn_builder import ConvGNNBuilder
from sggnn_tf.layers.convolution import AnyToAnyConvolutionBase, SimpleConv
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.layers.graph_ops import AddSelfLoops, ItemDropout, MakeEmptyFeature
from sggnn_tf.layers.graph_update import ContextUpdate, EdgeSetUpdate, GraphUpdate, NodeSetUpdate
from sggnn_tf.layers.initial_states import InitialStates
from sggnn_tf.layers.map_features import MapFeatures
from sggnn_tf.layers.messages import GatedMessage, MatrixMessage, ReducedMatrixMessage
from sggnn_tf.layers.next_state import NextStateFromConcat, ResidualNextState, SingleInputNextState
from sggnn_tf.layers.readout import (
    AddReadoutFromFirstNode,
    Readout,
    ReadoutFirstNode,
    StructuredReadout,
    StructuredReadoutIntoFeature,
)
from sggnn_tf.layers.relational_update import RelationalNodeSetUpdate
from sggnn_tf.layers.repeat import Repeat
from sggnn_tf.layers.rgat import RGATNodeSetUpdate
from sggnn_tf.layers.updates import DenseUpdate, GRUUpdate, SymmetricGRUUpdate

__all__ = [
    "AddReadoutFromFirstNode",
    "AddSelfLoops",
    "AnyToAnyConvolutionBase",
    "Attention",
    "Broadcast",
    "ContextUpdate",
    "ConvGNNBuilder",
    "DenseUpdate",
    "EdgeSetUpdate",
    "GRUUpdate",
    "GatedMessage",
    "GraphLayer",
    "GraphUpdate",
    "InitialStates",
    "ItemDropout",
    "MakeEmptyFeature",
    "MapFeatures",
    "MatrixMessage",
    "Mean",
    "NextStateFromConcat",
    "NodeSetUpdate",
    "Pool",
    "RGATNodeSetUpdate",
    "Readout",
    "ReadoutFirstNode",
    "ReducedMatrixMessage",
    "RelationalNodeSetUpdate",
    "Repeat",
    "ResidualNextState",
    "SimpleConv",
    "SingleInputNextState",
    "StructuredReadout",
    "StructuredReadoutIntoFeature",
    "Sum",
    "SymmetricGRUUpdate",
]
