"""Data sets of records: their order, their sizes, and an error that names the file, the record and the field."""

import dataclasses
import itertools
import json
import zlib

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf import tasks, tfgnn
from sggnn_tf.data import Examples, generate, read, read_card, task_schema
from sggnn_tf.data.codec import Codec
from tests.data.schemas import library, library_graph, ragged

LIBRARY = Codec(library())
GRAPHS = [library_graph(2 + n % 2, 3, 1 + n % 2, seed=n) for n in range(7)]
RECORDS = [LIBRARY.encode(graph) for graph in GRAPHS]
SOURCES = [("first.tfrecord", 3), ("second.tfrecord", 4)]
BAD = 4  # The place of a record that is changed: in the second file, record 1.
RECALL = tasks.ConditionalRecall()


@pytest.fixture(autouse=True)
def _same_start():
    """Without a seed, after which TensorFlow would build its functions anew: nothing here is random."""


def write(path, records):
    with tf.io.TFRecordWriter(str(path), "GZIP" if path.suffix == ".gz" else "") as writer:
        for record in records:
            writer.write(record)
    return path


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


def test_good_records_have_the_sizes_that_one_counts():
    examples = Examples(library(), RECORDS, SOURCES)
    assert examples.sets.names == ["author", "paper", "topic", "about", "cites", "writes"]
    expected = [
        [2 + n % 2, 3, 1 + n % 2, *(len(graph.edges[name][0]) for name in ("about", "cites", "writes"))]
        for n, graph in enumerate(GRAPHS)
    ]
    assert examples.sizes.tolist() == expected
    assert examples.sizes.dtype == np.int64


def test_sizes_of_sets_without_items():
    graphs = [library_graph(*sizes) for sizes in [(0, 0, 1), (0, 2, 0), (3, 0, 0), (1, 1, 1)]]
    examples = Examples.from_graphs(graphs, library())
    assert examples.sizes.tolist() == [
        [0, 0, 1, 0, 0, 0],
        [0, 2, 0, 0, 2, 0],
        [3, 0, 0, 0, 0, 0],
        [1, 1, 1, 3, 2, 4],
    ]


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


def test_files_are_read_in_order(tmp_path):
    for name, part in {"b": RECORDS[:2], "a-1": RECORDS[2:3], "a-0": RECORDS[3:5], "c": RECORDS[5:]}.items():
        write(tmp_path / f"{name}.tfrecord", part)
    files = [tmp_path / "b.tfrecord", str(tmp_path / "a-*.tfrecord"), tmp_path / "c.tfrecord"]
    examples = Examples.from_records(files, library())
    assert examples.records.tolist() == [*RECORDS[:2], *RECORDS[3:5], RECORDS[2], *RECORDS[5:]]
    assert len(examples) == 7
    assert [examples.name_of(place) for place in range(7)] == [
        f"{tmp_path}/{name}"
        for name in (
            "b.tfrecord, record 0",
            "b.tfrecord, record 1",
            "a-0.tfrecord, record 0",
            "a-0.tfrecord, record 1",
            "a-1.tfrecord, record 0",
            "c.tfrecord, record 0",
            "c.tfrecord, record 1",
        )
    ]


def test_compressed_files_and_a_schema_in_a_file(tmp_path):
    (tmp_path / "schema.pbtxt").write_text(schemas.to_text(library()))
    write(tmp_path / "a.tfrecord.gz", RECORDS[:3])
    write(tmp_path / "b.tfrecord", RECORDS[3:])
    for schema in (library(), tmp_path / "schema.pbtxt", str(tmp_path / "schema.pbtxt")):
        examples = Examples.from_records(str(tmp_path / "*.tfrecord*"), schema)
        assert examples.records.tolist() == RECORDS
        assert examples.schema == library()


def test_a_file_that_is_not_there(tmp_path):
    write(tmp_path / "a.tfrecord", RECORDS)
    for missing in (tmp_path / "b.tfrecord", tmp_path / "none" / "*.tfrecord"):
        for files in (missing, str(missing), [tmp_path / "a.tfrecord", missing]):
            with pytest.raises(ValueError, match=rf"no file {str(missing).replace('*', '.')}"):
                Examples.from_records(files, library())


def test_an_empty_file(tmp_path):
    for name in ("empty.tfrecord", "empty.tfrecord.gz"):
        path = write(tmp_path / name, [])
        with pytest.raises(ValueError, match=f"no graphs in {path}"):
            Examples.from_records(path, library())
    full = write(tmp_path / "full.tfrecord", RECORDS[:2])
    examples = Examples.from_records([tmp_path / "empty.tfrecord", full], library())
    assert examples.records.tolist() == RECORDS[:2]
    assert examples.name_of(0) == f"{full}, record 0"


def test_no_files_at_all():
    with pytest.raises(ValueError, match="no graphs"):
        Examples.from_records([], library())


LENGTHS = [len(record) + 16 for record in RECORDS]  # A length and its checksum, 12 bytes, and a checksum, 4 bytes.
STARTS = [0, *itertools.accumulate(LENGTHS)]


def assert_damaged(path, place):
    """An error names the file, and the record that cannot be read or the one before it."""
    with pytest.raises(ValueError, match=str(path)) as error:
        Examples.from_records(path, library())
    message = str(error.value).replace(str(path), "")
    assert "record -1" not in message
    if place:
        assert f"after record {place - 1}" in message or f"record {place}" in message


@pytest.mark.parametrize("place", [0, 1, 4, 6])
@pytest.mark.parametrize("where", [1, 7, 11, 12, 13, 100, -5, -4, -1])
def test_a_file_that_is_cut_short(tmp_path, place, where):
    whole = write(tmp_path / "whole.tfrecord", RECORDS).read_bytes()
    assert len(whole) == STARTS[-1]
    path = tmp_path / "cut.tfrecord"
    path.write_bytes(whole[: STARTS[place] + where if where > 0 else STARTS[place + 1] + where])
    assert_damaged(path, place)


@pytest.mark.parametrize("where", [0, 3, 8, 12, 40, -1])
def test_a_byte_that_is_wrong(tmp_path, where):
    path = write(tmp_path / "damaged.tfrecord", RECORDS)
    content = bytearray(path.read_bytes())
    content[STARTS[2] + where if where >= 0 else STARTS[3] + where] ^= 1
    path.write_bytes(content)
    assert_damaged(path, 2)


def unpacked_sizes(content):
    """For each number of bytes of a compressed file, the number of bytes that they hold."""
    unpack, total, sizes = zlib.decompressobj(wbits=31), 0, [0]
    for byte in content:
        total += len(unpack.decompress(bytes([byte])))
        sizes.append(total)
    return np.array(sizes)


def test_a_compressed_file_that_is_cut_short(tmp_path):
    whole = write(tmp_path / "whole.tfrecord.gz", RECORDS).read_bytes()
    sizes = unpacked_sizes(whole)
    path = tmp_path / "cut.tfrecord.gz"
    cuts = {int(np.argmax(sizes >= size)) for start in STARTS[1:-1] for size in (start, start + 1, start + 200)}
    cuts |= {1, 9, len(whole) // 2, int(np.argmax(sizes == STARTS[-1])) - 1}
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        place = int(np.searchsorted(STARTS, sizes[cut], side="right")) - 1
        assert_damaged(path, place)


def test_a_compressed_file_with_a_byte_that_is_wrong(tmp_path):
    whole = write(tmp_path / "whole.tfrecord.gz", RECORDS).read_bytes()
    path = tmp_path / "damaged.tfrecord.gz"
    for place in (0, 20, len(whole) // 3, len(whole) // 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=str(path)):
            Examples.from_records(path, library())


def test_the_name_of_a_file_has_to_say_whether_it_is_compressed(tmp_path):
    for name, other in (("a.tfrecord", "a.tfrecord.gz"), ("b.tfrecord.gz", "b.tfrecord")):
        write(tmp_path / name, RECORDS).rename(tmp_path / other)
        assert_damaged(tmp_path / other, 0)


def test_graphs_are_those_that_tfgnn_parses_in_order():
    examples = Examples(library(), RECORDS, SOURCES)
    spec = tfgnn.create_graph_spec_from_schema_pb(library())
    graphs = list(examples.graphs())
    assert len(graphs) == len(RECORDS)
    for graph, record in zip(graphs, RECORDS, strict=True):
        assert graph.spec.is_compatible_with(spec)
        parsed = tfgnn.parse_single_example(spec, tf.constant(record))
        assert tfgnn.write_example(graph) == tfgnn.write_example(parsed) == tf.train.Example.FromString(record)


def test_graphs_that_take_longer_to_parse_keep_their_place():
    lengths = [50_000, 1, 2, 3, 50_001, 4, 5, 6]
    examples = Examples.from_graphs([RECALL.graph("a" * length) for length in lengths], task_schema(RECALL))
    assert [int(graph.node_sets["char"].total_size) for graph in examples.graphs()] == lengths


def test_graphs_of_arrays_are_records_and_a_bad_one_is_named():
    examples = Examples.from_graphs(iter(GRAPHS), library(), "my graphs")
    assert examples.records.tolist() == RECORDS
    assert examples.name_of(6) == "my graphs, record 6"
    bad = dataclasses.replace(GRAPHS[0], context={"label": 3, "season": [0, 0]})
    with pytest.raises(ValueError, match=r"Graph 2 of my graphs: .*'label' of the context"):
        Examples.from_graphs([*GRAPHS[:2], bad], library(), "my graphs")
    with pytest.raises(ValueError, match="no graphs in my graphs"):
        Examples.from_graphs([], library(), "my graphs")


@pytest.mark.parametrize(
    "task",
    [
        tasks.ConditionalRecall(length=4, examples_per_class=1, seed=3),
        tasks.TreeMax(trees=9, min_depth=2, max_depth=5, branching=(0.3, 0.3, 0.2, 0.1, 0.1), max_value=7),
    ],
    ids=["recall", "tree"],
)
def test_a_task_is_generated_as_by_hand(task):
    made = []
    splits = generate(task, made.append)
    assert made == list(range(1, task.num_examples + 1))
    assert list(splits) == ["train", "valid", "test"]
    codec = Codec(task_schema(task))
    for split, numbers in task.splits.items():
        assert splits[split].schema == task_schema(task)
        assert splits[split].records.tolist() == [codec.encode(task.example(number)) for number in numbers]
        assert splits[split].name_of(1) == f"{split} of {task.name}, record 1"
    assert splits["valid"].sizes.shape == (len(task.splits["valid"]), len(splits["valid"].sets.names))


def write_folder(folder, splits, schema=True):
    """A data set: for each split the records of its shards."""
    tf.io.gfile.makedirs(str(folder))
    if schema:
        with tf.io.gfile.GFile(f"{folder}/schema.pbtxt", "w") as file:
            file.write(schemas.to_text(library()))
    for split, shards in splits.items():
        for number, records in enumerate(shards):
            with tf.io.TFRecordWriter(f"{folder}/{split}-{number:05d}-of-{len(shards):05d}.tfrecord") as writer:
                for record in records:
                    writer.write(record)
    return folder


SPLITS = {"train": [RECORDS[:2], RECORDS[2:3], RECORDS[3:5]], "valid": [RECORDS[5:6]], "test": [RECORDS[6:]]}


def assert_is_read(folder):
    splits = read(folder)
    assert {split: examples.records.tolist() for split, examples in splits.items()} == {
        "train": RECORDS[:5],
        "valid": RECORDS[5:6],
        "test": RECORDS[6:],
    }
    assert all(examples.schema == library() for examples in splits.values())
    return splits


def test_a_folder_is_read_split_by_split(tmp_path):
    folder = write_folder(tmp_path / "data", SPLITS)
    (folder / "notes.txt").write_text("not a record")
    splits = assert_is_read(folder)
    assert_is_read(str(folder))
    assert splits["train"].name_of(4) == f"{folder}/train-00002-of-00003.tfrecord, record 1"


def test_a_compressed_folder_is_read(tmp_path):
    folder = write_folder(tmp_path / "data", {})
    for split, shards in SPLITS.items():
        for number, records in enumerate(shards):
            write(folder / f"{split}-{number:05d}-of-{len(shards):05d}.tfrecord.gz", records)
    assert_is_read(folder)


def test_many_shards_are_read_in_order(tmp_path):
    folder = write_folder(tmp_path / "data", {"train": [[RECORDS[n % 7]] for n in range(12)]})
    assert read(folder)["train"].records.tolist() == [RECORDS[n % 7] for n in range(12)]


@pytest.mark.parametrize("name", ["data [1]", "da*ta", "dä ta", "-data-00000-of-00002"])
def test_a_folder_may_have_any_name(tmp_path, name):
    assert_is_read(write_folder(tmp_path / name, SPLITS))


def test_a_folder_may_be_on_any_file_system_that_tensorflow_knows():
    folder = write_folder("ram://sggnn/data", SPLITS)
    assert_is_read(folder)
    with tf.io.gfile.GFile(f"{folder}/dataset.json", "w") as file:
        file.write("{}")
    assert read_card(folder) == {}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_shard_is_named(tmp_path, number):
    folder = write_folder(tmp_path / "data", SPLITS)
    name = f"train-{number:05d}-of-00003.tfrecord"
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{folder}.*{name}"):
        read(folder)


def test_a_folder_without_a_schema(tmp_path):
    folder = write_folder(tmp_path / "data", SPLITS, schema=False)
    with pytest.raises(ValueError, match=f"{folder}/schema.pbtxt"):
        read(folder)
    with pytest.raises(ValueError, match=str(tmp_path / "none")):
        read(tmp_path / "none")


def test_a_folder_without_records(tmp_path):
    folder = write_folder(tmp_path / "data", {})
    with pytest.raises(ValueError, match=str(folder)):
        read(folder)
    write(folder / "notes.tfrecord", RECORDS)
    with pytest.raises(ValueError, match=str(folder)):
        read(folder)


def test_a_card_is_read(tmp_path):
    card = {"task": "tree_max", "splits": {"train": {"examples": 3}}, "ä": 0.5}
    (tmp_path / "dataset.json").write_text(json.dumps(card, ensure_ascii=False))
    assert read_card(tmp_path) == read_card(str(tmp_path)) == card


def test_a_missing_card(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path}/dataset.json"):
        read_card(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"task": tree_max}', b"\xff\xfe\x00", b"[1, 2]", b"3"])
def test_a_broken_card(tmp_path, content):
    (tmp_path / "dataset.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"{tmp_path}/dataset.json"):
        read_card(tmp_path)


def test_a_split_that_is_there_twice_is_refused(tmp_path):
    examples = Examples.from_graphs([library_graph(2, 2, 1)], library())
    for shards in (1, 2):
        for place in range(shards):
            path = tmp_path / f"train-{place:05d}-of-{shards:05d}.tfrecord"
            with tf.io.TFRecordWriter(str(path)) as writer:
                writer.write(examples.records[0])
    with pytest.raises(ValueError, match="holds the split 'train' twice"):
        read(tmp_path, library())
