"""Records of which one is bad: an error names the file, the record and the field."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from sggnn_tf.data import Examples, task_schema
from sggnn_tf.data.codec import Codec
from tests.data.library_codec import LIBRARY
from tests.data.records import GRAPHS, RECALL, RECORDS, SOURCES, write
from tests.data.schemas import library, library_graph, ragged

BAD = 4  # The place of a record that is changed: in the second file, record 1.


@pytest.fixture(autouse=True)
def _same_start():
    """Without a seed, after which TensorFlow would build its functions anew: nothing here is random."""


def fields(record):
    return tf.train.Example.FromString(record).features.feature


def values(feature):
    return getattr(feature, feature.WhichOneof("kind")).value


def changed(record, key, change):
    example = tf.train.Example.FromString(record)
    change(example.features.feature, key)
    return example.SerializeToString()


def drop(features, key):
    del features[key]


def clear(features, key):
    features[key].Clear()


def to_another_kind(features, key):
    kind = features[key].WhichOneof("kind")
    number = len(values(features[key]))
    features[key].Clear()
    if kind == "int64_list":
        features[key].float_list.value.extend([0.0] * number)
    else:
        features[key].int64_list.value.extend([0] * number)


def one_more(features, key):
    values(features[key]).append(values(features[key])[0])


def one_less(features, key):
    del values(features[key])[-1]


def put(value, place=-1):
    def change(features, key):
        values(features[key])[place] = value

    return change


def add(value):
    def change(features, key):
        values(features[key])[0] += value

    return change


def words_of(key):
    """What an error has to name: the set, and the feature; of a size, the set."""
    where, _, name = key.rpartition("." if "." in key else "/")
    name = name.removeprefix("#")
    return [where.split("/", 1)[-1], *([] if name == "size" else [name])]


def sizes_error(records, schema=None, sources=None):
    examples = Examples(schema or library(), records, sources or [("records", len(records))])
    with pytest.raises(ValueError, match=r".") as error:
        _ = examples.sizes
    return str(error.value)


def assert_found(record, *words):
    """The survey finds the record among good ones, and names it; reading it alone is an error too."""
    message = sizes_error([*RECORDS[:BAD], record, *RECORDS[BAD + 1 :]], sources=SOURCES)
    assert message.startswith("second.tfrecord, record 1: ")
    with pytest.raises(ValueError, match=r".") as error:
        LIBRARY.decode(record)
    for word in words:
        assert word in message
        assert word in str(error.value)


KEYS = sorted(fields(RECORDS[BAD]))
SIZES = [key for key in KEYS if key.endswith("#size")]
ENDS = [key for key in KEYS if key.endswith(("#source", "#target"))]
FLOATS = [key for key in KEYS if fields(RECORDS[BAD])[key].WhichOneof("kind") == "float_list"]
IDS = {"nodes/author.country": 3, "nodes/paper.grades": 5, "context/label": 3}


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_field_is_found(key):
    assert_found(changed(RECORDS[BAD], key, drop), *words_of(key))


@pytest.mark.parametrize("key", KEYS)
def test_a_field_without_values_is_found(key):
    assert_found(changed(RECORDS[BAD], key, clear), *words_of(key))


@pytest.mark.parametrize("key", KEYS)
def test_another_kind_of_list_is_found(key):
    assert_found(changed(RECORDS[BAD], key, to_another_kind), key)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("change", [one_more, one_less])
def test_a_wrong_number_of_values_is_found(key, change):
    assert_found(changed(RECORDS[BAD], key, change), *words_of(key))


@pytest.mark.parametrize("key", [key for key in SIZES if "topic" not in key])
@pytest.mark.parametrize("by", [1, -1, 7, 2**32])
def test_a_size_that_disagrees_is_found(key, by):
    assert_found(changed(RECORDS[BAD], key, add(by)), *words_of(key))


@pytest.mark.parametrize("key", SIZES)
def test_a_negative_size_is_found(key):
    assert_found(changed(RECORDS[BAD], key, put(-1)), key)


def test_a_negative_size_of_a_set_without_features_and_edges_is_found():
    record = LIBRARY.encode(dataclasses.replace(GRAPHS[BAD], edges={**GRAPHS[BAD].edges, "about": ([], [])}))
    assert_found(changed(record, "nodes/topic.#size", put(-1)), "nodes/topic.#size")


def test_a_set_without_features_that_is_too_small_for_its_edges_is_found():
    assert_found(changed(RECORDS[BAD], "nodes/topic.#size", put(0)), "edge 0", "about", "topic")


@pytest.mark.parametrize("key", ENDS)
@pytest.mark.parametrize("value", [-1, 3, 2**31, 2**32, -(2**32)])
def test_an_edge_out_of_range_is_found(key, value):
    last = len(values(fields(RECORDS[BAD])[key])) - 1
    assert_found(changed(RECORDS[BAD], key, put(value)), *words_of(key), f"edge {last}", f"node {value}")


@pytest.mark.parametrize("key", IDS)
@pytest.mark.parametrize("place", [0, -1])
def test_an_id_out_of_range_is_found(key, place):
    for value in (-1, IDS[key], 2**32):
        assert_found(changed(RECORDS[BAD], key, put(value, place)), *words_of(key), str(value))


@pytest.mark.parametrize("key", FLOATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_finite_number_is_found(key, value):
    for place in (0, -1):
        assert_found(changed(RECORDS[BAD], key, put(value, place)), *words_of(key), "finite")


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_integer_beyond_its_type_is_found(value):
    assert_found(changed(RECORDS[BAD], "nodes/paper.year", put(value)), "paper", "year")


@pytest.mark.parametrize(
    "record",
    [b"garbage", b"\xff\xff\xff", RECORDS[0][:-1], RECORDS[0][:-5], RECORDS[0][: len(RECORDS[0]) // 2]],
)
def test_a_record_that_is_not_an_example_is_found(record):
    assert_found(record, "tf.train.Example")


def test_an_empty_record_is_found():
    assert_found(b"")


def test_an_empty_graph_is_found():
    record = LIBRARY.encode(library_graph(0, 0, 1))
    assert_found(changed(record, "nodes/topic.#size", put(0)), "empty")


def test_further_fields_do_no_harm():
    record = changed(RECORDS[BAD], "note", lambda features, key: features[key].bytes_list.value.append(b"x"))
    examples = Examples(library(), [*RECORDS[:BAD], record], [("records", BAD + 1)])
    assert examples.sizes.tolist() == Examples(library(), RECORDS, SOURCES).sizes[: BAD + 1].tolist()


def two_questions(text="ab7"):
    graph = RECALL.graph(text)
    edges = {**graph.edges, "_readout/target": ([0, 2], [0, 1])}
    return dataclasses.replace(graph, nodes={**graph.nodes, "_readout": {"label": [3, 4]}}, edges=edges)


READOUT = {
    "out of order": ("edges/_readout/target.#target", [1, 0]),
    "of one question twice": ("edges/_readout/target.#target", [0, 0]),
    "from no node": ("edges/_readout/target.#source", [0, 4]),
    "of no question": ("edges/_readout/target.#target", [0, 2]),
    "with one edge": ("edges/_readout/target.#target", [0]),
}


@pytest.mark.parametrize("problem", READOUT)
def test_a_readout_that_is_wrong_is_found(problem):
    schema = task_schema(RECALL)
    good = [Codec(schema).encode(two_questions(text)) for text in ("ab7", "Cd8e", "xyz")]
    key, numbers = READOUT[problem]

    def change(features, key):
        values(features[key])[:] = numbers

    message = sizes_error([good[0], changed(good[1], key, change), good[2]], schema)
    assert message.startswith("records, record 1: ")
    assert "_readout/target" in message
    assert Examples(schema, good, [("records", 3)]).sizes.shape == (3, 6)


def test_a_readout_with_too_few_edges_is_found():
    schema = task_schema(RECALL)
    example = tf.train.Example.FromString(Codec(schema).encode(two_questions()))
    for name in ("source", "target"):
        del values(example.features.feature[f"edges/_readout/target.#{name}"])[-1]
    values(example.features.feature["edges/_readout/target.#size"])[0] = 1
    message = sizes_error([Codec(schema).encode(two_questions()), example.SerializeToString()], schema)
    assert message.startswith("records, record 1: ")
    assert "_readout/target" in message


def words(*rows):
    pieces = tfgnn.NodeSet.from_fields(
        sizes=[len(rows)], features={"words": tf.ragged.constant(rows, dtype=tf.int64, ragged_rank=1)}
    )
    return tfgnn.write_example(tfgnn.GraphTensor.from_pieces(node_sets={"paper": pieces})).SerializeToString()


def test_ragged_records_are_counted_and_a_bad_one_is_named():
    records = [words([1, 2], [3]), words([1]), words([], [4, 5, 6], [7])]
    assert Examples(ragged(), records, [("records", 3)]).sizes.tolist() == [[2], [1], [3]]
    for bad in (
        b"garbage",
        changed(records[0], "nodes/paper.#size", put(3)),
        changed(records[0], "nodes/paper.words.d1", drop),
    ):
        assert sizes_error([*records, bad], ragged()).startswith("records, record 3: ")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Six hundred small records in two files: their graphs, their records, their folder."""
    schema = task_schema(RECALL)
    texts = ["".join(text) for text in itertools.islice(itertools.product("ab7C", repeat=5), 600)]
    texts = [text[: 1 + n % 5] for n, text in enumerate(texts)]
    records = [Codec(schema).encode(RECALL.graph(text)) for text in texts]
    folder = tmp_path_factory.mktemp("many")
    write(folder / "a.tfrecord", records[:300])
    write(folder / "b.tfrecord", records[300:])
    return texts, records, folder


def test_sizes_of_many_records(many):
    texts, records, folder = many
    examples = Examples.from_records(folder / "*.tfrecord", task_schema(RECALL))
    assert examples.records.tolist() == records
    assert examples.sets.names == ["_readout", "char", "_readout/target", "next", "previous", "self"]
    assert examples.sizes.tolist() == [[1, len(t), 1, len(t) - 1, len(t) - 1, len(t)] for t in texts]


@pytest.mark.parametrize("place", [0, 255, 256, 299, 300, 511, 512, 599])
def test_a_bad_record_is_named_wherever_it_is(many, tmp_path, place):
    records = list(many[1])
    records[place] = changed(records[place], "nodes/char.symbol", put(61))
    write(tmp_path / "a.tfrecord", records[:300])
    write(tmp_path / "b.tfrecord", records[300:])
    examples = Examples.from_records(tmp_path / "*.tfrecord", task_schema(RECALL))
    name = f"{tmp_path / 'ab'[place // 300]}.tfrecord, record {place % 300}"
    assert examples.name_of(place) == name
    with pytest.raises(ValueError, match=rf"^{name}: .*'symbol' of the node set 'char' is 61"):
        _ = examples.sizes


def test_of_several_bad_records_the_first_is_named(many):
    records = list(many[1])
    for place in (590, 530, 520):
        records[place] = changed(records[place], "nodes/char.symbol", put(-1))
    assert sizes_error(records, task_schema(RECALL)).startswith("records, record 520: ")
