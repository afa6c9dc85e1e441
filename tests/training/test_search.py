import json
import math

import pytest

from sggnn_tf import tasks
from sggnn_tf.models import MODELS
from sggnn_tf.training import cells, search, tables

RANGES = {"units": (100, 120, 150, 200), "dropout": (0.0, 0.1, 0.2, 0.3), "steps": (4, 7)}
TREES = tasks.make("tree_max")


def test_the_same_seed_draws_the_same_and_another_seed_others():
    assert search.sample(RANGES, 8, seed=1) == search.sample(RANGES, 8, seed=1)
    assert search.sample(RANGES, 8, seed=1) != search.sample(RANGES, 8, seed=2)


def test_more_trials_begin_with_the_ones_before():
    drawn = search.sample(RANGES, 12, seed=1)
    assert len(drawn) == 12
    for count in range(12):
        assert search.sample(RANGES, count, seed=1) == drawn[:count]


@pytest.mark.parametrize("seed", range(5))
def test_no_two_are_the_same_and_none_is_outside_its_range(seed):
    drawn = search.sample(RANGES, 20, seed)
    assert len({tuple(sorted(settings.items())) for settings in drawn}) == 20
    for settings in drawn:
        assert settings.keys() == RANGES.keys()
        assert all(settings[name] in values for name, values in RANGES.items())


def test_every_value_comes_at_some_time():
    drawn = search.sample(RANGES, 24, seed=1)
    assert {name: {settings[name] for settings in drawn} for name in RANGES} == {
        name: set(values) for name, values in RANGES.items()
    }


def test_it_ends_when_there_are_no_more():
    everything = math.prod(map(len, RANGES.values()))
    assert len(search.sample(RANGES, 1000, seed=1)) == everything
    assert len(search.trial_cells("tree_max", ["sggnn-rm-gat", "rgcn"], 1000)) == 3 + 3


def test_all_models_try_the_same_values():
    wide = {"units": range(1000), "dropout": range(1000)}  # So wide that nothing is drawn twice.
    alone = search.sample(wide, 10, seed=1)
    with_steps = search.sample({"steps": (1, 2, 3), **wide}, 10, seed=1)
    assert [{name: settings[name] for name in wide} for settings in with_steps] == alone
    first = {
        model: next(cell for cell in search.trial_cells("tree_max", MODELS, 1) if cell.model == model)
        for model in MODELS
    }
    assert {tuple(cell.settings.items()) for cell in first.values()} == {tuple(first["rgcn"].settings.items())}


def test_trials_are_in_turn_with_the_seed_and_the_settings_of_the_search():
    trials = search.trial_cells(
        "conditional_recall",
        ["ggnn", "rgat"],
        2,
        seed=7,
        task_arguments={"length": 5},
        settings={"epochs": 3, "dropout": 0.9},
    )
    assert [(cell.model, cell.variant) for cell in trials] == [
        ("ggnn", "length5-trial000"),
        ("rgat", "length5-trial000"),
        ("ggnn", "length5-trial001"),
        ("rgat", "length5-trial001"),
    ]
    assert {(cell.seed, cell.task_arguments["seed"], cell.settings["epochs"]) for cell in trials} == {(7, 7, 3)}
    ranges = tasks.make("conditional_recall", length=5).ranges("rgat")
    for cell in trials:  # What is searched for goes before what is given for all.
        assert cell.settings["dropout"] in ranges["dropout"]


@pytest.mark.parametrize("seed", tables.SEEDS)
def test_a_seed_of_the_tables_is_refused(seed):
    with pytest.raises(ValueError, match=f"{seed} is one of the tables'"):
        search.trial_cells("tree_max", ["rgcn"], 1, seed=seed)


def test_the_ranges_of_all_models_are_of_settings_they_have():
    for task in (TREES, tasks.make("conditional_recall")):
        for model in MODELS:
            for settings in search.sample(task.ranges(model), 3, seed=1):
                cells.for_task(task.name, model, **settings)


class Results:
    """Stands for training: its trials do better on `test` the worse they do on `valid`."""

    def __init__(self):
        self.ran = []

    def train(self, config, workdir, **options):
        self.ran.append(workdir.name)
        number = int(workdir.name.split("trial")[1][:3])
        valid, loss = ((0.5, 1.0), (0.7, 3.0), (0.7, 2.0), (0.6, 0.1))[number]
        return {
            "config": config.to_dict(),
            "best_epoch": 2,
            "history": [{"val_loss": 9.0 - loss}, {"val_loss": loss}, {"val_loss": 0.0}],
            "valid": {"accuracy": valid},
            "test": {"accuracy": 1 - valid},
        }


@pytest.fixture
def results(monkeypatch):
    fake = Results()
    monkeypatch.setattr(cells, "train", fake.train)
    return fake


def test_the_best_is_best_on_valid_then_by_loss_and_never_by_test(results, tmp_path):
    trials = search.trial_cells("conditional_recall", ["ggnn"], 4)
    cells.run_cells(trials, tmp_path / "out", tmp_path / "runs")
    found = search.best_first(trials, tmp_path / "out")
    assert [(trial.accuracy, trial.loss) for trial in found] == [(0.7, 2.0), (0.7, 3.0), (0.6, 0.1), (0.5, 1.0)]
    assert [trial.settings for trial in found] == [trials[place].settings for place in (2, 1, 3, 0)]


def test_what_test_says_changes_nothing(results, tmp_path):
    trials = search.trial_cells("conditional_recall", ["ggnn"], 4)
    cells.run_cells(trials, tmp_path / "out", tmp_path / "runs")
    before = search.best_first(trials, tmp_path / "out")
    for cell in trials:
        path = cell.path(tmp_path / "out")
        path.write_text(
            json.dumps({name: each for name, each in json.loads(path.read_text()).items() if name != "test"})
        )
    assert search.best_first(trials, tmp_path / "out") == before


def test_trials_that_are_done_are_not_run_again_and_more_can_be_added(results, tmp_path):
    for count in (2, 2, 4):
        cells.run_cells(search.trial_cells("conditional_recall", ["ggnn"], count), tmp_path / "out", tmp_path / "runs")
    assert results.ran == [f"trial{number:03d}-seed1" for number in range(4)]


def test_a_result_of_other_settings_is_not_taken_for_this_one(results, tmp_path):
    for epochs in (2, 2):
        trials = search.trial_cells("conditional_recall", ["ggnn"], 1, settings={"epochs": epochs})
        cells.run_cells(trials, tmp_path / "out", tmp_path / "runs")
    trials = search.trial_cells("conditional_recall", ["ggnn"], 1, settings={"epochs": 200})
    with pytest.raises(ValueError, match="epochs"):
        cells.run_cells(trials, tmp_path / "out", tmp_path / "runs")


def test_trials_that_are_not_done_are_left_out(results, tmp_path):
    trials = search.trial_cells("conditional_recall", ["ggnn"], 4)
    assert search.best_first(trials, tmp_path) == []
    cells.run_cells(trials[:3], tmp_path, tmp_path / "runs")
    assert len(search.best_first(trials, tmp_path)) == 3


def test_a_damaged_result_is_named(results, tmp_path):
    trials = search.trial_cells("conditional_recall", ["ggnn"], 1)
    cells.run_cells(trials, tmp_path, tmp_path / "runs")
    trials[0].path(tmp_path).write_text('{"config": ')
    with pytest.raises(ValueError, match=r"ggnn/trial000-seed1\.json is no result of a run"):
        search.best_first(trials, tmp_path)
