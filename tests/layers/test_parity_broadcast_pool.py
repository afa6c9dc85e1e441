import pytest

from sggnn_tf import tfgnn
from tests.layers.parity import STATE, assert_parity, make_graph

GRAPH = make_graph()

BROADCASTS = [
    (tfgnn.SOURCE, {"edge_set_name": "writes"}),
    (tfgnn.TARGET, {"edge_set_name": "writes"}),
    (tfgnn.TARGET, {"edge_set_name": "reviews"}),
    (tfgnn.TARGET, {"edge_set_name": ["writes", "cites", "reviews"]}),
    (tfgnn.SOURCE, {"edge_set_name": ("reviews", "writes")}),
    (tfgnn.TARGET, {"edge_set_name": ["cites"]}),
    (tfgnn.TARGET, {"edge_set_name": "cites", "feature_name": "embedding"}),
    (tfgnn.SOURCE, {"edge_set_name": "cites", "feature_name": "year"}),
    (tfgnn.SOURCE, {"edge_set_name": "cites", "feature_name": "venue"}),
    (tfgnn.CONTEXT, {"edge_set_name": "cites"}),
    (tfgnn.CONTEXT, {"edge_set_name": ["cites", "reviews"]}),
    (tfgnn.CONTEXT, {"node_set_name": "topic"}),
    (tfgnn.CONTEXT, {"node_set_name": ["paper", "topic"], "feature_name": "mood"}),
]
POOLS = [
    (tfgnn.SOURCE, {"edge_set_name": "writes"}),
    (tfgnn.TARGET, {"edge_set_name": "writes"}),
    (tfgnn.TARGET, {"edge_set_name": "reviews"}),
    (tfgnn.TARGET, {"edge_set_name": ["writes", "cites", "reviews"]}),
    (tfgnn.SOURCE, {"edge_set_name": ("reviews", "writes")}),
    (tfgnn.TARGET, {"edge_set_name": "cites", "feature_name": "weight"}),
    (tfgnn.CONTEXT, {"edge_set_name": "cites"}),
    (tfgnn.CONTEXT, {"edge_set_name": ["cites", "reviews"]}),
    (tfgnn.CONTEXT, {"node_set_name": "paper", "feature_name": "embedding"}),
    (tfgnn.CONTEXT, {"node_set_name": ["paper", "author"]}),
]
AT_INIT_OR_CALL = pytest.mark.parametrize("at_init", [True, False], ids=["at init", "at call"])


@AT_INIT_OR_CALL
@pytest.mark.parametrize(("tag", "kwargs"), BROADCASTS)
def test_broadcast(tag, kwargs, at_init):
    at_call = {} if at_init else {"tag": tag, **kwargs}
    assert_parity(
        lambda layers, k: layers.Broadcast(tag, **kwargs) if at_init else layers.Broadcast(),
        GRAPH,
        lambda layer, graph: layer(graph, **at_call),
    )


@AT_INIT_OR_CALL
@pytest.mark.parametrize("reduce_type", ["sum", "mean|max_no_inf"])
@pytest.mark.parametrize(("tag", "kwargs"), POOLS)
def test_pool(tag, kwargs, reduce_type, at_init):
    at_call = {} if at_init else {"tag": tag, "reduce_type": reduce_type, **kwargs}
    assert_parity(
        lambda layers, k: layers.Pool(tag, reduce_type, **kwargs) if at_init else layers.Pool(),
        GRAPH,
        lambda layer, graph: layer(graph, **at_call),
    )


@pytest.mark.parametrize("names", [["writes", "reviews"], ("writes", "reviews")])
def test_values_given_at_init_may_be_repeated_at_call(names):
    again = {"tag": tfgnn.SOURCE, "edge_set_name": ["writes", "reviews"], "feature_name": STATE}
    assert_parity(
        lambda layers, k: layers.Broadcast(tfgnn.SOURCE, edge_set_name=names, feature_name=STATE),
        GRAPH,
        lambda layer, graph: layer(graph, **again),
    )
