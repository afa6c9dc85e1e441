import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sggnn_tf import training
from sggnn_tf.data import export
from tests.training import runs

CONFIG = runs.recall("sggnn-rv-gat", patience=9)
KILLED = """
import json, sys
from sggnn_tf import training
training.train(training.Config(**json.loads(sys.argv[1])), sys.argv[2], resume=True)
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    training.train(CONFIG, folder)
    return folder


def stop_and_go_on(config, folder, *places):
    for place in places:
        with pytest.raises(KeyboardInterrupt):
            training.train(config, folder, resume=True, callbacks=[runs.StopAt(*place)])
    return training.train(config, folder, resume=True)


def test_a_run_that_was_stopped_anywhere_ends_with_the_same_weights(uninterrupted, tmp_path, caplog):
    random = np.random.default_rng(int.from_bytes(os.urandom(4)))
    places = [(int(random.integers(0, 2)), int(random.integers(0, 6))), (3, int(random.integers(0, 6)))]
    print("stopped at", places)
    for place in places:
        with pytest.raises(KeyboardInterrupt):
            training.train(CONFIG, tmp_path, resume=True, callbacks=[runs.StopAt(*place)])
    _, last = sorted((tmp_path / "checkpoints").iterdir())
    last.write_bytes(last.read_bytes()[:-100])
    training.train(CONFIG, tmp_path, resume=True)
    assert "is damaged; the checkpoint before it is used" in caplog.text
    runs.assert_same_run(uninterrupted, tmp_path)


def test_the_same_on_trees_with_batches_of_several_shapes(tmp_path):
    training.train(runs.trees(epochs=3), tmp_path / "whole")
    stop_and_go_on(runs.trees(epochs=3), tmp_path / "stopped", (1, 0))
    runs.assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_the_same_with_xla(tmp_path):
    config = runs.recall(jit=True, epochs=2)
    training.train(config, tmp_path / "whole")
    stop_and_go_on(config, tmp_path / "stopped", (1, 2))
    runs.assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_within_the_patience_of_early_stopping(tmp_path):
    config = runs.recall(learning_rate=1e-7, epochs=12, patience=4)
    whole = training.train(config, tmp_path / "whole")
    assert 4 < whole["epochs"] < 12
    again = stop_and_go_on(config, tmp_path / "stopped", (whole["epochs"] - 2, 1))
    assert again["best_epoch"] == whole["best_epoch"]
    runs.assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_a_disk_that_fills_up_leaves_the_last_good_checkpoint(tmp_path, monkeypatch):
    from sggnn_tf.training import checkpoints

    write = checkpoints.write_whole

    def full(path, content):
        if path.name.startswith("00003"):
            raise ValueError(f"{path} cannot be written: no space left on device")
        write(path, content)

    monkeypatch.setattr(checkpoints, "write_whole", full)
    config = runs.recall(patience=9)
    with pytest.raises(ValueError, match="no space left"):
        training.train(config, tmp_path)
    monkeypatch.undo()
    before = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    result = training.train(config, tmp_path, resume=True)
    assert [epoch["loss"] for epoch in result["history"][:3]] == [line["loss"] for line in before]
    assert result["epochs"] == 4


def test_after_kill_9_too(uninterrupted, tmp_path):
    arguments = [sys.executable, "-c", KILLED, json.dumps(CONFIG.to_dict()), str(tmp_path)]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list((tmp_path / "checkpoints").glob("0000[12]*")) and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "result.json").exists()
    training.train(CONFIG, tmp_path, resume=True)
    runs.assert_same_run(uninterrupted, tmp_path)


def test_on_records_of_ones_own(tmp_path):
    config = runs.trees(epochs=1)
    export({split: each for split, each in config.examples().items() if split != "test"}, str(tmp_path / "data"))
    own = training.for_data(tmp_path / "data", "rgcn", units=8, steps=2, epochs=2, label="node/value", batch_size=16)
    result = training.train(own, tmp_path / "run")
    assert "test" not in result
    assert result["valid"]["questions"] > result["valid"]["graphs"]


def test_a_split_that_is_missing_is_named(tmp_path):
    export({"train": runs.trees().examples()["train"]}, str(tmp_path / "data"))
    config = training.for_data(tmp_path / "data", "rgcn", label="node/value")
    with pytest.raises(ValueError, match="has no split 'valid'"):
        training.train(config, tmp_path / "run")
