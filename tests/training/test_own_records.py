import functools
import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from sggnn_tf import tfgnn, training
from sggnn_tf.cli import app, main
from sggnn_tf.training import run as runs_module
from tests.training import runs

SCHEMA = """
node_sets {
  key: "machine"
  value {
    features { key: "load" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "kind" value { dtype: DT_INT64 } }
    features { key: "serial" value { dtype: DT_STRING } }
    features { key: "state" value { dtype: DT_INT64 } }
    metadata {
      extra { key: "num_values/kind" value: "4" }
      extra { key: "num_values/state" value: "3" }
    }
  }
}
node_sets { key: "room" value { features { key: "heat" value { dtype: DT_FLOAT } } } }
edge_sets { key: "feeds" value { source: "machine" target: "machine" } }
edge_sets { key: "stands_in" value { source: "machine" target: "room" } }
edge_sets { key: "holds" value { source: "room" target: "machine" } }
"""
OPTIONS = ["--label", "machine/state", "--ignore", "machine/serial", "--model", "rgcn", "--units", "8", "--steps", "2"]


@functools.cache
def factory(seed):
    """Machines in rooms. A machine is off (0) if it is of kind 0, else its state says whether its room is hot."""
    random = np.random.default_rng(seed)
    machines, rooms, feeds = random.integers(3, 8), random.integers(1, 4), random.integers(0, 6)
    kind, room = random.integers(0, 4, machines), random.integers(0, rooms, machines)
    heat = random.choice([-1.0, 1.0], rooms).astype("float32")
    state = np.where(kind == 0, 0, np.where(heat[room] > 0, 2, 1))
    everything = np.arange(machines)

    def edges(source_set, source, target_set, target):
        adjacency = tfgnn.Adjacency.from_indices((source_set, source), (target_set, target))
        return tfgnn.EdgeSet.from_fields(sizes=[len(source)], adjacency=adjacency)

    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            "machine": tfgnn.NodeSet.from_fields(
                sizes=[machines],
                features={
                    "load": random.normal(size=[machines, 2]).astype("float32"),
                    "kind": kind,
                    "serial": [f"no {number}" for number in everything],
                    "state": state,
                },
            ),
            "room": tfgnn.NodeSet.from_fields(sizes=[rooms], features={"heat": heat}),
        },
        edge_sets={
            "feeds": edges(
                "machine", random.integers(0, machines, feeds), "machine", random.integers(0, machines, feeds)
            ),
            "stands_in": edges("machine", everything, "room", room),
            "holds": edges("room", room, "machine", everything),
        },
    )


def states(seed):
    return factory(seed).node_sets["machine"]["state"].numpy().tolist()


def write_split(folder, split, seeds):
    with tf.io.TFRecordWriter(str(folder / f"{split}-00000-of-00001.tfrecord")) as writer:
        for seed in seeds:
            writer.write(tfgnn.write_example(factory(seed)).SerializeToString())


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    (folder / "factory.pbtxt").write_text(SCHEMA)
    (folder / "data").mkdir()
    write_split(folder / "data", "train", range(50))
    write_split(folder / "data", "valid", range(50, 60))
    write_split(folder / "data", "test", range(60, 80))
    return folder


@pytest.fixture(scope="module")
def trained(records):
    """The folder of a run, and what the command printed."""
    arguments = ["--epochs", "8", "--batch-size", "8", "--learning-rate", "0.02", "--workdir", str(records / "run")]
    own = ["--data", str(records / "data"), "--schema", str(records / "factory.pbtxt")]
    result = CliRunner().invoke(app, ["train", *own, *OPTIONS, *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return records / "run", result.output


def test_a_model_learns_what_is_in_the_features_of_another_node_set(trained):
    folder, said = trained
    result = json.loads((folder / "result.json").read_text())
    test = result["test"]
    assert test["graphs"] == 20
    assert test["questions"] == sum(factory(seed).node_sets["machine"].total_size.numpy() for seed in range(60, 80))
    assert test["floors"]["most common answer"] < 0.5
    assert test["accuracy"] > 0.9
    assert f"{test['accuracy']:.1%} of {test['questions']} test questions right" in said


def test_evaluate_measures_the_same(trained):
    folder, _ = trained
    result = CliRunner().invoke(app, ["evaluate", str(folder), "--json"])
    measured, kept = json.loads(result.stdout), json.loads((folder / "result.json").read_text())
    assert measured == {split: kept[split] for split in ("valid", "test")}


def test_the_model_does_not_see_the_label_or_what_is_ignored(trained):
    folder, _ = trained
    spec = keras.saving.load_model(folder / "model.keras").graph_spec
    assert set(spec.node_sets_spec["machine"].features_spec) == {"load", "kind"}


@pytest.fixture
def own(records, tmp_path):
    """A copy of the folder of records, to spoil."""
    for path in (records / "data").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    return tmp_path


@pytest.fixture
def refused(monkeypatch, capsys, tmp_path):
    """Runs a command that has to be refused before a model is made; returns the error."""
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.setattr(runs_module, "make_model", lambda *arguments: pytest.fail("A model was made."))

    def refused(*arguments):
        monkeypatch.setattr(sys, "argv", ["sggnn", "train", *map(str, arguments), "--workdir", str(tmp_path / "run")])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 2
        return capsys.readouterr().err.removeprefix("Error: ")

    return refused


def test_a_split_without_records_is_named(own, refused):
    write_split(own, "valid", [])
    said = refused("--data", own, *OPTIONS)
    assert said.startswith(f"There are no graphs in {own}/valid-00000-of-00001.tfrecord")


def test_a_split_that_is_missing_is_named(own, refused):
    (own / "valid-00000-of-00001.tfrecord").unlink()
    assert refused("--data", own, *OPTIONS) == f"{own} has no split 'valid'; it has test, train.\n"


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_label_out_of_range_is_named(split, own, refused):
    for each in {"train", "valid", "test"} - {split}:
        write_split(own, each, [seed for seed in range(50) if 2 not in states(seed)])
    (own / "schema.pbtxt").write_text(SCHEMA.replace('"num_values/state" value: "3"', '"num_values/state" value: "2"'))
    seeds = {"train": range(50), "test": range(60, 80)}[split]
    first = next(place for place, seed in enumerate(seeds) if 2 in states(seed))
    item = states(seeds[first]).index(2)
    assert refused("--data", own, *OPTIONS) == (
        f"{own}/{split}-00000-of-00001.tfrecord, record {first}: Item {item} of the feature 'state' of the node set "
        "'machine' is 2; by the schema its values are 0 to 1.\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--label", "machine/stat"],
            "'machine/stat' is no feature; 'machine' has ['kind', 'load', 'serial', 'state']",
        ),
        (["--label", "engine/state"], "'engine/state' is of no node set; the schema has context, machine, room"),
        (["--label", "state"], "'state' is of no node set"),
        (["--ignore", "room/cold"], "'room/cold' is no feature; 'room' has ['heat']"),
        (["--ignore", "cold"], "'cold'"),
        (["--schema", "nowhere.pbtxt"], "The schema nowhere.pbtxt cannot be read"),
    ],
)
def test_a_name_that_is_not_there_is_named(options, message, own, refused):
    assert message in refused("--data", own, *OPTIONS, *options)


def test_a_folder_that_is_not_there_is_named(own, refused):
    assert "nowhere/schema.pbtxt cannot be read" in refused("--data", "nowhere", *OPTIONS)


def test_a_folder_that_is_not_there_is_named_with_a_schema_elsewhere_too(own, refused):
    assert "nowhere" in refused("--data", "nowhere", "--schema", own / "schema.pbtxt", *OPTIONS)


def test_a_feature_that_cannot_be_read_is_named(own):
    config = training.for_data(own, "rgcn", label="machine/state")
    with pytest.raises(ValueError, match=r"'serial' of 'machine' .* ignore=\['machine/serial'\]"):
        training.train(config, own / "run")


def test_a_mistake_does_not_keep_the_folder_from_being_used(own, monkeypatch):
    settings = {"units": 8, "steps": 2, "ignore": ["machine/serial"]}
    with pytest.raises(ValueError, match="no feature"):
        training.train(training.for_data(own, "rgcn", label="machine/stat", **settings), own / "run")
    monkeypatch.setattr(runs_module, "_train", lambda *arguments: {"is": "trained"})
    config = training.for_data(own, "rgcn", label="machine/state", **settings)
    assert training.train(config, own / "run") == {"is": "trained"}
    assert training.read_config(own / "run").label == "machine/state"


@pytest.mark.parametrize(
    ("precision", "computed", "kept"),
    [
        ("mixed_bfloat16", "bfloat16", "float32"),
        ("mixed_float16", "float16", "float32"),
        ("float64", "float64", "float64"),
    ],
)
def test_a_run_in_every_precision(precision, computed, kept, tmp_path):
    settings = {"epochs": 2, "steps": 1, "dropout": 0.0, "learning_rate": 0.01}
    result = training.train(runs.recall(precision=precision, **settings), tmp_path)
    losses = [epoch[name] for epoch in result["history"] for name in ("loss", "val_loss")]
    assert len(losses) == 4
    assert np.isfinite(losses).all()
    assert losses[2] < losses[0]
    model = keras.saving.load_model(tmp_path / "model.keras")
    assert {weight.dtype for weight in model.trainable_variables} == {kept}
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert {layer.compute_dtype for layer in model.encoder._flatten_layers()} == {computed}
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (precision == "mixed_float16")


def test_an_optimizer_that_scales_the_loss_is_built_once():
    config = runs.recall(precision="mixed_float16", steps=1)
    examples = config.examples()
    model = training.make_model(config, examples["train"].schema)
    dataset = training.make_batches(config, examples)["train"].dataset()
    model.build_for_data(dataset)
    before = [variable.path for variable in model.optimizer.variables]
    model.build_for_data(dataset)  # As `fit` and each validation do: what a checkpoint has to restore stays the same.
    assert [variable.path for variable in model.optimizer.variables] == before
