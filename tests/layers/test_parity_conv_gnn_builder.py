import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from tests.layers.parity import OURS, STATE, THEIRS, assert_parity, make_graph, random_graph, readout_graph

SIDES = pytest.mark.parametrize("side", [THEIRS, OURS], ids=["theirs", "ours"])


def builder(layers, k, **kwargs):
    return layers.ConvGNNBuilder(
        lambda edge_set_name, receiver_tag: layers.SimpleConv(
            k.layers.Dense(3, "relu", name=edge_set_name),
            receiver_tag=receiver_tag,
            sender_node_feature=None if edge_set_name == "covers" else STATE,
        ),
        lambda node_set_name: layers.NextStateFromConcat(k.layers.Dense(4, "relu", name=node_set_name)),
        **{"receiver_tag": tfgnn.TARGET, **kwargs},
    )


@pytest.mark.parametrize("make_graph", [make_graph, random_graph])
@pytest.mark.parametrize(
    ("receiver_tag", "node_sets"),
    [(tfgnn.TARGET, None), (tfgnn.TARGET, {"author"}), (tfgnn.SOURCE, ["author", "paper"])],
)
def test_conv_gnn_builder(make_graph, receiver_tag, node_sets):
    def make(layers, k):
        return builder(layers, k, receiver_tag=receiver_tag).Convolve(node_sets, name="convolve")

    assert_parity(make, make_graph())


def test_conv_gnn_builder_leaves_auxiliary_sets_alone():
    assert_parity(lambda layers, k: builder(layers, k).Convolve(), readout_graph())


@SIDES
def test_conv_gnn_builder_refuses_ordinary_edges_to_an_auxiliary_node_set(side):
    graph = readout_graph()
    graph = tfgnn.GraphTensor.from_pieces(
        node_sets={
            **graph.node_sets,
            "_readout": tfgnn.NodeSet.from_fields(sizes=[2, 0, 1], features={STATE: tf.eye(3)}),
        },
        edge_sets={"not_auxiliary": graph.edge_sets["_readout/seed"]},
    )
    with pytest.raises(ValueError, match="not_auxiliary"):
        builder(*side).Convolve()(graph)


def test_conv_gnn_builder_with_other_factories():
    def make(layers, k):
        return builder(
            layers,
            k,
            node_set_update_factory=lambda node_set_name, edge_set_inputs, next_state: layers.NodeSetUpdate(
                edge_set_inputs, next_state, context_input_feature="mood", name=f"{node_set_name}_update"
            ),
            graph_update_factory=lambda deferred_init_callback, name: layers.GraphUpdate(
                deferred_init_callback=deferred_init_callback, name=f"my_{name}"
            ),
        ).Convolve(name="convolve")

    assert_parity(make, make_graph())
    assert make(*OURS).name == make(*THEIRS).name == "my_convolve"


def test_conv_gnn_builder_without_receiver_tag():
    """Deprecated, but TF-GNN still does it: the factory is not told the tag, and the receiver is the target."""

    def make(layers, k):
        return layers.ConvGNNBuilder(
            lambda edge_set_name: layers.SimpleConv(k.layers.Dense(3, name=edge_set_name)),
            lambda node_set_name: layers.NextStateFromConcat(k.layers.Dense(4, name=node_set_name)),
        ).Convolve({"author"})

    assert_parity(make, make_graph())


@SIDES
@pytest.mark.parametrize("node_sets", [{"topic"}, {"_readout"}])
def test_conv_gnn_builder_refuses_node_sets_that_cannot_receive(side, node_sets):
    with pytest.raises(ValueError, match=next(iter(node_sets))):
        builder(*side).Convolve(node_sets)(make_graph())
