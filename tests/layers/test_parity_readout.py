import pytest

from sggnn_tf import tfgnn
from tests.layers.parity import STATE, assert_parity, batched_graph, make_graph, readout_graph

NO_EMPTY_COMPONENT = {"paper": (4, 1), "author": (3, 2), "topic": (0, 2)}


@pytest.mark.parametrize("at_init", [True, False], ids=["at init", "at call"])
@pytest.mark.parametrize(
    ("layer", "kwargs"),
    [
        ("Readout", {"node_set_name": "paper"}),
        ("Readout", {"node_set_name": "paper", "feature_name": "venue"}),
        ("Readout", {"edge_set_name": "reviews"}),
        ("Readout", {"edge_set_name": "cites", "feature_name": "weight"}),
        ("Readout", {"from_context": True}),
        ("Readout", {"from_context": True, "feature_name": "mood"}),
        ("ReadoutFirstNode", {"node_set_name": "paper"}),
        ("ReadoutFirstNode", {"node_set_name": "paper", "feature_name": "year"}),
    ],
)
def test_readout(layer, kwargs, at_init):
    at_call = {} if at_init else kwargs
    assert_parity(
        lambda layers, k: getattr(layers, layer)(**(kwargs if at_init else {})),
        make_graph(sizes=NO_EMPTY_COMPONENT),
        lambda layer, graph: layer(graph, **at_call),
    )


@pytest.mark.parametrize("kwargs", [{"node_set_name": "paper"}, {"edge_set_name": "cites"}, {"from_context": True}])
def test_readout_of_a_batch(kwargs):
    assert_parity(lambda layers, k: layers.Readout(**kwargs), batched_graph())


@pytest.mark.parametrize("readout", ["_readout", "_readout:test"])
@pytest.mark.parametrize(
    ("key", "kwargs"),
    [
        ("seed", {}),
        ("seed", {"feature_name": "embedding"}),
        ("seed", {"feature_name": "venue"}),
        ("seed", {"validate": False}),
        ("edge", {"feature_name": "weight"}),
        ("mixed", {}),
    ],
)
def test_structured_readout(key, kwargs, readout):
    assert_parity(
        lambda layers, k: layers.StructuredReadout(key, readout_node_set=readout, **kwargs), readout_graph(readout)
    )


@pytest.mark.parametrize("readout", ["_readout", "_readout:test"])
@pytest.mark.parametrize(
    ("key", "kwargs"),
    [
        ("seed", {"feature_name": "year"}),
        ("seed", {"feature_name": STATE, "new_feature_name": "state"}),
        ("seed", {"feature_name": "year", "new_feature_name": "label", "overwrite": True}),
        ("seed", {"feature_name": "year", "remove_input_feature": True, "validate": False}),
        ("edge", {"feature_name": "weight", "remove_input_feature": True}),
        ("mixed", {"feature_name": STATE, "remove_input_feature": True}),
    ],
)
def test_structured_readout_into_feature(key, kwargs, readout):
    assert_parity(
        lambda layers, k: layers.StructuredReadoutIntoFeature(key, readout_node_set=readout, **kwargs),
        readout_graph(readout),
    )


@pytest.mark.parametrize(
    ("layer", "kwargs"), [("StructuredReadout", {}), ("StructuredReadoutIntoFeature", {"feature_name": STATE})]
)
def test_structured_readouts_take_the_key_at_call(layer, kwargs):
    assert_parity(
        lambda layers, k: getattr(layers, layer)(**kwargs),
        readout_graph(),
        lambda layer, graph: layer(graph, key="seed"),
    )


@pytest.mark.parametrize("kwargs", [{}, {"readout_node_set": "_readout:test"}])
def test_add_readout_from_first_node(kwargs):
    graph = make_graph(sizes=NO_EMPTY_COMPONENT)

    def make_and_add(key, node_set_name):
        return lambda layers, k: layers.AddReadoutFromFirstNode(key, node_set_name=node_set_name, **kwargs)

    assert_parity(make_and_add("seed", "paper"), graph)
    with_readout = tfgnn.add_readout_from_first_node(graph, "seed", node_set_name="paper", **kwargs)
    assert_parity(make_and_add("other", "author"), with_readout)
