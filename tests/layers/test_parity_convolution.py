import itertools

import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from tests.layers.parity import STATE, assert_parity, make_graph

GRAPH = make_graph()

NODES_TO_NODES = [
    (tfgnn.TARGET, {"edge_set_name": "writes"}),
    (tfgnn.SOURCE, {"edge_set_name": "writes"}),
    (tfgnn.TARGET, {"edge_set_name": "cites"}),
    (tfgnn.TARGET, {"edge_set_name": "reviews"}),
]
NODES_TO_CONTEXT = [(tfgnn.CONTEXT, {"node_set_name": "paper"})]
EDGES_TO_CONTEXT = [
    (tfgnn.CONTEXT, {"edge_set_name": "cites"}),
    (tfgnn.CONTEXT, {"edge_set_name": "reviews"}),
]
RECEIVER = [{}, {"receiver_feature": None}]
EDGES = {"sender_edge_feature": STATE}
ONLY_EDGES = {"sender_node_feature": None, **EDGES}
CASES = [
    *itertools.product(NODES_TO_NODES, RECEIVER, [{}, EDGES, ONLY_EDGES]),
    *itertools.product(NODES_TO_CONTEXT, RECEIVER, [{}]),
    *itertools.product(EDGES_TO_CONTEXT, RECEIVER, [EDGES]),
]


@pytest.mark.parametrize(
    ("reduce_type", "combine_type"), [("sum", "concat"), ("mean", "sum"), ("max_no_inf", "concat"), ("sum|mean", "sum")]
)
@pytest.mark.parametrize(("place", "receiver", "sender"), CASES)
def test_simple_conv(place, receiver, sender, reduce_type, combine_type):
    tag, location = place

    def make(layers, k):
        message = k.layers.Dense(3, "tanh", name="message")
        return layers.SimpleConv(
            message, reduce_type, combine_type=combine_type, receiver_tag=tag, **receiver, **sender
        )

    assert_parity(make, GRAPH, lambda layer, graph: layer(graph, **location))


def test_simple_conv_reads_the_named_features():
    def make(layers, k):
        return layers.SimpleConv(
            k.layers.Dense(3, name="message"),
            receiver_tag=None,
            receiver_feature="embedding",
            sender_node_feature=STATE,
            sender_edge_feature="weight",
        )

    assert_parity(make, GRAPH, lambda layer, graph: layer(graph, edge_set_name="cites", receiver_tag=tfgnn.SOURCE))


def attention(layers, k, **kwargs):
    """A convolution that uses all that `convolve` gets."""

    class Attention(layers.AnyToAnyConvolutionBase):
        def __init__(self):
            super().__init__(extra_receiver_ops={"softmax": tfgnn.softmax}, **kwargs)
            self.value = k.layers.Dense(3, name="value")
            self.score = k.layers.Dense(1, name="score")

        def convolve(
            self,
            *,
            sender_node_input,
            sender_edge_input,
            receiver_input,
            broadcast_from_sender_node,
            broadcast_from_receiver,
            pool_to_receiver,
            extra_receiver_ops,
            training,
        ):
            assert self.takes_sender_node_input or sender_node_input is None
            assert self.takes_sender_edge_input == (sender_edge_input is not None)
            assert self.takes_receiver_input == (receiver_input is not None)
            messages = [] if sender_node_input is None else [broadcast_from_sender_node(sender_node_input)]
            if sender_edge_input is not None:
                messages.append(sender_edge_input)
            values = self.value(tf.concat(messages, axis=-1))
            scores = self.score(tf.concat([*messages, broadcast_from_receiver(receiver_input)], axis=-1))
            weights = extra_receiver_ops["softmax"](scores)
            if training:
                weights *= 2.0
            return pool_to_receiver(weights * values, reduce_type="sum")

    return Attention()


@pytest.mark.parametrize("training", [None, True])
@pytest.mark.parametrize(
    ("place", "kwargs"),
    [
        *itertools.product(NODES_TO_NODES, [{}, EDGES]),
        *itertools.product(NODES_TO_CONTEXT, [{}]),
        *itertools.product(EDGES_TO_CONTEXT, [EDGES, ONLY_EDGES]),
    ],
)
def test_any_to_any_convolution_base(place, kwargs, training):
    tag, location = place
    assert_parity(
        lambda layers, k: attention(layers, k, receiver_tag=tag, **kwargs),
        GRAPH,
        lambda layer, graph: layer(graph, **location, training=training),
    )
