"""What does not fit its schema is refused, with a message that names it."""

import dataclasses

import numpy as np
import pytest

from sggnn_tf import schema as schemas
from sggnn_tf import tasks
from sggnn_tf.data import Graph, task_schema
from sggnn_tf.data.codec import Codec
from tests.data.library_codec import GRAPH, LIBRARY, with_context, with_edges, with_features, with_nodes, without
from tests.data.schemas import library_graph, ragged

RECALL = tasks.ConditionalRecall()


def with_shares(**features):
    return dataclasses.replace(GRAPH, edge_features={"writes": {**GRAPH.edge_features["writes"], **features}})


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        pytest.param(dataclasses.replace(GRAPH, nodes=without(GRAPH.nodes, "paper")), "'paper'", id="no node set"),
        pytest.param(
            dataclasses.replace(GRAPH, nodes=without(GRAPH.nodes, "topic")), "'topic'", id="no plain node set"
        ),
        pytest.param(with_nodes(reader=3), r"'reader'.*'author', 'paper', 'topic'", id="unknown node set"),
        pytest.param(with_edges(reads=([0], [0])), r"'reads'.*'about', 'cites', 'writes'", id="unknown edge set"),
        pytest.param(
            dataclasses.replace(GRAPH, edge_features={**GRAPH.edge_features, "reads": {}}),
            r"'reads'.*'about', 'cites', 'writes'",
            id="features of an unknown edge set",
        ),
        pytest.param(
            with_nodes(author=without(GRAPH.nodes["author"], "age")), "'age' of the node set 'author'", id="no feature"
        ),
        pytest.param(with_nodes(author=2), "'age' of the node set 'author'", id="only a number"),
        pytest.param(
            dataclasses.replace(GRAPH, edge_features={}), "'share' of the edge set 'writes'", id="no edge features"
        ),
        pytest.param(
            dataclasses.replace(GRAPH, edge_features={"writes": without(GRAPH.edge_features["writes"], "weeks")}),
            "'weeks' of the edge set 'writes'",
            id="no edge feature",
        ),
        pytest.param(dataclasses.replace(GRAPH, context={"label": 1}), "'season' of the context", id="no context"),
        pytest.param(
            with_features("author", name=["x", "y"]),
            r"'name' of the node set 'author'.*'age', 'country', 'position'",
            id="unknown feature",
        ),
        pytest.param(with_shares(name=[1] * 4), r"'name' of the edge set 'writes'.*'share'", id="unknown edge feature"),
        pytest.param(
            dataclasses.replace(GRAPH, edge_features={**GRAPH.edge_features, "cites": {"share": [1, 2]}}),
            "'share' of the edge set 'cites'",
            id="feature of an edge set without",
        ),
        pytest.param(
            with_nodes(topic={"name": ["x"]}), "'name' of the node set 'topic'", id="feature of a set without"
        ),
        pytest.param(with_context(name=1), r"'name' of the context.*'label', 'season'", id="unknown context feature"),
        pytest.param(
            with_features("author", position=np.zeros([2, 2])),
            r"'position' of the node set 'author'.*\[2, 2\].*\[2, 3\]",
            id="shape",
        ),
        pytest.param(with_features("author", age=np.zeros([2, 1])), r"'age'.*'author'.*\[2, 1\].*\[2\]", id="too deep"),
        pytest.param(with_features("author", age=0.5), r"'age' of the node set 'author'", id="a number for a list"),
        pytest.param(
            with_features("author", country=7), r"'country' of the node set 'author'", id="an id for a list of ids"
        ),
        pytest.param(
            with_features("author", age=[1.0, 2.0, 3.0]),
            r"of the node set 'author'.*\[2\].*\[3\]",
            id="numbers of items",
        ),
        pytest.param(
            with_features("author", position=[[1, 2, 3], [1, 2]]),
            "'position' of the node set 'author'",
            id="ragged list",
        ),
        pytest.param(with_shares(share=[1.0] * 3), r"'share' of the edge set 'writes'.*\[3\].*\[4\]", id="edge shape"),
        pytest.param(with_context(label=[1]), "'label' of the context", id="context shape"),
        pytest.param(with_context(season=[1, 2, 3]), "'season' of the context", id="longer context"),
        pytest.param(with_features("author", country=[0.0, 1.0]), "'country' of the node set 'author'", id="float ids"),
        pytest.param(with_context(label=1.0), "'label' of the context", id="float context id"),
        pytest.param(with_features("paper", year=[1.5, 2, 3]), "'year' of the node set 'paper'", id="float integers"),
        pytest.param(
            with_features("paper", year=["1", "2", "3"]), "'year' of the node set 'paper'", id="text integers"
        ),
        pytest.param(with_features("author", age=["1", "2"]), "'age' of the node set 'author'", id="text numbers"),
        pytest.param(with_features("author", age=[None, 2.0]), "'age' of the node set 'author'", id="no number"),
        pytest.param(with_features("author", age=[1j, 2.0]), "'age' of the node set 'author'", id="complex number"),
        pytest.param(with_features("paper", title=[1, 2, 3]), "'title' of the node set 'paper'", id="numbers as texts"),
        pytest.param(with_features("paper", title=["a", None, "c"]), "'title' of the node set 'paper'", id="no text"),
        pytest.param(with_features("paper", title=["a", 7, "c"]), "'title' of the node set 'paper'", id="mixed texts"),
        pytest.param(with_features("paper", year=[1, 2**31, 3]), "'year' of the node set 'paper'", id="beyond int32"),
        pytest.param(
            with_features("paper", year=np.array([1, 2**63, 3], np.uint64)), "'year'.*'paper'", id="beyond int64"
        ),
        pytest.param(with_features("author", country=[0, 3]), r"Item 1 .*'country'.*'author' is 3.*0 to 2", id="id"),
        pytest.param(with_features("author", country=[-1, 0]), r"Item 0 .*'country'.* is -1.*0 to 2", id="negative id"),
        pytest.param(
            with_features("paper", grades=[[0, 1], [0, 1], [2, 5]]),
            r"Item 2 of .*'grades' of the node set 'paper' is .*5.*0 to 4",
            id="one id of several",
        ),
        pytest.param(with_context(label=3), r"'label' of the context is 3.*0 to 2", id="context id"),
        pytest.param(
            with_features("author", country=["at", "de"]), "'country' of the node set 'author' has 'de'", id="word"
        ),
        pytest.param(with_features("author", age=[1, np.nan]), "Item 1 of .*'age' of the node set 'author'", id="NaN"),
        pytest.param(
            with_features("author", position=[[1, 2, 3], [1, 2, -np.inf]]),
            r"Item 1 of .*'position'.*'author'",
            id="inf",
        ),
        pytest.param(
            with_shares(share=[0, 0, np.inf, 0]), "Item 2 of .*'share' of the edge set 'writes'", id="edge inf"
        ),
        pytest.param(with_context(season=[np.nan, 1]), "'season' of the context", id="context NaN"),
        pytest.param(
            with_edges(about=([0, 3], [0, 0])), r"source of edge 1 .*'about' is node 3.*'paper' has 3", id="source"
        ),
        pytest.param(
            with_edges(about=([0, 1, 2], [0, 0, 1])),
            r"target of edge 2 .*'about' is node 1.*'topic' has 1",
            id="target",
        ),
        pytest.param(
            with_edges(about=([-1, 0], [0, 0])), r"source of edge 0 .*'about' is node -1.*'paper'", id="negative source"
        ),
        pytest.param(
            with_edges(about=([1, 0], [0, -2])), r"target of edge 1 .*'about' is node -2.*'topic'", id="negative target"
        ),
        pytest.param(with_edges(about=([0, 1], [0])), r"'about' has 2 sources and 1 targets", id="unequal ends"),
        pytest.param(with_edges(about=([[0, 1]], [[0, 0]])), "sources of the edge set 'about'", id="2-D sources"),
        pytest.param(with_edges(about=([0], [[0]])), "targets of the edge set 'about'", id="2-D targets"),
        pytest.param(with_edges(about=(0, 0)), "sources of the edge set 'about'", id="an end without a list"),
        pytest.param(with_edges(about=([0.0], [0])), "sources of the edge set 'about'", id="float ends"),
        pytest.param(with_edges(about=([[0], [1, 2]], [0, 0])), "'about'", id="ragged ends"),
        pytest.param(with_edges(about=([0],)), "'about'", id="sources only"),
        pytest.param(with_edges(about=([0], [0], [0])), "'about'", id="three ends"),
        pytest.param(library_graph(0, 0, 0), "empty", id="empty graph"),
        pytest.param(with_nodes(topic={}), r"'topic'.*number", id="a set without features and number"),
        pytest.param(with_nodes(with_edges(about=([], [])), topic=-1), "'topic'", id="a negative number of nodes"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(graph, message):
    with pytest.raises(ValueError, match=message):
        LIBRARY.encode(graph)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (([0, 1], [1, 0]), r"targets.*'_readout/target'.*0 to 1"),
        (([0, 1], [0, 0]), r"targets.*'_readout/target'.*0 to 1"),
        (([0], [0]), r"targets.*'_readout/target'.*0 to 1"),
        (([0, 0, 1], [0, 1, 1]), r"targets.*'_readout/target'.*0 to 1"),
        (([], []), r"targets.*'_readout/target'.*0 to 1"),
        (([0, 2], [0, 1]), r"source of edge 1 .*'_readout/target' is node 2.*'char' has 2"),
    ],
)
def test_a_readout_has_one_edge_for_each_question_in_order(asked, message):
    graph = RECALL.graph("ab")
    nodes = {**graph.nodes, "_readout": {"label": [0, 1]}}
    graph = dataclasses.replace(graph, nodes=nodes, edges={**graph.edges, "_readout/target": asked})
    with pytest.raises(ValueError, match=message):
        Codec(task_schema(RECALL)).encode(graph)


def test_questions_alone_are_an_empty_graph():
    with pytest.raises(ValueError, match="empty"):
        Codec(task_schema(RECALL)).encode(Graph(nodes={"char": {"symbol": []}, "_readout": {"label": []}}, edges={}))


def test_ragged_features_are_refused_by_name():
    with pytest.raises(ValueError, match="'words' of the node set 'paper'"):
        Codec(ragged()).encode(Graph(nodes={"paper": {"words": [[1, 2]]}}, edges={}))


def test_names_are_spelt_as_in_the_schema():
    schema = schemas.from_text('node_sets { key: "Atom" value { features { key: "Z" value { dtype: DT_INT64 } } } }')
    schemas.set_num_values(schema, "Atom", "Z", ["H", "He"])
    for values in (["Li"], [7], [0.5]):
        with pytest.raises(ValueError, match="'Z' of the node set 'Atom'"):
            Codec(schema).encode(Graph(nodes={"Atom": {"Z": values}}, edges={}))


@pytest.mark.parametrize("record", [b"garbage", LIBRARY.encode(GRAPH)[:-5], b"\xff\xff"])
def test_bytes_that_are_no_example_are_refused(record):
    with pytest.raises(ValueError, match=r"tf\.train\.Example"):
        LIBRARY.decode(record)
