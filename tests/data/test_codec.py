"""Arrays to records and back, in TF-GNN's own encoding."""

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
from tests.data.library_codec import GRAPH, LIBRARY, with_context, with_edges, with_features, with_nodes, without
from tests.data.schemas import library, library_graph

RECALL, TREE = tasks.ConditionalRecall(), tasks.TreeMax()
NO_WRITES = {"writes": {"share": [], "weeks": np.zeros([0, 2])}}


@functools.cache
def parser(schema_text):
    spec = tfgnn.create_graph_spec_from_schema_pb(schemas.from_text(schema_text))
    signature = [tf.TensorSpec([], tf.string)]
    return tf.function(lambda record: tfgnn.parse_single_example(spec, record), input_signature=signature)


def as_tfgnn_writes(record, schema):
    return tfgnn.write_example(parser(schemas.to_text(schema))(tf.constant(record)))


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
