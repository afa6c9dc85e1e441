import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from tests.layers.parity import STATE, assert_parity, make_graph, random_graph

GRAPH = make_graph()
GRAPHS = {
    "empty component": lambda: GRAPH,
    "no authors": lambda: make_graph(seed=1, sizes={"paper": (2, 6), "author": (0, 0), "topic": (0, 3)}),
    "no nodes": lambda: make_graph(seed=2, sizes={"paper": (0,), "author": (0,), "topic": (0,)}),
    "random": random_graph,
}


def updates(layers, k):
    """Updates of edge sets, node sets and the context, each of which reads what the ones before made."""

    def next_state(name):
        return layers.NextStateFromConcat(k.layers.Dense(4, "tanh", name=name))

    def conv(name, tag, **kwargs):
        return layers.SimpleConv(k.layers.Dense(3, "relu", name=name), receiver_tag=tag, **kwargs)

    return {
        "edge_sets": {
            "writes": layers.EdgeSetUpdate(next_state("writes"), context_input_feature=STATE),
            "cites": layers.EdgeSetUpdate(layers.ResidualNextState(k.layers.Dense(4, name="cites"), activation="relu")),
            "reviews": layers.EdgeSetUpdate(next_state("reviews")),
        },
        "node_sets": {
            "paper": layers.NodeSetUpdate(
                {
                    "writes": conv("writes_to_paper", tfgnn.TARGET, reduce_type="mean", sender_edge_feature=STATE),
                    "cites": layers.Pool(tfgnn.TARGET, "max_no_inf"),
                    "reviews": conv("reviews_to_paper", tfgnn.TARGET),
                    "reads": conv("reads_to_paper", tfgnn.SOURCE),
                },
                next_state("paper"),
                context_input_feature="mood",
            ),
            "author": layers.NodeSetUpdate({"writes": conv("writes_to_author", tfgnn.SOURCE)}, next_state("author")),
            "topic": layers.NodeSetUpdate(
                {"covers": layers.Pool(tfgnn.SOURCE, "sum")}, layers.SingleInputNextState(), node_input_feature=None
            ),
        },
        "context": layers.ContextUpdate(
            {"paper": conv("paper_to_context", tfgnn.CONTEXT), "author": layers.Pool(tfgnn.CONTEXT, "mean")},
            next_state("context"),
            edge_set_inputs={"cites": layers.Pool(tfgnn.CONTEXT, "sum")},
        ),
    }


def graph_update(layers, k):
    return layers.GraphUpdate(**updates(layers, k))


@pytest.mark.parametrize("graph", GRAPHS)
def test_graph_update(graph):
    assert_parity(graph_update, GRAPHS[graph]())


@pytest.mark.parametrize("graph", ["empty component", "random"])
def test_graph_update_in_a_tf_function(graph):
    assert_parity(graph_update, GRAPHS[graph](), traced=True)


def test_graph_update_applied_twice():
    assert_parity(graph_update, GRAPH, lambda layer, graph: layer(layer(graph)))


def test_graph_update_on_another_graph_than_the_first():
    assert_parity(graph_update, GRAPH, first_inputs=GRAPHS["no authors"]())


@pytest.mark.parametrize("parts", [["edge_sets"], ["node_sets"], ["context"], []])
def test_graph_update_in_part(parts):
    def make(layers, k):
        return layers.GraphUpdate(**{part: updates(layers, k)[part] for part in parts})

    assert_parity(make, GRAPH)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_graph_update_with_deferred_init(traced):
    def make(layers, k):
        def init(spec):
            received = {
                name: layers.SimpleConv(k.layers.Dense(3, name=name))
                for name, edges in spec.edge_sets_spec.items()
                if edges.adjacency_spec.target_name == "paper" and name != "covers"
            }
            next_state = layers.NextStateFromConcat(k.layers.Dense(4, name="paper"))
            return {"node_sets": {"paper": layers.NodeSetUpdate(received, next_state)}}

        return layers.GraphUpdate(deferred_init_callback=init)

    assert_parity(make, GRAPH, traced=traced)


def test_an_update_may_return_several_features():
    def make(layers, k):
        class Several(k.layers.Layer):
            def __init__(self):
                super().__init__()
                self.dense = k.layers.Dense(4, name="dense")

            def call(self, inputs):
                old, from_edges, _ = inputs
                return {"embedding": self.dense(old), "new": from_edges["cites"]}

        return layers.GraphUpdate(
            node_sets={"paper": layers.NodeSetUpdate({"cites": layers.Pool(tfgnn.TARGET, "sum")}, Several())}
        )

    assert_parity(make, GRAPH)


@pytest.mark.parametrize("training", [False, True])
def test_training_reaches_the_layers_inside(training):
    def make(layers, k):
        class TwiceInTraining(k.layers.Layer):
            def call(self, inputs, training=None):
                return 2.0 * inputs if training else inputs

        conv = layers.SimpleConv(TwiceInTraining())
        update = layers.NodeSetUpdate({"cites": conv}, layers.NextStateFromConcat(TwiceInTraining()))
        return layers.GraphUpdate(node_sets={"paper": update})

    assert_parity(make, GRAPH, lambda layer, graph: layer(graph, training=training))


SELECTED = ["mood", ["mood", STATE], [], None]


@pytest.mark.parametrize("context_input_feature", SELECTED, ids=str)
@pytest.mark.parametrize("edge_input_feature", [STATE, ["weight", STATE], [], None], ids=str)
def test_edge_set_update(edge_input_feature, context_input_feature):
    def make(layers, k):
        return layers.EdgeSetUpdate(
            layers.NextStateFromConcat(k.layers.Dense(3, "relu", name="dense")),
            edge_input_feature=edge_input_feature,
            context_input_feature=context_input_feature,
        )

    assert_parity(make, GRAPH, lambda layer, graph: layer(graph, edge_set_name="cites"))


@pytest.mark.parametrize("edge_set_name", ["writes", "reviews"])
@pytest.mark.parametrize(
    "kwargs",
    [
        {"node_input_tags": [tfgnn.SOURCE]},
        {"node_input_tags": (tfgnn.TARGET,)},
        {"node_input_tags": [tfgnn.TARGET], "node_input_feature": "embedding"},
        {"node_input_tags": []},
        {"node_input_feature": None},
    ],
)
def test_edge_set_update_from_nodes(edge_set_name, kwargs):
    def make(layers, k):
        return layers.EdgeSetUpdate(layers.NextStateFromConcat(k.layers.Dense(3, "relu", name="dense")), **kwargs)

    assert_parity(make, GRAPH, lambda layer, graph: layer(graph, edge_set_name=edge_set_name))


def test_edge_set_update_with_three_ends():
    ends = {0: ("author", [0, 1, 6]), 1: ("paper", [0, 0, 8]), 2: ("author", [2, 2, 3])}
    adjacency = tfgnn.HyperAdjacency.from_indices({tag: (name, tf.constant(i)) for tag, (name, i) in ends.items()})
    edges = tfgnn.EdgeSet.from_fields(sizes=[2, 0, 1], features={STATE: tf.eye(3)}, adjacency=adjacency)
    graph = tfgnn.GraphTensor.from_pieces(node_sets=GRAPH.node_sets, edge_sets={"triples": edges})

    def make(layers, k):
        return layers.EdgeSetUpdate(layers.NextStateFromConcat(k.layers.Dense(3, name="dense")), node_input_tags=ends)

    assert_parity(make, graph, lambda layer, graph: layer(graph, edge_set_name="triples"))


@pytest.mark.parametrize("context_input_feature", SELECTED, ids=str)
@pytest.mark.parametrize("node_input_feature", [STATE, ["embedding", STATE], [], None], ids=str)
def test_node_set_update(node_input_feature, context_input_feature):
    def make(layers, k):
        return layers.NodeSetUpdate(
            {"writes": layers.SimpleConv(k.layers.Dense(3, name="conv")), "cites": layers.Pool(tfgnn.SOURCE, "mean")},
            layers.NextStateFromConcat(k.layers.Dense(3, "relu", name="dense")),
            node_input_feature=node_input_feature,
            context_input_feature=context_input_feature,
        )

    assert_parity(make, GRAPH, lambda layer, graph: layer(graph, "paper"))


@pytest.mark.parametrize("edge_set_name", [None, "cites", "reviews"])
@pytest.mark.parametrize("context_input_feature", SELECTED, ids=str)
def test_context_update(context_input_feature, edge_set_name):
    def make(layers, k):
        to_context = {"receiver_tag": tfgnn.CONTEXT, "receiver_feature": None}
        pool = layers.SimpleConv(k.layers.Dense(3, name="edges"), sender_edge_feature=STATE, **to_context)
        return layers.ContextUpdate(
            {"paper": layers.SimpleConv(k.layers.Dense(3, name="nodes"), **to_context)},
            layers.NextStateFromConcat(k.layers.Dense(3, "relu", name="dense")),
            edge_set_inputs={edge_set_name: pool} if edge_set_name else None,
            context_input_feature=context_input_feature,
        )

    assert_parity(make, GRAPH)
