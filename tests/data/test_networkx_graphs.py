"""Graphs from NetworkX: the same records, whatever the order of the nodes, and refusals by name."""

import itertools
import random

import networkx as nx
import numpy as np
import pytest

from sggnn_tf import tasks
from sggnn_tf.data import Examples, Graph, from_networkx, task_schema
from sggnn_tf.data.codec import Codec
from tests.data.schemas import library

RECALL = tasks.ConditionalRecall()
LIBRARY = Codec(library())


def encoded(graph, schema):
    return Codec(schema).encode(from_networkx(graph, schema))


def string(text="a8cDe", label="8"):
    graph = nx.MultiDiGraph()
    for place, character in enumerate(text):
        graph.add_node(place, symbol=character)
    graph.nodes[len(text) - 1]["label"] = label
    for place, after in itertools.pairwise(range(len(text))):
        graph.add_edge(place, after, key="next")
        graph.add_edge(after, place, key="previous")
    for place in range(len(text)):
        graph.add_edge(place, place, key="self")
    return graph


def by_edge(graph):
    """The same graph with the edges of each set in one order."""
    edges, features = {}, {}
    for name, ends in graph.edges.items():
        sources, targets = np.asarray(ends, int)
        order = np.lexsort([targets, sources])
        edges[name] = (sources[order], targets[order])
        given = graph.edge_features.get(name, {})
        features[name] = {key: np.asarray(column)[order] for key, column in given.items() if len(order)}
    return Graph(nodes=graph.nodes, edges=edges, edge_features=features, context=graph.context)


def people():
    """Ann and Bob, who wrote three papers, in no order."""
    graph = nx.MultiDiGraph(label=2, season=[0.5, -1.0], name="not in the schema")
    graph.add_node("p2", node_set="paper", grades=[1, 2], title="Zwei", year=2002)
    graph.add_node("Ann", node_set="author", age=30, country="it", position=[1.0, 2.0, 3.0], email="not in the schema")
    graph.add_node("maths", node_set="topic")
    graph.add_node("p0", node_set="paper", grades=(0, 4), title="Null", year=2000)
    graph.add_node("Bob", node_set="author", age=40.5, country="at", position=np.array([4.0, 5.0, 6.0]))
    graph.add_node("p1", node_set="paper", grades=[3, 3], title=b"Eins", year=2001)
    graph.add_edge("Bob", "p0", key="writes", share=0.25, weeks=[1, 2])
    graph.add_edge("Ann", "p0", key="writes", share=0.75, weeks=[3, 4])
    graph.add_edge("Ann", "p1", key="writes", share=1.0, weeks=[5, 6], note="not in the schema")
    graph.add_edge("p1", "p0", key="cites")
    graph.add_edge("p2", "maths", key="about")
    graph.add_edge("p0", "maths", key="about")
    return graph


def test_a_string_is_that_of_the_task():
    schema = task_schema(RECALL)
    expected = RECALL.graph("a8cDe")
    assert encoded(string(), schema) == Codec(schema).encode(expected)


def test_ids_may_stand_for_words_and_words_for_ids():
    graph = string()
    for _, attributes in graph.nodes(data=True):
        attributes["symbol"] = RECALL.alphabet.index(attributes["symbol"])
    graph.nodes[4]["label"] = RECALL.alphabet.index("8")
    assert encoded(graph, task_schema(RECALL)) == encoded(string(), task_schema(RECALL))


def test_the_only_node_set_may_be_named():
    graph = string()
    nx.set_node_attributes(graph, "char", "node_set")
    assert encoded(graph, task_schema(RECALL)) == encoded(string(), task_schema(RECALL))


def test_a_tree_is_that_of_the_task():
    task = tasks.TreeMax()
    parents, numbers = [-1, 0, 0, 0, 2, 2], [3, 1, 4, 1, 5, 9]
    expected = task.graph(parents, numbers)
    graph = nx.MultiDiGraph()
    for node, number in enumerate(numbers):
        graph.add_node(node, value=number, label=int(expected.nodes["_readout"]["label"][node]))
        graph.add_edge(node, node, key="self")
    for node, number in [(1, 1), (2, 2), (3, 3), (4, 1), (5, 2)]:
        graph.add_edge(parents[node], node, key=f"child_{number}")
        graph.add_edge(node, parents[node], key=f"child_{number}_of")
    codec = Codec(task_schema(task))
    assert codec.encode(by_edge(from_networkx(graph, codec.schema))) == codec.encode(by_edge(expected))


def test_several_node_sets_with_features_of_nodes_edges_and_context():
    expected = Graph(
        nodes={
            "author": {"age": [30, 40.5], "country": [2, 0], "position": [[1, 2, 3], [4, 5, 6]]},
            "paper": {
                "grades": [[1, 2], [0, 4], [3, 3]],
                "title": [b"Zwei", b"Null", b"Eins"],
                "year": [2002, 2000, 2001],
            },
            "topic": 1,
        },
        edges={"writes": ([0, 0, 1], [1, 2, 1]), "cites": ([2], [1]), "about": ([0, 1], [0, 0])},
        edge_features={"writes": {"share": [0.75, 1.0, 0.25], "weeks": [[3, 4], [5, 6], [1, 2]]}},
        context={"label": 2, "season": [0.5, -1.0]},
    )
    found = by_edge(from_networkx(people(), library()))
    assert LIBRARY.encode(found) == LIBRARY.encode(expected)
    assert len(Examples.from_graphs([found], library())) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_nodes_and_edges_only_renumbers(seed):
    graph, mixed = people(), nx.MultiDiGraph(**people().graph)
    shuffle = random.Random(seed)
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(keys=True, data=True))
    mixed.add_nodes_from(shuffle.sample(nodes, len(nodes)))
    for source, target, key, attributes in shuffle.sample(edges, len(edges)):
        mixed.add_edge(source, target, key=key, **attributes)
    names = [
        {name: [n for n, a in g.nodes(data=True) if a["node_set"] == name] for name in ("author", "paper")}
        for g in (graph, mixed)
    ]
    first, second = (from_networkx(each, library()) for each in (graph, mixed))
    for name in ("author", "paper"):
        order = [names[1][name].index(node) for node in names[0][name]]
        for feature, column in first.nodes[name].items():
            np.testing.assert_array_equal(np.asarray(second.nodes[name][feature])[order], column)

    def writings(found, names):
        share = found.edge_features["writes"]["share"]
        ends = zip(*found.edges["writes"], share, strict=True)
        return sorted((names["author"][source], names["paper"][target], each) for source, target, each in ends)

    expected = [("Ann", "p0", 0.75), ("Ann", "p1", 1.0), ("Bob", "p0", 0.25)]
    assert writings(first, names[0]) == writings(second, names[1]) == expected


def test_the_nodes_that_are_asked_keep_the_order_of_the_graph():
    graph = string("abc", "a")
    graph.nodes[1]["label"] = "b"
    found = from_networkx(graph, task_schema(RECALL))
    assert found.nodes["_readout"] == {"label": ["b", "a"]}
    assert found.edges["_readout/target"] == ([1, 2], [0, 1])


def test_a_graph_without_questions():
    graph = string()
    del graph.nodes[4]["label"]
    found = from_networkx(graph, task_schema(RECALL))
    assert found.edges["_readout/target"] == ([], [])
    Codec(task_schema(RECALL)).encode(found)


@pytest.mark.parametrize("node_set", ["author", "paper", "topic"])
def test_a_node_set_may_have_no_nodes(node_set):
    graph = people()
    graph.remove_nodes_from([node for node, name in graph.nodes(data="node_set") if name == node_set])
    decoded = LIBRARY.decode(encoded(graph, library()))
    nodes = decoded.nodes[node_set]
    assert nodes == 0 if node_set == "topic" else all(len(column) == 0 for column in nodes.values())


def test_a_graph_may_have_no_edges():
    graph = people()
    graph.remove_edges_from(list(graph.edges(keys=True)))
    decoded = LIBRARY.decode(encoded(graph, library()))
    assert all(len(end) == 0 for ends in decoded.edges.values() for end in ends)


def test_an_empty_graph_is_refused():
    with pytest.raises(ValueError, match="empty"):
        encoded(nx.MultiDiGraph(), task_schema(RECALL))


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_a_graph_without_directions_or_keys_is_refused(kind):
    with pytest.raises(ValueError, match=rf"MultiDiGraph.*\b{kind.__name__}\b"):
        from_networkx(kind(), task_schema(RECALL))


@pytest.mark.parametrize("key", [None, "follows", "_readout/target"])
def test_a_key_that_is_no_edge_set_is_refused(key):
    graph = string()
    graph.add_edge(1, 3, key=key)
    with pytest.raises(ValueError, match=r"'next', 'previous', 'self'.*from 1 to 3.*") as error:
        from_networkx(graph, task_schema(RECALL))
    assert repr(0 if key is None else key) in str(error.value)


@pytest.mark.parametrize("node_set", ["reader", "_readout", None])
def test_an_unknown_node_set_is_refused(node_set):
    graph = people()
    graph.nodes["Bob"]["node_set"] = node_set
    with pytest.raises(ValueError, match=rf"'Bob'.*{node_set!r}.*'author', 'paper', 'topic'"):
        from_networkx(graph, library())


def test_of_several_node_sets_one_has_to_be_named():
    graph = people()
    del graph.nodes["Bob"]["node_set"]
    with pytest.raises(ValueError, match=r"'Bob'.*'author', 'paper', 'topic'"):
        from_networkx(graph, library())


def test_a_node_that_only_an_edge_names_lacks_its_attributes():
    graph = string()
    graph.add_edge(4, 5, key="next")
    with pytest.raises(ValueError, match=r"'symbol'.*node 5"):
        from_networkx(graph, task_schema(RECALL))


@pytest.mark.parametrize("attribute", ["age", "country", "position"])
def test_a_missing_attribute_of_a_node_is_named(attribute):
    graph = people()
    del graph.nodes["Bob"][attribute]
    with pytest.raises(ValueError, match=rf"'{attribute}'.*'Bob'"):
        from_networkx(graph, library())


@pytest.mark.parametrize("attribute", ["share", "weeks"])
def test_a_missing_attribute_of_an_edge_is_named(attribute):
    graph = people()
    del graph.edges["Ann", "p1", "writes"][attribute]
    with pytest.raises(ValueError, match=rf"'{attribute}'.*'Ann' to 'p1'.*'writes'"):
        from_networkx(graph, library())


def test_a_missing_attribute_of_the_graph_is_named():
    graph = people()
    del graph.graph["season"]
    with pytest.raises(ValueError, match="'season' of the context"):
        encoded(graph, library())


@pytest.mark.parametrize(("source", "target"), [("p0", "Ann"), ("Ann", "Bob"), ("Ann", "maths")])
def test_an_edge_between_the_wrong_node_sets_is_refused(source, target):
    graph = people()
    graph.add_edge(source, target, key="writes", share=1.0, weeks=[0, 0])
    kinds = [graph.nodes[node]["node_set"] for node in (source, target)]
    message = rf"'writes' leads from 'author' to 'paper'.*'{source}' to '{target}'.*from '{kinds[0]}' to '{kinds[1]}'"
    with pytest.raises(ValueError, match=message):
        from_networkx(graph, library())


def test_the_graph_is_left_as_it_was():
    graph, same = people(), people()
    from_networkx(graph, library())
    assert nx.utils.graphs_equal(nx.MultiDiGraph(graph.edges(keys=True)), nx.MultiDiGraph(same.edges(keys=True)))
    np.testing.assert_equal(dict(graph.nodes(data=True)), dict(same.nodes(data=True)))
