"""Schemas: those that are shipped, sizes and vocabularies, and files that are none."""

import json
import string

import pytest
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf import tasks, tfgnn
from sggnn_tf.data import task_schema
from sggnn_tf.data.codec import Codec
from tests.data.schemas import library

TASKS = ["conditional_recall", "tree_max"]
CHILDREN = [f"child_{number}{end}" for number in (1, 2, 3) for end in ("", "_of")]
ALPHABET = string.ascii_lowercase + string.ascii_uppercase + string.digits
MANY_CHILDREN = tasks.TreeMax(branching=(0.5, 0.0, 0.0, 0.0, 0.0, 0.5))


def relations(schema):
    return {name: (piece.source, piece.target) for name, piece in schema.edge_sets.items()}


def parsed(task, graph):
    schema = task_schema(task)
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    return tfgnn.parse_single_example(spec, tf.constant(Codec(schema).encode(graph)))


def edges(graph, name):
    adjacency = graph.edge_sets[name].adjacency
    return list(zip(adjacency.source.numpy().tolist(), adjacency.target.numpy().tolist(), strict=True))


@pytest.mark.parametrize("name", TASKS)
def test_shipped_schemas_are_valid_without_warnings(name):
    assert tfgnn.validate_schema(schemas.shipped(name), readout_node_sets=["_readout"]) == []


@pytest.mark.parametrize("name", TASKS)
def test_everything_in_a_shipped_schema_is_described(name):
    schema = schemas.shipped(name)
    for piece in [*schema.node_sets.values(), *schema.edge_sets.values()]:
        assert piece.description
        assert all(feature.description for feature in piece.features.values())
    assert not schema.context.features


def test_the_names_of_conditional_recall():
    schema = schemas.shipped("conditional_recall")
    assert {name: list(piece.features) for name, piece in schema.node_sets.items()} == {
        "char": ["symbol"],
        "_readout": ["label"],
    }
    inner = dict.fromkeys(["next", "previous", "self"], ("char", "char"))
    assert relations(schema) == {**inner, "_readout/target": ("char", "_readout")}
    assert schema.node_sets["char"].features["symbol"].dtype == tf.int64.as_datatype_enum
    assert schema.node_sets["_readout"].features["label"].dtype == tf.int64.as_datatype_enum
    for feature in (("char", "symbol"), ("_readout", "label")):
        assert schemas.vocabulary(schema, *feature) == list(ALPHABET.replace("Z", ""))
        assert schemas.num_values(schema, *feature) == 61


def test_the_names_of_tree_max():
    schema = schemas.shipped("tree_max")
    assert {name: list(piece.features) for name, piece in schema.node_sets.items()} == {
        "node": ["value"],
        "_readout": ["label"],
    }
    inner = dict.fromkeys([*CHILDREN, "self"], ("node", "node"))
    assert relations(schema) == {**inner, "_readout/target": ("node", "_readout")}
    assert schema.node_sets["node"].features["value"].dtype == tf.int64.as_datatype_enum
    assert schema.node_sets["_readout"].features["label"].dtype == tf.int64.as_datatype_enum
    for feature in (("node", "value"), ("_readout", "label")):
        assert schemas.vocabulary(schema, *feature) is None
        assert schemas.num_values(schema, *feature) == 101


def test_strings_run_from_sender_to_receiver_and_the_last_character_answers():
    task = tasks.ConditionalRecall()
    graph = parsed(task, task.graph("xB7"))
    assert edges(graph, "next") == [(0, 1), (1, 2)]
    assert edges(graph, "previous") == [(1, 0), (2, 1)]
    assert edges(graph, "self") == [(0, 0), (1, 1), (2, 2)]
    asked = tfgnn.structured_readout(graph, "target", feature_name="symbol")
    assert [task.alphabet[symbol] for symbol in asked] == ["7"]
    assert [task.alphabet[label] for label in graph.node_sets["_readout"]["label"]] == ["7"]


def test_trees_run_from_sender_to_receiver_and_every_node_answers():
    task = tasks.TreeMax()
    graph = parsed(task, task.graph([-1, 0, 0, 2], [4, 9, 3, 7]))
    assert edges(graph, "child_1") == [(0, 1), (2, 3)]
    assert edges(graph, "child_1_of") == [(1, 0), (3, 2)]
    assert edges(graph, "child_2") == [(0, 2)]
    assert edges(graph, "child_2_of") == [(2, 0)]
    assert edges(graph, "child_3") == edges(graph, "child_3_of") == []
    assert edges(graph, "self") == [(node, node) for node in range(4)]
    assert tfgnn.structured_readout(graph, "target", feature_name="value").numpy().tolist() == [4, 9, 3, 7]
    assert graph.node_sets["_readout"]["label"].numpy().tolist() == [9, 9, 7, 7]


@pytest.mark.parametrize("task", [tasks.ConditionalRecall(), tasks.TreeMax()], ids=TASKS)
def test_the_schema_of_a_task_as_it_comes_is_the_shipped_one(task):
    assert task_schema(task) == schemas.shipped(task.name)


def test_the_schema_of_strings_of_all_letters():
    schema = task_schema(tasks.ConditionalRecall(letters=62))
    assert schemas.vocabulary(schema, "char", "symbol") == schemas.vocabulary(schema, "_readout", "label")
    assert schemas.vocabulary(schema, "char", "symbol") == list(ALPHABET)
    assert tfgnn.validate_schema(schema) == []


def test_the_schema_of_trees_of_large_numbers():
    schema = task_schema(tasks.TreeMax(max_value=1000))
    assert schemas.num_values(schema, "node", "value") == schemas.num_values(schema, "_readout", "label") == 1001
    assert tfgnn.validate_schema(schema) == []


def test_the_schema_of_trees_of_many_children():
    schema = task_schema(MANY_CHILDREN)
    more = {f"child_{number}{end}" for number in (4, 5) for end in ("", "_of")}
    assert schema.edge_sets.keys() == schemas.shipped("tree_max").edge_sets.keys() | more
    for name in more:
        assert (schema.edge_sets[name].source, schema.edge_sets[name].target) == ("node", "node")
        assert schema.edge_sets[name].description
    assert tfgnn.validate_schema(schema) == []
    graph = parsed(MANY_CHILDREN, MANY_CHILDREN.graph([-1, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]))
    assert edges(graph, "child_5") == [(0, 5)]
    assert edges(graph, "child_5_of") == [(5, 0)]


def test_a_task_changes_no_schema_but_its_own():
    before = schemas.to_text(schemas.shipped("tree_max"))
    task_schema(MANY_CHILDREN)
    task_schema(tasks.TreeMax(max_value=7))
    assert schemas.to_text(schemas.shipped("tree_max")) == before


def test_there_is_no_schema_of_an_unknown_task():
    with pytest.raises(ValueError, match="'tree_min'"):
        schemas.shipped("tree_min")


@pytest.mark.parametrize("first", [7, ["x", "y"]])
@pytest.mark.parametrize("second", [5, ["a", "b", "c"]])
def test_a_number_of_values_replaces_what_was_there(first, second):
    schema = library()
    others = [entry.value for entry in schema.node_sets["author"].metadata.extra]
    schemas.set_num_values(schema, "author", "age", first)
    schemas.set_num_values(schema, "author", "age", second)
    entries = [entry for entry in schema.node_sets["author"].metadata.extra if entry.key.endswith("/age")]
    assert len(entries) == 1
    if isinstance(second, int):
        assert schemas.num_values(schema, "author", "age") == second
        assert schemas.vocabulary(schema, "author", "age") is None
    else:
        assert schemas.vocabulary(schema, "author", "age") == second
        assert schemas.num_values(schema, "author", "age") == len(second)
    assert [entry.value for entry in schema.node_sets["author"].metadata.extra][: len(others)] == others


@pytest.mark.parametrize("set_name", ["context", "author", "writes"])
def test_sizes_and_vocabularies_of_context_nodes_and_edges(set_name):
    schema = library()
    assert schemas.num_values(schema, set_name, "kind") is None
    schemas.set_num_values(schema, set_name, "kind", ["a", "ä", '"'])
    assert schemas.vocabulary(schema, set_name, "kind") == ["a", "ä", '"']
    schemas.set_num_values(schema, set_name, "kind", 4)
    assert schemas.num_values(schema, set_name, "kind") == 4


def test_an_unknown_set_is_refused_and_the_known_named():
    for call in (schemas.num_values, schemas.vocabulary):
        with pytest.raises(ValueError, match=r"'reader'.*context, author, paper, topic, about, cites, writes"):
            call(library(), "reader", "age")
    with pytest.raises(ValueError, match="'reader'"):
        schemas.set_num_values(library(), "reader", "age", 3)


@pytest.mark.parametrize("text", ["0", "-3", "3.5", "many", ""])
def test_a_number_of_values_that_is_none(text):
    schema = library()
    schema.node_sets["author"].metadata.extra.add(key="num_values/age", value=text)
    with pytest.raises(ValueError, match=rf"num_values/age.*'author'.*{text!r}"):
        schemas.num_values(schema, "author", "age")


@pytest.mark.parametrize("text", ["", "[", '["a"', '{"a": 1}', "[1, 2]", '["a", null]', '"ab"', "3"])
def test_a_vocabulary_that_is_none(text):
    schema = library()
    schema.node_sets["author"].metadata.extra.add(key="vocabulary/age", value=text)
    for call in (schemas.vocabulary, schemas.num_values):
        with pytest.raises(ValueError, match=r"vocabulary/age.*'author'"):
            call(schema, "author", "age")


def test_a_schema_is_the_same_after_writing_and_reading(tmp_path):
    (tmp_path / "schema.pbtxt").write_text(schemas.to_text(library()))
    for path in (tmp_path / "schema.pbtxt", str(tmp_path / "schema.pbtxt")):
        assert schemas.read(path) == library()
    assert schemas.to_text(schemas.read(tmp_path / "schema.pbtxt")) == schemas.to_text(library())


def test_a_schema_that_is_not_there(tmp_path):
    for path in (tmp_path / "missing.pbtxt", tmp_path):
        with pytest.raises(ValueError, match=str(path)):
            schemas.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"not a schema at all",
        b"node_sets { key: 3",
        b'node_sets { key: "a" value { colour: "red" } }',
        json.dumps({"node_sets": []}).encode(),
        b"\xff\xfe\x00\x80",
        b'node_sets { key: "a" value { features { key: "f" value { } } } }',
        b'node_sets { key: "a" value { features { key: "f" value { dtype: DT_COMPLEX64 } } } }',
        b'node_sets { key: "a" value { features { key: "#size" value { dtype: DT_INT64 } } } }',
        b'node_sets { key: "a" value { } } edge_sets { key: "e" value { source: "a" } }',
    ],
)
def test_garbage_is_refused_and_the_file_named(tmp_path, content):
    path = tmp_path / "schema.pbtxt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=str(path)):
        schemas.read(path)


def test_an_edge_set_to_an_unknown_node_set_is_named(tmp_path):
    path = tmp_path / "schema.pbtxt"
    path.write_text(schemas.to_text(library()).replace('target: "topic"', 'target: "subject"'))
    with pytest.raises(ValueError, match=rf"{path}.*'about'.*'subject'"):
        schemas.read(path)


def test_a_readout_without_its_edges_is_refused(tmp_path):
    schema = schemas.shipped("tree_max")
    del schema.edge_sets["_readout/target"]
    path = tmp_path / "schema.pbtxt"
    path.write_text(schemas.to_text(schema))
    with pytest.raises(ValueError, match=rf"{path}(.|\n)*_readout"):
        schemas.read(path)
