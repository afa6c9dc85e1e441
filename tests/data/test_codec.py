"""Arrays to records and back: TF-GNN's own encoding, and a refusal that names what does not fit."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sggnn_tf import schema as schemas
from sggnn_tf import tasks, tfgnn
from sggnn_tf.data import Graph, task_schema
from sggnn_tf.data.codec import Codec
from tests.data.schemas import library, library_graph, ragged

RECALL, TREE = tasks.ConditionalRecall(), tasks.TreeMax()
LIBRARY = Codec(library())
GRAPH = library_graph()
NO_WRITES = {"writes": {"share": [], "weeks": np.zeros([0, 2])}}


@functools.cache
def parser(schema_text):
    spec = tfgnn.create_graph_spec_from_schema_pb(schemas.from_text(schema_text))
    signature = [tf.TensorSpec([], tf.string)]
    return tf.function(lambda record: tfgnn.parse_single_example(spec, record), input_signature=signature)


def as_tfgnn_writes(record, schema):
    return tfgnn.write_example(parser(schemas.to_text(schema))(tf.constant(record)))


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def with_nodes(graph=GRAPH, **sets):
    return dataclasses.replace(graph, nodes={**graph.nodes, **sets})


def with_features(node_set, **features):
    return with_nodes(**{node_set: {**GRAPH.nodes[node_set], **features}})


def with_edges(graph=GRAPH, **edges):
    return dataclasses.replace(graph, edges={**graph.edges, **edges})


def with_shares(**features):
    return dataclasses.replace(GRAPH, edge_features={"writes": {**GRAPH.edge_features["writes"], **features}})


def with_context(**features):
    return dataclasses.replace(GRAPH, context={**GRAPH.context, **features})


def assert_same(found, expected, dtype_kind):
    found = np.asarray(found)
    assert found.dtype.kind == dtype_kind
    np.testing.assert_array_equal(found, expected, strict=False)
    assert found.shape == np.shape(expected)


def assert_graphs_equal(found, expected, schema):
    kinds = {True: "f", False: "i"}

    def compare(features, wanted, piece):
        assert features.keys() == wanted.keys() == piece.features.keys()
        for name, feature in piece.features.items():
            dtype = tf.dtypes.as_dtype(feature.dtype)
            assert_same(features[name], wanted[name], "O" if dtype == tf.string else kinds[dtype.is_floating])

    assert found.nodes.keys() == schema.node_sets.keys()
    for name, piece in schema.node_sets.items():
        if piece.features:
            compare(found.nodes[name], expected.nodes[name], piece)
        else:
            assert found.nodes[name] == expected.nodes[name]
    for name, piece in schema.edge_sets.items():
        for ends, wanted in zip(found.edges[name], expected.edges.get(name, ([], [])), strict=True):
            assert_same(ends, wanted, "i")
        if expected.edge_features.get(name):
            compare(found.edge_features[name], expected.edge_features[name], piece)
    compare(found.context, expected.context, schema.context)


def assert_round_trip(graph, schema):
    codec = Codec(schema)
    record = codec.encode(graph)
    assert tf.train.Example.FromString(record) == as_tfgnn_writes(record, schema)
    decoded = codec.decode(record)
    assert_graphs_equal(decoded, graph, schema)
    assert codec.encode(decoded) == record


@pytest.mark.parametrize("task", [RECALL, TREE, tasks.ConditionalRecall(length=2)], ids=["recall", "tree", "short"])
def test_tasks_are_written_as_tfgnn_writes_them(task):
    for number in range(10):
        assert_round_trip(task.example(number), task_schema(task))


@pytest.mark.parametrize(
    ("task", "graph"), [(RECALL, RECALL.graph("a")), (TREE, TREE.graph([-1], [3]))], ids=["recall", "tree"]
)
def test_a_task_reads_a_decoded_graph_as_its_own(task, graph):
    codec = Codec(task_schema(task))
    decoded = codec.decode(codec.encode(graph))
    assert task.hops(decoded).tolist() == task.hops(graph).tolist()
    assert task.positions(decoded).tolist() == task.positions(graph).tolist()


@pytest.mark.parametrize("sizes", [(2, 3, 1), (1, 1, 1), (0, 2, 2), (3, 0, 1), (0, 0, 1), (5, 4, 0)])
def test_several_node_sets_are_written_as_tfgnn_writes_them(sizes):
    assert_round_trip(library_graph(*sizes), library())


def floats(*shape):
    return hnp.arrays(np.float32, shape, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))


def integers(largest, *shape, smallest=0):
    return hnp.arrays(np.int64, shape, elements=st.integers(smallest, largest))


def byte_strings(number):
    return st.lists(st.binary(max_size=5), min_size=number, max_size=number).map(
        lambda values: np.array([*values, None], object)[:-1]
    )


@st.composite
def library_graphs(draw):
    sizes = draw(st.tuples(*[st.integers(0, 4)] * 3).filter(any))
    authors, papers, topics = sizes
    nodes = {
        "author": {
            "age": draw(floats(authors)),
            "country": draw(integers(2, authors)),
            "position": draw(floats(authors, 3)),
        },
        "paper": {
            "grades": draw(integers(4, papers, 2)),
            "title": draw(byte_strings(papers)),
            "year": draw(integers(2**31 - 1, papers, smallest=-(2**31))),
        },
        "topic": topics,
    }
    edges, edge_features = {}, {}
    for name, ends in {"writes": (authors, papers), "cites": (papers, papers), "about": (papers, topics)}.items():
        number = draw(st.integers(0, 6)) if all(ends) else 0
        if number or draw(st.booleans()):
            edges[name] = tuple(draw(integers(max(end - 1, 0), number)) for end in ends)
            if name == "writes":
                edge_features[name] = {"share": draw(floats(number)), "weeks": draw(floats(number, 2))}
    context = {"label": draw(st.integers(0, 2)), "season": draw(floats(2))}
    return Graph(nodes=nodes, edges=edges, edge_features=edge_features, context=context)


@given(library_graphs())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_any_graph_is_the_same_after_writing_and_reading(graph):
    assert_round_trip(graph, library())


@pytest.mark.parametrize("name", ["about", "cites", "writes"])
def test_an_edge_set_that_is_left_out_has_no_edges(name):
    empty = with_edges(**{name: ([], [])})
    left_out = dataclasses.replace(GRAPH, edges=without(GRAPH.edges, name))
    if name == "writes":
        empty = dataclasses.replace(empty, edge_features=NO_WRITES)
        left_out = dataclasses.replace(left_out, edge_features={})
    assert LIBRARY.encode(left_out) == LIBRARY.encode(empty)


def test_empty_lists_are_features_of_no_items():
    nodes = {**GRAPH.nodes, "author": {"age": [], "country": [], "position": []}}
    lists = dataclasses.replace(GRAPH, nodes=nodes, edges={}, edge_features={"writes": {"share": [], "weeks": []}})
    nodes = {**nodes, "author": {"age": [], "country": [], "position": np.zeros([0, 3])}}
    arrays = dataclasses.replace(GRAPH, nodes=nodes, edges={}, edge_features=NO_WRITES)
    assert LIBRARY.encode(lists) == LIBRARY.encode(arrays)


def test_a_node_set_with_features_may_be_given_as_no_nodes():
    empty = library_graph(authors=0)
    assert LIBRARY.encode(with_nodes(empty, author=0)) == LIBRARY.encode(empty)


@pytest.mark.parametrize("number", [1, np.int64(1), np.int32(1)])
def test_the_number_of_nodes_may_be_of_numpy(number):
    assert LIBRARY.encode(with_nodes(topic=number)) == LIBRARY.encode(GRAPH)


def test_lists_and_other_types_of_numbers_are_the_same_record():
    assert LIBRARY.encode(with_features("author", age=[1, 2])) == LIBRARY.encode(
        with_features("author", age=np.array([1.0, 2.0], np.float16))
    )
    assert LIBRARY.encode(with_features("paper", year=[1, 2, 3])) == LIBRARY.encode(
        with_features("paper", year=np.array([1, 2, 3], np.uint8))
    )
    assert LIBRARY.encode(with_edges(cites=([0], [2]))) == LIBRARY.encode(
        with_edges(cites=np.array([[0], [2]], np.int32))
    )


def test_strings_become_ids_by_the_vocabulary():
    by_word = with_features("author", country=["it", "at"])
    assert LIBRARY.encode(by_word) == LIBRARY.encode(with_features("author", country=[2, 0]))
    codec = Codec(task_schema(RECALL))
    graph = RECALL.graph("x7a")
    words = dataclasses.replace(graph, nodes={"char": {"symbol": list("x7a")}, "_readout": {"label": np.array(["7"])}})
    assert codec.encode(words) == codec.encode(graph)


def test_a_context_takes_words_of_its_vocabulary():
    schema = library()
    schemas.set_num_values(schema, "context", "label", ["no", "yes"])
    codec = Codec(schema)
    assert codec.encode(with_context(label="yes")) == codec.encode(with_context(label=1))


def test_texts_and_bytes_are_kept_to_the_last_byte():
    texts = ["ä\x00", "", "b\x00\x00"]
    record = LIBRARY.encode(with_features("paper", title=texts))
    assert record == LIBRARY.encode(with_features("paper", title=[text.encode() for text in texts]))
    assert LIBRARY.decode(record).nodes["paper"]["title"].tolist() == [text.encode() for text in texts]


def test_the_bytes_are_the_same_each_time():
    assert len({Codec(library()).encode(library_graph(seed=3)) for _ in range(5)}) == 1
    backwards = Graph(
        nodes=dict(reversed(GRAPH.nodes.items())),
        edges=dict(reversed(GRAPH.edges.items())),
        edge_features=GRAPH.edge_features,
        context=dict(reversed(GRAPH.context.items())),
    )
    assert LIBRARY.encode(backwards) == LIBRARY.encode(GRAPH)


def test_fields_stand_in_the_order_of_their_names():
    record = LIBRARY.encode(GRAPH)
    names = sorted(tf.train.Example.FromString(record).features.feature)
    places = [record.index(b"\n" + bytes([len(name)]) + name.encode()) for name in names]
    assert places == sorted(places)


def test_encoding_changes_no_array_of_the_graph():
    graph, same = library_graph(), library_graph()
    LIBRARY.encode(graph)
    np.testing.assert_equal(dataclasses.asdict(graph), dataclasses.asdict(same))


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
