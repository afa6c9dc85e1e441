import json
import multiprocessing
import shutil

import keras
import numpy as np
import pytest

from sggnn_tf import training
from sggnn_tf.training import run as runs_module
from tests.training import runs


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "work"
    training.train(runs.recall(), folder)
    return folder


@pytest.fixture
def copied(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_run_leaves_all_its_files(finished):
    names = {path.name for path in finished.iterdir()}
    expected = {
        "config.json",
        "metrics.jsonl",
        "checkpoints",
        "tensorboard",
        "curves.png",
        "result.json",
        "model.keras",
    }
    assert expected <= names
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
    assert {"loss", "accuracy", "val_loss", "val_accuracy", "seconds", "graphs_per_second"} <= set(lines[0])
    config = json.loads((finished / "config.json").read_text())
    assert config["config"]["seed"] == 0
    assert config["versions"]["keras"] == keras.__version__
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((finished / "checkpoints").iterdir())) <= 2
    assert any((finished / "tensorboard").rglob("events*"))


def test_the_weights_are_those_of_the_best_epoch(finished):
    result = json.loads((finished / "result.json").read_text())
    best = max(epoch["val_accuracy"] for epoch in result["history"])
    assert result["history"][result["best_epoch"] - 1]["val_accuracy"] == best
    np.testing.assert_allclose(result["valid"]["accuracy"], best, atol=1e-6)


def test_evaluate_measures_the_same_again(finished):
    result = json.loads((finished / "result.json").read_text())
    assert training.evaluate(finished) == {split: result[split] for split in ("valid", "test")}


def test_fit_by_hand_gives_the_same(finished):
    config = runs.recall()
    keras.utils.set_random_seed(config.seed)
    examples = config.examples()
    batches = training.make_batches(config, examples)
    model = training.make_model(config, examples["train"].schema)
    history = model.fit(
        batches["train"].dataset(),
        validation_data=batches["valid"].dataset(),
        epochs=2,
        verbose=0,
        callbacks=[training.learning_rates(config)],
    )
    result = json.loads((finished / "result.json").read_text())
    for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
        assert history.history[name] == [epoch[name] for epoch in result["history"][:2]]


def test_the_same_seed_gives_the_same_run(finished, tmp_path):
    training.train(runs.recall(), tmp_path)
    runs.assert_same_run(finished, tmp_path)


def test_a_finished_run_is_not_run_again(finished):
    before = (finished / "result.json").read_text()
    assert training.train(runs.recall(), finished, resume=True) == json.loads(before)
    assert (finished / "result.json").read_text() == before


def test_a_folder_with_a_run_is_refused_unless_it_is_resumed(finished):
    with pytest.raises(ValueError, match="holds a run already"):
        training.train(runs.recall(), finished)


def test_a_run_goes_on_with_the_same_settings_and_versions_only(copied):
    with pytest.raises(ValueError, match=r"another learning_rate: 0\.003, not 0\.5"):
        training.train(runs.recall(learning_rate=0.5), copied, resume=True)
    config = json.loads((copied / "config.json").read_text())
    config["versions"]["tensorflow"] = "1.0"
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"another tensorflow: '1\.0'"):
        training.train(runs.recall(), copied, resume=True)


def hold(folder, is_held, is_over):
    with runs_module._alone_in(folder):
        is_held.set()
        is_over.wait()


def test_two_runs_in_one_folder_are_one_too_many(tmp_path):
    context = multiprocessing.get_context("fork")
    is_held, is_over = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, is_held, is_over))
    other.start()
    is_held.wait()
    try:
        with pytest.raises(ValueError, match="Another run is using"):
            training.train(runs.recall(), tmp_path)
    finally:
        is_over.set()
        other.join()


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_weights(tmp_path):
    class Spoil(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                self.model.head.bias.assign(self.model.head.bias * np.nan)

    with pytest.raises(training.TrainingStoppedError, match=r"epoch 3, step 1\..*learning rate.*epoch 2 are in"):
        training.train(runs.recall(patience=9), tmp_path, callbacks=[Spoil()])
    assert not (tmp_path / "result.json").exists()
    result = training.train(runs.recall(patience=9), tmp_path, resume=True)
    assert np.isfinite([epoch["loss"] for epoch in result["history"]]).all()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file/run cannot be written"):
        training.train(runs.recall(), tmp_path / "file" / "run")


def test_there_is_no_run_to_read(tmp_path):
    with pytest.raises(ValueError, match="no run in"):
        training.read_config(tmp_path)


def test_an_unfinished_run_cannot_be_evaluated(copied):
    (copied / "result.json").unlink()
    with pytest.raises(ValueError, match="not finished"):
        training.evaluate(copied)


def test_gradients_of_several_batches_make_a_step(tmp_path):
    result = training.train(runs.recall(accumulate=2, epochs=1), tmp_path)
    assert np.isfinite(result["history"][0]["loss"])


def test_the_best_epoch_is_the_most_accurate_and_of_equals_the_one_with_the_lowest_loss(finished):
    result = json.loads((finished / "result.json").read_text())
    places = range(len(result["history"]))
    best = max(places, key=lambda at: (result["history"][at]["val_accuracy"], -result["history"][at]["val_loss"]))
    assert result["best_epoch"] == best + 1


def test_of_equal_accuracies_the_lower_loss_is_chosen():
    logs = [{"val_accuracy": 0.5, "val_loss": 3.0}, {"val_accuracy": 0.5, "val_loss": 2.9}]
    logs += [{"val_accuracy": 0.4999, "val_loss": 0.1}]
    for each in logs:
        runs_module._Chosen().on_epoch_end(0, each)
    assert logs[1][runs_module.CHOSEN_BY] > logs[0][runs_module.CHOSEN_BY] > logs[2][runs_module.CHOSEN_BY]


def test_weights_that_no_gradient_holds_decay_by_the_learning_rate_times_what_is_asked_for():
    config = runs.recall(learning_rate=0.1, weight_decay=2.0)
    examples = config.examples()
    model = training.make_model(config, examples["train"].schema)
    model.build_for_data(training.make_batches(config, examples)["train"].dataset())
    before = model.get_weights()
    model.optimizer.apply([np.zeros(weight.shape, "float32") for weight in model.trainable_variables])
    for weight, was in zip(model.get_weights(), before, strict=True):
        np.testing.assert_allclose(weight, 0.8 * was, rtol=1e-5)
