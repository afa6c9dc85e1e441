import networkx
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import data, tasks, tfgnn, training
from sggnn_tf.analysis import reach
from sggnn_tf.models import MODELS, build_model
from tests import chains, graphs


def states(graph):
    return graph.node_sets["char"]["hidden_state"]


def brute_force(model, graph, node):
    """The norms of a node's Jacobian by all nodes of its set, a unit at a time."""
    start = model.initial_states(graph)
    with tf.GradientTape(persistent=True) as tape:
        first = states(start)
        tape.watch(first)
        last = states(model.encoder(start.replace_features(node_sets={"char": {"hidden_state": first}})))[node]
        units = tf.unstack(last)
    jacobian = np.array([tf.convert_to_tensor(tape.gradient(unit, first)).numpy() for unit in units])
    return np.sqrt((jacobian**2).sum(axis=(0, 2)))


@pytest.mark.parametrize("name", MODELS)
def test_the_reach_is_that_of_the_jacobian(name):
    model = build_model(name, chains.SCHEMA, units=4, steps=3, dtype="float64")
    graph = chains.merged([[1, 2, 3, 4], [5, 6, 1, 2, 3]])
    found = reach.model_reach(model, graph)
    expected = np.concatenate([brute_force(model, graph, 3)[:4], brute_force(model, graph, 8)[4:]])
    np.testing.assert_allclose(found.norms, expected, rtol=1e-9, atol=1e-14)
    assert found.hops.tolist() == [3, 2, 1, 0, 4, 3, 2, 1, 0]
    assert found.readout.tolist() == [0] * 4 + [1] * 5
    assert found.norms[4] == 0  # Four hops in three steps.
    assert found.by_hop[3] == pytest.approx((expected[0] + expected[5]) / 2)


def test_random_probes_come_near_the_exact_norms():
    model = build_model("sggnn-rv-gat", chains.SCHEMA, units=6, steps=4, gate_bias=3.0, neighbour_bias=2.0)
    graph = chains.merged([[1, 2, 3, 4]])
    exact, estimated = reach.model_reach(model, graph), reach.model_reach(model, graph, probes=400)
    np.testing.assert_allclose(estimated.norms, exact.norms, rtol=4 / np.sqrt(2 * 400))
    assert not np.array_equal(estimated.norms, reach.model_reach(model, graph, probes=400, seed=1).norms)


def test_the_radius_weighs_distances_by_norms():
    found = reach.Reach(np.array([0, 2, 0, 1]), np.array([1.0, 3.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    assert found.radius == pytest.approx((6 / 4 + 0) / 2)
    both = reach.joined([found, found])
    assert both.radius == pytest.approx(found.radius)
    assert both.readout.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert both.by_hop == {0: 0.5, 1: 0.0, 2: 3.0}


def test_distances_are_those_of_shortest_ways():
    task = tasks.TreeMax(trees=8, seed=5)
    schema = data.task_schema(task)
    examples = data.Examples.from_graphs([task.example(number) for number in range(3)], schema)
    graph, _, _ = next(iter(data.Batches(examples, 3).dataset()))
    known = networkx.DiGraph()
    known.add_nodes_from(range(int(graph.node_sets["node"].total_size)))
    for name, edges in graph.edge_sets.items():
        if not name.startswith("_"):
            known.add_edges_from(
                zip(edges.adjacency.source.numpy().tolist(), edges.adjacency.target.numpy().tolist(), strict=True)
            )
    target = 7
    expected = networkx.single_target_shortest_path_length(known, target)
    found = reach.distances(graph, "node", np.array([target]))["node"]
    assert {node: int(hop) for node, hop in enumerate(found) if hop >= 0} == dict(expected)


def test_padding_is_not_measured_and_a_graph_has_one_readout():
    task = tasks.TreeMax(trees=8, seed=5)
    examples = data.generate(task)["train"]
    batch = next(iter(data.Batches(examples, 3).dataset()))
    model = build_model("rgcn", examples.schema, units=4, steps=2)
    found = reach.model_reach(model, batch)
    real = int(batch[2].numpy().sum())
    assert len(found.norms) == real < int(batch[0].node_sets["node"].total_size)
    assert sorted(set(found.readout.tolist())) == [0, 1, 2]
    assert (np.bincount(found.readout[found.hops == 0]) == 1).all()


def test_several_node_sets_are_measured_together():
    graph = graphs.merged([0, 1])
    with_states = graph.replace_features(
        node_sets={
            name: {"hidden_state": tf.random.stateless_normal([int(graph.node_sets[name].total_size), 3], [1, 2])}
            for name in ("user", "group")
        }
    )

    def encoder(graph):  # A group reads its members.
        users = graph.node_sets["user"]["hidden_state"]
        read = tfgnn.pool_edges_to_node(
            graph,
            "member",
            tfgnn.TARGET,
            "sum",
            feature_value=2 * tfgnn.broadcast_node_to_edges(graph, "member", tfgnn.SOURCE, feature_value=users),
        )
        return graph.replace_features(node_sets={"group": {"hidden_state": read}})

    found = reach.gradient_reach(encoder, with_states, "group", np.array([0, 2]))
    assert set(found.by_hop) >= {0, 1}
    assert found.by_hop[0] == 0
    member = with_states.edge_sets["member"].adjacency
    number = np.bincount(member.source.numpy()[np.isin(member.target.numpy(), [0, 2])], minlength=1)
    expected = sorted(2 * np.sqrt(3) * count for count in number[number > 0])
    assert sorted(found.norms[found.norms > 0].tolist()) == pytest.approx(expected)


def test_what_cannot_be_measured_is_said():
    model = build_model("rgcn", chains.SCHEMA, units=4, steps=1)
    graph = model.initial_states(chains.merged([[1, 2, 3]]))
    with pytest.raises(ValueError, match="Two of the nodes are in one graph"):
        reach.gradient_reach(model.encoder, graph, "char", np.array([0, 1]))
    with pytest.raises(ValueError, match="There is no node"):
        reach.gradient_reach(model.encoder, graph, "char", np.array([], int))
    with pytest.raises(ValueError, match="has no 'initial_states'"):
        reach.model_reach(graphs.model(), chains.merged([[1, 2]]))
    with pytest.raises(ValueError, match="read of all nodes together"):
        reach.readout_nodes(graph, "context/label")


def test_the_callback_measures_at_the_start_and_after_epochs():
    config = training.for_task(
        "conditional_recall", "rgcn", task_arguments={"length": 3, "examples_per_class": 2}, units=8, steps=3
    )
    examples = config.examples()
    batches = training.make_batches(config, examples)
    model = training.make_model(config, examples["train"].schema)
    history = reach.ReachHistory(next(iter(batches["valid"].dataset())), epochs=[0, 2], probes=2)
    fitted = model.fit(batches["train"].dataset(), epochs=2, verbose=0, callbacks=[history])
    assert sorted(history.history) == [0, 2]
    assert history.history[0].radius != history.history[2].radius
    assert fitted.history["reach_radius"] == [history.history[2].radius]
    assert fitted.history["reach_far"] == [history.history[2].by_hop[2]]
