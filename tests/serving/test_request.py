"""What a client may send, and what it is told if it is wrong: asked of the signatures themselves."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.data.codec import Codec
from sggnn_tf.serving.answers import as_arrays
from sggnn_tf.serving.signatures import make_signatures
from sggnn_tf.tasks.conditional_recall_signature import TextSignature
from tests.data import schemas
from tests.serving import exports

GOOD, SECOND = "ab8", "xYz12"


@pytest.fixture(autouse=True)
def _same_start():
    """Not before each test: with a new seed TensorFlow prepares every function again, which takes a second."""


class Asked:
    """The signatures of a model, saved and read again: in a graph that was just made, TensorFlow's errors take long."""

    def __init__(self, model, signatures, folder):
        module = tf.Module()
        module.weights = [variable.value for variable in model.variables]
        tf.saved_model.save(module, str(folder), {name: each.function for name, each in signatures.items()})
        self.module = tf.saved_model.load(str(folder))
        self.keys = {name: each.keys for name, each in signatures.items()}

    def __call__(self, signature, **inputs):
        function = self.module.signatures[signature]
        arguments = {argument: inputs[key] for argument, key in self.keys[signature].items()}
        specs = function.structured_input_signature[1]
        tensors = {name: tf.constant(value, specs[name].dtype) for name, value in arguments.items()}
        return {name: value.numpy() for name, value in function(**tensors).items()}

    def examples(self, *records):
        return self("serving_default", examples=np.array(records, object))

    def arrays(self, arrays):
        return self("graph_tensors", **arrays)

    def text(self, *texts):
        return self("text", text=[text if isinstance(text, bytes) else text.encode() for text in texts])


@pytest.fixture(scope="module")
def recall(tmp_path_factory):
    schema = exports.served_schema()
    model = exports.small(exports.recall_examples().schema)
    own = TextSignature(exports.RECALL.alphabet, exports.STEPS)
    signatures = make_signatures(model, schema, "_readout", list(exports.RECALL.alphabet), True, [own])
    return Asked(model, signatures, tmp_path_factory.mktemp("recall"))


def library_schema():
    """As a client of the library sends it: without the label and what the model does not read."""
    schema = schemas.library()
    del schema.context.features["label"]
    for feature in exports.IGNORE:
        set_name, _, name = feature.partition("/")
        del (schema.node_sets if set_name in schema.node_sets else schema.edge_sets)[set_name].features[name]
    return schema


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    model = exports.small(schemas.library(), label="context/label", ignore=exports.IGNORE)
    signatures = make_signatures(model, library_schema(), "context", None, True)
    return Asked(model, signatures, tmp_path_factory.mktemp("library"))


@functools.cache
def library_graphs():
    full = [schemas.library_graph(2, 3, 1, seed=1), schemas.library_graph(3, 2, 2, seed=2)]
    return [
        type(graph)(
            {
                "author": graph.nodes["author"],
                "paper": len(graph.nodes["paper"]["year"]),
                "topic": graph.nodes["topic"],
            },
            graph.edges,
            {},
            {"season": graph.context["season"]},
        )
        for graph in full
    ]


def library_records():
    return [Codec(library_schema()).encode(graph) for graph in library_graphs()]


def library_arrays():
    return as_arrays(library_schema(), library_graphs())


def refused(call, *parts):
    """Whether a call is refused as a bad argument, by words that name the example and what is wrong."""
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call()
    said = error.value.message.replace("`", "'")
    assert all(part in said for part in parts), said


EDGES = "an edge of 'self' from or to 'char'"
SYMBOL = "the feature 'symbol' of the node set 'char'"


@pytest.mark.parametrize(
    ("key", "values", "parts"),
    [
        ("edges/self.#source", [0, 1, 2, 3, 5], [EDGES, "node 5, but there are 5 nodes"]),
        ("edges/self.#target", [0, 1, 2, 3, 5], [EDGES, "node 5, but there are 5 nodes"]),
        ("edges/self.#source", [0, -1, 2, 3, 4], [EDGES, "node -1"]),
        ("edges/self.#target", [0, 1, 2, 3, 2**40], [EDGES, f"node {2**40}"]),
        ("edges/self.#source", [0, 1], ["#source of the edge set 'self'", "has 2 values; it has to have 5"]),
        ("edges/self.#target", None, ["#target of the edge set 'self'", "has 0 values; it has to have 5"]),
        ("nodes/char.symbol", [0, 1, -1, 3, 4], [SYMBOL, "is -1; its values are 0 to 60"]),
        ("nodes/char.symbol", [0, 1, 2, 61, 4], [SYMBOL, "is 61; its values are 0 to 60"]),
        ("nodes/char.symbol", [0, 1, 2, 2**62, 4], [SYMBOL, f"is {2**62}"]),
        ("nodes/char.symbol", None, [SYMBOL, "has 0 values; it has to have 5"]),
        ("nodes/char.symbol", [0] * 6, [SYMBOL, "has 6 values; it has to have 5"]),
        ("nodes/char.#size", None, [SYMBOL, "has 5 values; it has to have 0"]),
        ("edges/next.#size", None, ["of the edge set 'next'", "has 4 values; it has to have 0"]),
        ("nodes/char.#size", [5, 5], ["'char' has several sizes"]),
        ("edges/next.#size", [4, 4], ["'next' has several sizes"]),
        ("nodes/_readout.#size", [2], ["'_readout/target' has to have one edge for each readout"]),
        ("nodes/_readout.#size", [0], ["'_readout/target'"]),
        ("edges/_readout/target.#target", [1], ["Example 1: "]),
        ("edges/_readout/target.#source", [5], ["from or to 'char'", "node 5"]),
    ],
)
def test_a_wrong_field_of_a_record_is_named_with_the_example(key, values, parts, recall):
    good, second = exports.records(GOOD, SECOND)
    refused(lambda: recall.examples(good, exports.changed(second, key, values)), "Example 1: ", *parts)


@pytest.mark.parametrize("size", [-1, -(2**63), 10**12, 2**62])
@pytest.mark.parametrize("key", ["nodes/char.#size", "edges/next.#size", "nodes/_readout.#size"])
def test_a_size_that_cannot_be_is_refused_without_room_for_it(key, size, recall):
    good, second = exports.records(GOOD, SECOND)
    refused(lambda: recall.examples(good, exports.changed(second, key, [size])), "Example 1: ")


@pytest.mark.parametrize("size", [-1, 6, 10**12, 2**62])
@pytest.mark.parametrize("name", ["char", "next", "self", "_readout/target", "_readout"])
def test_a_size_beyond_the_room_of_an_array_is_refused(name, size, recall):
    arrays = exports.arrays(GOOD, SECOND)
    arrays[f"{name}.#size"][1] = size
    refused(lambda: recall.arrays(arrays), "Example 1: ", f"'{name}")


def test_the_room_and_the_size_are_told(recall):
    arrays = exports.arrays(GOOD, SECOND)
    arrays["next.#size"][1] = 6
    refused(lambda: recall.arrays(arrays), "Example 1: 'next.#edges' has the size 6, but room for 4.")


def test_padding_may_hold_anything(recall):
    arrays = exports.arrays(GOOD, SECOND)
    expected = recall.arrays(arrays)["scores"]
    arrays["char.symbol"][0, 3:] = 10**15
    arrays["self.#edges"][0, 3:] = -7
    np.testing.assert_array_equal(recall.arrays(arrays)["scores"], expected)


@pytest.mark.parametrize(
    ("key", "place", "value", "parts"),
    [
        ("self.#edges", (2, 0), 5, [EDGES, "node 5, but there are 5 nodes"]),
        ("self.#edges", (2, 1), 5, [EDGES, "node 5, but there are 5 nodes"]),
        ("self.#edges", (4, 1), -1, [EDGES, "node -1"]),
        ("char.symbol", 4, -1, [SYMBOL, "is -1; its values are 0 to 60"]),
        ("char.symbol", 0, 61, [SYMBOL, "is 61; its values are 0 to 60"]),
    ],
)
def test_a_wrong_value_in_an_array_is_named_with_the_example(key, place, value, parts, recall):
    arrays = exports.arrays(GOOD, SECOND)
    arrays[key][1][place] = value
    refused(lambda: recall.arrays(arrays), "Example 1: ", *parts)


def test_a_node_that_only_another_graph_has_is_not_there(recall):
    """The first graph has 3 nodes, the second 5: node 3 is there in the second only."""
    arrays = exports.arrays(GOOD, SECOND)
    arrays["self.#edges"][0, 2] = 3
    refused(lambda: recall.arrays(arrays), "Example 0: ", "node 3, but there are 3 nodes")


def test_inputs_for_different_numbers_of_graphs_are_told(recall):
    arrays = exports.arrays(GOOD, SECOND)
    arrays["next.#size"] = arrays["next.#size"][:1]
    refused(lambda: recall.arrays(arrays), "different numbers of graphs", "char.symbol: 2", "next.#size: 1")


@pytest.mark.parametrize("empty", [b"", "no nodes"])
def test_an_empty_graph_is_refused(empty, recall):
    if empty:
        empty = exports.records(SECOND)[0]
        for key in list(tf.train.Example.FromString(empty).features.feature):
            empty = exports.changed(empty, key, [0] if key.endswith("#size") else None)
    refused(lambda: recall.examples(*exports.records(GOOD), empty), "Example 1: the graph is empty")


def test_an_empty_graph_among_arrays_is_refused(recall):
    arrays = exports.arrays(GOOD, SECOND)
    for key in arrays:
        if key.endswith("#size"):
            arrays[key][1] = 0
    refused(lambda: recall.arrays(arrays), "Example 1: the graph is empty")


def test_no_graphs_get_no_answers(recall):
    none = {key: array[:0] for key, array in exports.arrays(GOOD).items()}
    for found in (recall.examples(), recall.arrays(none), recall.text()):
        assert found["scores"].shape == (0, 61)
        assert all(len(value) == 0 for value in found.values())


def test_a_field_of_another_type_is_named(recall):
    good, second = exports.records(GOOD, SECOND)
    wrong = exports.changed(second, "nodes/char.symbol", [1.0] * 5, "float_list")
    refused(lambda: recall.examples(good, wrong), "nodes/char.symbol", "Index: 1")
    wrong = exports.changed(second, "nodes/char.#size", [b"5"], "bytes_list")
    refused(lambda: recall.examples(good, wrong), "nodes/char.#size", "Index: 1")


def two_readouts(record):
    record = exports.changed(record, "nodes/_readout.#size", [2])
    record = exports.changed(record, "edges/_readout/target.#size", [2])
    record = exports.changed(record, "edges/_readout/target.#source", [4, 0])
    return exports.changed(record, "edges/_readout/target.#target", [0, 1])


def test_two_readouts_are_refused_where_there_is_one_answer(recall):
    good, second = exports.records(GOOD, SECOND)
    refused(lambda: recall.examples(good, two_readouts(second)), "Example 1: it has 2 readouts", "exactly one")


def test_readouts_out_of_order_are_refused(recall):
    good, second = exports.records(GOOD, SECOND)
    for targets in ([1, 0], [0, 0], [1, 1]):
        wrong = exports.changed(two_readouts(second), "edges/_readout/target.#target", targets)
        refused(lambda wrong=wrong: recall.examples(good, wrong), "Example 1: ", "'_readout/target'", "0, 1, 2, ...")


def test_a_readout_with_two_edges_is_refused(recall):
    good, second = exports.records(GOOD, SECOND)
    wrong = exports.changed(two_readouts(second), "nodes/_readout.#size", [1])
    wrong = exports.changed(wrong, "edges/_readout/target.#target", [0, 0])
    refused(lambda: recall.examples(good, wrong), "Example 1: '_readout/target'")


def test_a_graph_without_a_readout_is_refused_where_there_is_one_answer(recall):
    good, second = exports.records(GOOD, SECOND)
    for key in ("nodes/_readout.#size", *(f"edges/_readout/target.#{each}" for each in ("size", "source", "target"))):
        second = exports.changed(second, key)
    refused(lambda: recall.examples(good, second), "Example 1: it has 0 readouts")


def test_fields_that_the_model_does_not_read_may_be_there(recall):
    good, second = exports.records(GOOD, SECOND)
    extra = exports.changed(
        exports.changed(second, "nodes/char.note", [b"x"], "bytes_list"), "nodes/_readout.label", [10**9]
    )
    np.testing.assert_array_equal(recall.examples(good, extra)["scores"], recall.examples(good, second)["scores"])


def test_texts_examples_and_arrays_get_the_same_answers(recall):
    texts = [GOOD, SECOND, "a", "abcdefghijk9"]
    first = recall.text(*texts)
    assert len(set(first["prediction"].tolist())) > 1
    for other in (recall.examples(*exports.records(*texts)), recall.arrays(exports.arrays(*texts))):
        for key, array in other.items():
            if key == "scores":
                np.testing.assert_allclose(array, first[key], rtol=1e-5, atol=1e-5)
            else:
                assert array.tolist() == first[key].tolist()


def test_a_text_gets_the_same_answer_alone_as_with_others(recall):
    texts = ["ab8", "x" * 40, "a", "xYz12"]
    together = recall.text(*texts)
    for place, text in enumerate(texts):
        np.testing.assert_allclose(recall.text(text)["scores"][0], together["scores"][place], rtol=1e-5, atol=1e-5)


def test_a_label_is_the_character_of_the_prediction(recall):
    found = recall.text(*exports.texts())
    assert [exports.RECALL.alphabet[each] for each in found["prediction"]] == [x.decode() for x in found["label"]]
    assert found["prediction"].tolist() == found["scores"].argmax(axis=1).tolist()


def test_a_text_within_reach_has_no_more_hops_than_the_model_has_steps(recall):
    texts = ["a" * length for length in range(1, 8)]
    assert recall.text(*texts)["within_reach"].tolist() == [True] * 4 + [False] * 3


def test_a_text_may_be_longer_than_those_of_training(recall):
    found = recall.text("ab8cD" * 200)
    assert found["num_readouts"].tolist() == [1]
    assert np.isfinite(found["scores"]).all()
    assert not found["within_reach"][0]


@pytest.mark.parametrize("wrong", ["?", "Z", " ", "é", "日", "🙂"])
def test_a_character_that_is_unknown_is_told_with_its_place(wrong, recall):
    refused(lambda: recall.text("ab", f"abc{wrong}9?"), f"Example 1: the character {wrong} at place 3 ")


def test_places_are_those_of_characters_and_not_of_bytes(recall):
    refused(lambda: recall.text("a", "b", "aéé"), "Example 2: the character é at place 1 ")


@pytest.mark.parametrize("wrong", [b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"ab\xffcd"])
def test_what_is_not_utf_8_is_refused(wrong, recall):
    refused(lambda: recall.text("ab", wrong))


def test_an_empty_text_is_refused(recall):
    refused(lambda: recall.text("ab", ""), "Example 1: the graph is empty")


AGE, POSITION = "the feature 'age' of the node set 'author'", "the feature 'position' of the node set 'author'"
COUNTRY, SEASON = "the feature 'country' of the node set 'author'", "the feature 'season' of the context"
NAN, INFINITY = float("nan"), float("inf")
FINITE = "is not a finite number"


@pytest.mark.parametrize(
    ("key", "values", "kind", "parts"),
    [
        ("nodes/author.age", [0.5, NAN, 0.5], "float_list", [AGE, FINITE]),
        ("nodes/author.age", [0.5, 0.5, -INFINITY], "float_list", [AGE, FINITE]),
        ("nodes/author.position", [0.5] * 8 + [INFINITY], "float_list", [POSITION, FINITE]),
        ("nodes/author.position", [0.5] * 8, "float_list", [POSITION, "has 8 values; it has to have 9"]),
        ("nodes/author.position", None, "float_list", [POSITION, "has 0 values; it has to have 9"]),
        ("context/season", [0.5, NAN], "float_list", [SEASON, FINITE]),
        ("context/season", None, "float_list", [SEASON, "has 0 values; it has to have 2"]),
        ("context/season", [0.5] * 4, "float_list", [SEASON, "has 4 values; it has to have 2"]),
        ("nodes/author.country", [0, 3, 0], "int64_list", [COUNTRY, "is 3; its values are 0 to 2"]),
        ("nodes/author.country", [0, -3, 0], "int64_list", [COUNTRY, "is -3; its values are 0 to 2"]),
        ("edges/writes.#source", [0, 1, 2, 3], "int64_list", ["'writes' from or to 'author'", "node 3", "3 nodes"]),
        ("edges/writes.#target", [0, 1, 2, 0], "int64_list", ["'writes' from or to 'paper'", "node 2", "2 nodes"]),
        ("edges/about.#target", [0, 1, 2], "int64_list", ["'about' from or to 'topic'", "node 2", "2 nodes"]),
        ("nodes/topic.#size", [10**12], "int64_list", ["'topic' has the size 1000000000000"]),
        ("nodes/topic.#size", [-1], "int64_list", ["'topic' has the size -1"]),
        ("nodes/topic.#size", None, "int64_list", ["'about' from or to 'topic'", "there are 0 nodes"]),
    ],
)
def test_a_wrong_field_of_several_node_sets_is_named_with_the_example(key, values, kind, parts, library):
    good, second = library_records()
    refused(lambda: library.examples(good, exports.changed(second, key, values, kind)), "Example 1: ", *parts)


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("author.age", NAN, [AGE, FINITE]),
        ("author.position", INFINITY, [POSITION, FINITE]),
        ("context.season", -INFINITY, [SEASON, FINITE]),
        ("author.country", 3, [COUNTRY, "is 3; its values are 0 to 2"]),
        ("writes.#edges", 7, ["an edge of 'writes'", "node 7"]),
        ("author.#size", 4, ["has the size 4, but room for 3", "'author."]),
        ("topic.#size", 10**12, ["'topic' has the size 1000000000000"]),
        ("paper.#size", -1, ["'paper' has the size -1"]),
    ],
)
def test_a_wrong_array_of_several_node_sets_is_named_with_the_example(key, value, parts, library):
    arrays = library_arrays()
    arrays[key][1] = value
    refused(lambda: library.arrays(arrays), "Example 1: ", *parts)


def test_arrays_of_several_node_sets_get_the_answers_of_records(library):
    by_records, by_arrays = library.examples(*library_records()), library.arrays(library_arrays())
    assert by_records["scores"].shape == (2, 3)
    assert "label" not in by_records
    np.testing.assert_allclose(by_arrays["scores"], by_records["scores"], rtol=1e-5, atol=1e-5)
    alone = [library.examples(record)["scores"][0] for record in library_records()]
    np.testing.assert_allclose(by_records["scores"], alone, rtol=1e-5, atol=1e-5)


def test_a_graph_of_one_node_without_edges_is_answered(library):
    record = library_records()[0]
    for key in list(tf.train.Example.FromString(record).features.feature):
        if key.startswith(("edges/", "nodes/author", "nodes/topic")):
            record = exports.changed(record, key)
    found = library.examples(exports.changed(record, "nodes/paper.#size", [1]))
    assert np.isfinite(found["scores"]).all()
