import itertools
import json
import os
import socket
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import data, training
from sggnn_tf import schema as schemas
from sggnn_tf.models import build_model, replicas
from sggnn_tf.training import devices
from tests.training import runs

COMMAND = [sys.executable, "-c", "from sggnn_tf.cli import main; main()", "train"]
ARGUMENTS = {"trees": 22, "min_depth": 2, "max_depth": 5, "max_value": 5}  # 12, 5 and 5 trees.
SETTINGS = {"units": 8, "steps": 1, "dropout": 0.0, "epochs": 2, "patience": 9, "batch_size": 8, "learning_rate": 0.01}
SETTINGS |= {"embedding_gain": 1.0, "clip_norm": 3.0}  # Fifteen times faster, what differs by rounding differs by more.
OPTIONS = [
    *("--model", "rgcn", "--json"),
    *(part for name, value in SETTINGS.items() for part in (f"--{name.replace('_', '-')}", str(value))),
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


SIZES = (
    1,
    2,
    9,
    4,
    7,
    3,
    30,
    5,
    1,
    8,
    2,
    6,
)  # As batches of 8: the last is half a batch, and of two parts one is empty.
RINGS = """
  node_sets { key: "node" value {
    features { key: "mark" value { dtype: DT_INT64 } }
    features { key: "label" value { dtype: DT_INT64 } }
    metadata {
      extra { key: "num_values/mark" value: "3" }
      extra { key: "num_values/label" value: "3" } } } }
  edge_sets { key: "next" value { source: "node" target: "node" } }
"""


def rings(sizes, seed):
    """Rings of several sizes, in which a node is asked for the mark of the one before it."""
    random = np.random.default_rng(seed)
    graphs = []
    for size in sizes:
        marks = random.integers(0, 3, size)
        edges = {"next": (np.arange(size), np.roll(np.arange(size), -1))}
        graphs.append(data.Graph(nodes={"node": {"mark": marks, "label": np.roll(marks, 1)}}, edges=edges))
    return data.Examples.from_graphs(graphs, schemas.from_text(RINGS))


def trees(**settings):
    return training.for_task("tree_max", "rgcn", task_arguments=ARGUMENTS, **{**SETTINGS, **settings})


def start(*arguments, **environment):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    """What a command printed, once it has ended."""
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return json.loads(out)


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory):
    """The same run on two parts of the CPU and on one; its loss is a sum over questions."""
    folder = tmp_path_factory.mktemp("devices")
    arguments = [part for name, value in ARGUMENTS.items() for part in ("--argument", f"{name}={value}")]
    process = start("tree_max", *arguments, *OPTIONS, "--devices", "2", "--workdir", folder / "two")
    try:
        one = training.train(trees(), folder / "one")
        return folder, one, end(process)
    finally:
        process.kill()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """The same run by two processes and by one; its loss is the mean over questions."""
    folder = tmp_path_factory.mktemp("workers")
    data.export({"train": rings(SIZES, 0), "valid": rings(SIZES[:5], 1)}, str(folder / "data"))
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    workers = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    processes = [
        start(
            *(
                "--data",
                folder / "data",
                "--label",
                "node/label",
                *OPTIONS,
                "--devices",
                "2",
                "--workdir",
                folder / f"worker{index}",
            ),
            TF_CONFIG=json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]
    try:
        config = training.for_data(folder / "data", "rgcn", label="node/label", **SETTINGS)
        one = training.train(config, folder / "one")
        return folder, one, *(end(process) for process in processes)
    finally:
        for process in processes:
            process.kill()


def assert_same_epochs(one, two):
    assert len(one["history"]) == SETTINGS["epochs"]
    for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
        values = [[epoch[name] for epoch in result["history"]] for result in (one, two)]
        np.testing.assert_allclose(*values, **TOLERANCE, err_msg=name)
        assert len(set(values[0])) > 1 or name == "val_accuracy"  # Something was learnt: there is something to compare.


def assert_same_weights(one, two):
    for a, b in zip(runs.weights(one), runs.weights(two), strict=True):
        np.testing.assert_allclose(a, b, **TOLERANCE)


def test_two_devices_do_what_one_does(two_devices):
    folder, one, two = two_devices
    assert (one["config"]["devices"], two["config"]["devices"]) == (1, 2)
    assert two["config"]["loss"] == "graphs"
    assert_same_epochs(one, two)
    assert_same_weights(folder / "one", folder / "two")
    for split in ("valid", "test"):
        assert two[split]["questions"] == one[split]["questions"]
        assert two[split]["accuracy"] == pytest.approx(one[split]["accuracy"], abs=1e-4)


def test_a_model_of_two_devices_is_kept_with_the_state_of_its_optimizer(two_devices):
    folder, _, _ = two_devices
    one, two = (keras.saving.load_model(folder / name / "model.keras").optimizer for name in ("one", "two"))
    assert int(one.iterations) == 4
    assert int(two.iterations) == 4


def test_two_workers_do_what_one_does(two_workers):
    folder, one, chief, other = two_workers
    assert chief["config"]["loss"] == "items"
    assert_same_epochs(one, chief)
    assert_same_epochs(one, other)
    assert_same_weights(folder / "one", folder / "worker0")


def test_only_the_first_worker_writes(two_workers):
    folder, _, chief, _ = two_workers
    assert json.loads((folder / "worker0" / "result.json").read_text()) == chief
    names = {path.name for path in (folder / "worker0").iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoints", "model.keras", "curves.png"} <= names
    assert not (folder / "worker1").exists()


def real_labels(element):
    _, labels, weights = element
    return labels.numpy()[weights.numpy() > 0].tolist()


def test_the_parts_of_a_batch_are_the_batch():
    train = rings(SIZES, 0)
    whole = data.Batches(train, 8, label="node/label", shuffle_seed=3).dataset()
    parts = data.Batches(train, 8, label="node/label", shuffle_seed=3, replicas=4)
    assert len(parts) == 2
    parts = parts.dataset()
    for _ in range(2):  # Each epoch has an order of its own.
        expected = [real_labels(element) for element in whole]
        found = [real_labels(element) for element in parts]
        assert len(found) == 8
        assert [list(itertools.chain(*found[place : place + 4])) for place in (0, 4)] == expected
        assert all(found[:6])
        assert found[6:] == [[], []]


def test_parts_are_for_as_many_devices():
    batches = data.Batches(rings([3, 4], 0), 8, label="node/label", replicas=2)
    with pytest.raises(ValueError, match="2 parts for 1 devices"):
        batches.distributed(tf.distribute.get_strategy())


@pytest.mark.parametrize("replicas", [0, 3])
def test_a_batch_has_equal_parts(replicas):
    with pytest.raises(ValueError, match=rf"batch_size is 8; .* a multiple of the number of devices, {replicas}"):
        data.Batches(rings([3, 4], 0), 8, label="node/label", replicas=replicas)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": 2, "jit": True}, "XLA is for one device: with several, train with --no-jit"),
        ({"devices": 3}, "batch_size is 8; it has to be a multiple of the 3 devices"),
        ({"devices": 0}, "devices is 0; it has to be at least 1"),
    ],
)
def test_settings_that_devices_do_not_go_with_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        trees(**settings)


def test_a_cpu_in_use_cannot_be_divided(tmp_path):
    tf.zeros([])
    with pytest.raises(ValueError, match="TensorFlow has started already and the CPU cannot be divided into 2"):
        training.train(trees(devices=2), tmp_path)


def test_one_device_needs_nothing():
    assert devices.make_strategy(1) is tf.distribute.get_strategy()
    assert devices.number_of_workers() == 1
    assert devices.is_chief()


def set_cluster(monkeypatch, kind, index, **cluster):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))


def test_the_first_of_the_workers_is_the_chief(monkeypatch):
    for index in range(3):
        set_cluster(monkeypatch, "worker", index, worker=["a:1", "b:1", "c:1"])
        assert devices.number_of_workers() == 3
        assert devices.is_chief() == (index == 0)


def test_a_chief_by_name_is_one_of_the_workers(monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1"]}
    for kind in ("chief", "worker"):
        set_cluster(monkeypatch, kind, 0, **cluster)
        assert devices.number_of_workers() == 2
        assert devices.is_chief() == (kind == "chief")


def test_a_worker_alone_is_one_device(monkeypatch):
    set_cluster(monkeypatch, "worker", 0, worker=["a:1"])
    assert devices.is_chief()
    assert devices.make_strategy(1) is tf.distribute.get_strategy()


@pytest.mark.parametrize("text", ["{'cluster': 3}", "[]", "3"])
def test_a_tf_config_that_cannot_be_read_is_named(text, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="environment variable TF_CONFIG"):
        training.train(trees(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_is_built_before_it_gets_the_data_of_devices():
    examples = rings([3, 4], 0)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    with strategy.scope():
        model = build_model("rgcn", examples.schema, units=4, steps=1, label="node/label")
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    batches = data.Batches(examples, 2, label="node/label").distributed(strategy)
    for use in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"call `model\.build_for_data\(batches\.dataset\(\)\)`"):
            use(batches)


def test_on_one_device_nothing_is_done():
    value, gradients = tf.constant([1.0, 2.0]), [tf.constant([3.0]), None]
    assert replicas.number() == 1
    assert replicas.sum_over(value) is value
    assert [a is b for a, b in zip(replicas.sum_to_first(gradients), gradients, strict=True)] == [True, True]
    assert replicas.logs({"loss": value})["loss"] is value
    assert float(replicas.share(tf.constant(7))) == 1.0


def test_a_batch_without_questions_has_a_share_that_is_a_number():
    assert np.isfinite(float(replicas.share(tf.constant(0.0))))
