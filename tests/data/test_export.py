"""Export: the same data for everyone who reads it, the same bytes however it is made, and all of it or nothing."""

import collections
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import sggnn_tf
from sggnn_tf import data
from sggnn_tf import schema as schemas
from sggnn_tf.data import Examples
from sggnn_tf.tasks import ConditionalRecall, TreeMax
from tests.data.schemas import library, library_graph

ROOT = Path(sggnn_tf.__file__).parent.parent
TREES = TreeMax(trees=40, max_depth=6, seed=3)
RECALL = ConditionalRecall(length=5, examples_per_class=1, seed=3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failing(TreeMax):
    """Trees of which the fifth cannot be made."""

    error: type[BaseException] = ValueError
    message: tuple[str, ...] = ("the fifth tree fell",)

    def make_example(self, number):
        if number == 5:
            raise self.error(*self.message)
        return super().make_example(number)


def records(splits):
    return {split: examples.records.tolist() for split, examples in splits.items()}


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def tensors(graphs):
    return [[each.numpy().tolist() for each in tf.nest.flatten(graph, expand_composites=True)] for graph in graphs]


def libraries(count=5):
    return Examples.from_graphs([library_graph(seed=seed) for seed in range(count)], library())


def run(script, *arguments, **environment):
    """Runs a script in a new interpreter and returns what it prints."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("task", [TREES, RECALL], ids=lambda task: task.name)
@pytest.mark.parametrize(("shards", "gzip"), [(1, False), (3, False), (1, True), (3, True)])
def test_what_is_read_is_what_was_generated(task, shards, gzip, tmp_path):
    data.export(task, tmp_path / "data", shards=shards, gzip=gzip)
    assert records(data.read(tmp_path / "data")) == records(data.generate(task))
    ending = "tfrecord.gz" if gzip else "tfrecord"
    shard_names = [
        f"{split}-{place:05d}-of-{shards:05d}.{ending}"
        for split in ("test", "train", "valid")
        for place in range(shards)
    ]
    assert names(tmp_path / "data") == sorted([*shard_names, "dataset.json", "schema.pbtxt"])
    assert schemas.read(tmp_path / "data" / "schema.pbtxt") == data.task_schema(task)
    assert names(tmp_path) == ["data"]


@pytest.mark.parametrize("task", [TREES, RECALL], ids=lambda task: task.name)
def test_the_card(task, tmp_path):
    card = data.export(task, tmp_path / "data", shards=2, gzip=True)
    assert data.read_card(tmp_path / "data") == json.loads(json.dumps(card))
    assert card["task"] == task.name
    assert card["arguments"] == json.loads(json.dumps(dataclasses.asdict(task)))
    assert card["arguments"]["seed"] == 3
    assert card["sggnn_tf"] == sggnn_tf.__version__
    assert (card["form"], card["compression"]) == ("records", "gzip")
    contents = files(tmp_path / "data")
    assert card["schema"] == {
        "file": "schema.pbtxt",
        "sha256": hashlib.sha256(contents["schema.pbtxt"]).hexdigest(),
    }
    assert card["splits"].keys() == {"train", "valid", "test"}
    for split, facts in card["splits"].items():
        numbers = task.splits[split]
        graphs = [task.example(number) for number in numbers]
        hops = collections.Counter(distance for graph in graphs for distance in task.hops(graph).tolist())
        assert facts["examples"] == len(numbers)
        assert facts["hops"] == {str(distance): hops[distance] for distance in sorted(hops)}
        assert [shard["examples"] for shard in facts["shards"]] == [len(numbers) // 2, len(numbers) - len(numbers) // 2]
        for place, shard in enumerate(facts["shards"]):
            assert shard["file"] == f"{split}-{place:05d}-of-00002.tfrecord.gz"
            assert shard["sha256"] == hashlib.sha256(contents[shard["file"]]).hexdigest()


@pytest.mark.parametrize("gzip", [False, True])
def test_the_same_seed_gives_the_same_bytes(gzip, tmp_path):
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        data.export(dataclasses.replace(TREES, seed=seed), tmp_path / name, shards=2, gzip=gzip)
    one, two, other = (files(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]) == (name == "schema.pbtxt") for name in one)


def test_the_same_bytes_with_four_workers(tmp_path):
    options = ["--direct_num_workers=4", "--direct_running_mode=multi_processing"]
    data.export(TREES, tmp_path / "one", shards=4)
    data.export(TREES, tmp_path / "four", shards=4, beam_options=options)
    assert files(tmp_path / "one") == files(tmp_path / "four")


def test_a_reader_that_knows_only_tfgnn_and_the_schema(tmp_path):
    script = """
import json, sys
import tensorflow as tf
import tensorflow_gnn as tfgnn
folder, split = sys.argv[1:]
schema = tfgnn.read_schema(folder + "/schema.pbtxt")
spec = tfgnn.create_graph_spec_from_schema_pb(schema)
files = sorted(tf.io.gfile.glob(folder + "/" + split + "-*.tfrecord.gz"))
data = tf.data.TFRecordDataset(files, compression_type="GZIP").batch(1000)
graph = tfgnn.parse_example(spec, next(iter(data)))
pieces = {**graph.node_sets, **graph.edge_sets}
assert "sggnn_tf" not in sys.modules
print(json.dumps({
    "sizes": {name: piece.sizes.numpy()[:, 0].tolist() for name, piece in pieces.items()},
    "values": graph.node_sets["node"]["value"].to_list(),
    "labels": graph.node_sets["_readout"]["label"].to_list(),
    "parents": graph.edge_sets["child_1_of"].adjacency.target.to_list(),
}))
"""
    data.export(TREES, tmp_path / "data", shards=3, gzip=True)
    found = json.loads(run(script, tmp_path / "data", "train", TF_USE_LEGACY_KERAS="1").splitlines()[-1])
    graphs = [TREES.example(number) for number in TREES.splits["train"]]
    sizes = {name: [] for name in ("node", "_readout", *data.task_schema(TREES).edge_sets)}
    for graph in graphs:
        for name in sizes:
            arrays = graph.nodes[name].values() if name in graph.nodes else graph.edges.get(name, ((), ()))
            sizes[name].append(len(next(iter(arrays))))
    assert found == {
        "sizes": sizes,
        "values": [graph.nodes["node"]["value"].tolist() for graph in graphs],
        "labels": [graph.nodes["_readout"]["label"].tolist() for graph in graphs],
        "parents": [graph.edges["child_1_of"][1].tolist() for graph in graphs],
    }


@pytest.mark.parametrize("shards", [1, 3])
def test_ones_own_examples(shards, tmp_path):
    splits = {"train": libraries(5), "rest": libraries(3)}
    card = data.export(splits, tmp_path / "data", shards=shards)
    assert records(data.read(tmp_path / "data")) == records(splits)
    assert schemas.read(tmp_path / "data" / "schema.pbtxt") == library()
    assert {split: facts["examples"] for split, facts in card["splits"].items()} == {"train": 5, "rest": 3}
    assert "task" not in card


def test_a_saved_data_set_loads_the_same_graphs_in_order(tmp_path):
    task = dataclasses.replace(TREES, trees=12)
    card = data.export(task, tmp_path / "one", form="saved")
    data.export(task, tmp_path / "two", form="saved")
    assert names(tmp_path / "one") == ["dataset.json", "schema.pbtxt", "test", "train", "valid"]
    assert card["form"] == "saved"
    for split, examples in data.generate(task).items():
        expected = tensors(examples.graphs())
        assert card["splits"][split]["examples"] == len(expected)
        for name in ("one", "two"):
            assert tensors(tf.data.Dataset.load(str(tmp_path / name / split))) == expected


def test_ones_own_examples_can_be_saved(tmp_path):
    data.export({"all": libraries()}, tmp_path / "data", form="saved")
    assert tensors(tf.data.Dataset.load(str(tmp_path / "data" / "all"))) == tensors(libraries().graphs())


def test_an_existing_folder_is_kept_unless_forced(tmp_path):
    folder = tmp_path / "data"
    data.export(TREES, folder)
    (folder / "more").write_text("something")
    before = files(folder)
    with pytest.raises(ValueError, match=r"data is there already.*--force"):
        data.export(RECALL, folder)
    assert files(folder) == before
    data.export(RECALL, f"{folder}/", force=True)
    assert records(data.read(folder)) == records(data.generate(RECALL))
    assert "more" not in names(folder)
    assert names(tmp_path) == ["data"]


def test_a_file_is_kept_unless_forced(tmp_path):
    (tmp_path / "data").write_text("something")
    with pytest.raises(ValueError, match="is there already"):
        data.export(TREES, tmp_path / "data")
    assert (tmp_path / "data").read_text() == "something"
    data.export(TREES, tmp_path / "data", force=True)
    assert names(tmp_path) == ["data"]
    assert len(data.read(tmp_path / "data")) == 3


def test_folders_above_are_made(tmp_path):
    data.export(TREES, tmp_path / "a" / "b" / "data")
    assert names(tmp_path / "a" / "b") == ["data"]


@pytest.mark.parametrize("shards", [0, -1, 11])
def test_shards_that_cannot_be_filled_are_refused(shards, tmp_path):
    with pytest.raises(ValueError, match=rf"^{shards} shards cannot be filled: the split 'valid' has 10 examples"):
        data.export(TREES, tmp_path / "data", shards=shards)
    with pytest.raises(ValueError, match=rf"^{shards} shards cannot be filled: the split 'b' has 3 examples"):
        data.export({"a": libraries(5), "b": libraries(3)}, tmp_path / "data", shards=shards)
    assert names(tmp_path) == []


def test_splits_of_different_schemas_are_refused(tmp_path):
    with pytest.raises(ValueError, match="different schemas"):
        data.export({"a": libraries(), "b": data.generate(RECALL)["test"]}, tmp_path / "data")
    with pytest.raises(ValueError, match="no splits"):
        data.export({}, tmp_path / "data")
    assert names(tmp_path) == []


def test_progress_ends_with_all_examples(tmp_path):
    seen = []
    data.export(TREES, tmp_path / "data", shards=2, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (40, 40)
    assert seen == sorted(seen)


@pytest.mark.parametrize("form", ["records", "saved"])
def test_a_folder_below_a_file_cannot_be_written(form, tmp_path):
    (tmp_path / "file").write_text("something")
    with pytest.raises(ValueError, match=r"file/data cannot be written: .*not a directory"):
        data.export(TREES, tmp_path / "file" / "data", form=form)
    assert files(tmp_path) == {"file": b"something"}


@pytest.mark.parametrize("form", ["records", "saved"])
@pytest.mark.parametrize("error", [ValueError, KeyError])
def test_after_an_error_nothing_is_left_and_the_cause_is_told(error, form, tmp_path):
    with pytest.raises(error, match="the fifth tree fell"):
        data.export(Failing(trees=40, error=error), tmp_path / "data", form=form)
    assert names(tmp_path) == []


@pytest.mark.parametrize("form", ["records", "saved"])
def test_after_an_error_what_was_there_is_untouched(form, tmp_path):
    data.export(TREES, tmp_path / "data")
    before = files(tmp_path)
    with pytest.raises(ValueError, match="the fifth tree fell"):
        data.export(Failing(trees=40), tmp_path / "data", form=form, force=True)
    assert files(tmp_path) == before


def test_if_the_folder_cannot_be_put_in_place_what_was_there_is_untouched(tmp_path, monkeypatch):
    data.export(TREES, tmp_path / "data")
    before = files(tmp_path)
    rename = tf.io.gfile.rename

    def failing(source, target, overwrite=False):
        if ".partial-" in source and target == str(tmp_path / "data"):
            raise tf.errors.PermissionDeniedError(None, None, "no such luck")
        return rename(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", failing)
    with pytest.raises(ValueError, match="data cannot be written: no such luck"):
        data.export(RECALL, tmp_path / "data", force=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize("form", ["records", "saved"])
def test_after_an_interruption_of_an_example_nothing_is_left(form, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        data.export(Failing(trees=40, error=KeyboardInterrupt, message=()), tmp_path / "data", form=form)
    assert names(tmp_path) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("form", ["records", "saved"])
def test_after_an_interruption_of_the_progress_nothing_is_left(form, tmp_path):
    def interrupted(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.export(TREES, tmp_path / "data", form=form, progress=interrupted)
    assert names(tmp_path) == []


def test_on_a_full_disk_nothing_is_left(tmp_path):
    script = """
import resource, signal, sys
from sggnn_tf import data, tasks
import apache_beam
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
for form in ("records", "saved"):
    try:
        data.export(tasks.TreeMax(trees=40), sys.argv[1], form=form)
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""
    found = run(script, tmp_path / "data").splitlines()
    assert names(tmp_path) == []
    assert len(found) == 2
    for line in found:
        assert line.startswith(f"ValueError {tmp_path}/data cannot be written")
        assert "File too large" in line


def test_a_process_that_is_killed_leaves_no_folder_of_the_name(tmp_path):
    script = """
import dataclasses, sys, time
from sggnn_tf import data, tasks
@dataclasses.dataclass(frozen=True, kw_only=True)
class Slow(tasks.TreeMax):
    def make_example(self, number):
        if number == 25:
            print("in the middle", flush=True)
            time.sleep(600)
        return super().make_example(number)
data.export(Slow(trees=40), sys.argv[1], shards=4)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "data")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout.readline() == "in the middle\n"
        finally:
            process.kill()
    assert process.returncode == -9
    assert not (tmp_path / "data").exists()
    data.export(TREES, tmp_path / "data")
    assert records(data.read(tmp_path / "data")) == records(data.generate(TREES))
