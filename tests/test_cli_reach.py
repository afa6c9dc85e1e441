"""`sggnn reach`, and `sggnn evaluate` on longer strings."""

import json

import matplotlib.image
import pytest

from sggnn_tf import training
from tests.training import runs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    training.train(runs.recall("sggnn-rv-gat", epochs=1), folder)
    return folder


@pytest.fixture(autouse=True)
def _here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def is_a_picture(path):
    return min(matplotlib.image.imread(path).shape[:2]) > 200


def test_models_are_measured_at_the_start(run, tmp_path):
    arguments = (
        "reach conditional_recall --length 3 --models rgcn,sggnn-rv-gat --seeds 1,2 --probes 2 --out kept/r.json"
    )
    code, printed, said = run(*arguments.split())
    assert code == 0, said
    assert "radius" in printed
    assert "sggnn-rv-gat" in printed
    kept = json.loads((tmp_path / "kept" / "r.json").read_text())
    assert list(kept["reach"]) == ["rgcn", "sggnn-rv-gat"]
    assert sorted(kept["reach"]["rgcn"]["0"]["by_hop"]) == ["0", "1", "2"]
    assert (kept["seeds"], kept["probes"], kept["task_arguments"]) == ([1, 2], 2, {"length": 3})
    assert is_a_picture("reach.png")


def test_the_model_of_a_run_is_measured_exactly(run, trained):
    code, printed, said = run("reach", "--run", trained, "--json")
    assert code == 0, said
    measured = json.loads(printed)
    assert measured["probes"] is None
    assert list(measured["reach"]["sggnn-rv-gat"]) == ["1"]


def test_attention_is_drawn_for_a_run_and_for_a_new_model(run, trained):
    code, printed, said = run("reach", "--run", trained, "--attention", "a8cDe", "--picture", "a.png")
    assert code == 0, said
    assert is_a_picture("a.png")
    assert "not trained" not in printed
    code, printed, _ = run("reach", "--attention", "a8c", "--models", "sggnn-rv-mean", "--picture", "b.png")
    assert code == 0
    assert "not trained" in printed
    assert is_a_picture("b.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--probes", "-1"], "--probes is -1"),
        (["--epochs", "-1"], "--epochs is '-1'"),
        (["--attention", "a!"], "the character '!'"),
        (["--attention", "ab", "--models", "rgcn,ggnn"], "--attention draws one model"),
        (["--run", "nowhere"], "There is no run in nowhere"),
        (["tree_mx"], "Did you mean tree_max?"),
    ],
)
def test_what_is_wrong_is_said(arguments, message, run):
    code, _, said = run("reach", *arguments)
    assert code == 2
    assert message in said


def test_a_run_is_measured_on_longer_strings(run, trained, tmp_path):
    code, printed, said = run("evaluate", trained, "--lengths", "4,6", "--out", "longer.json")
    assert code == 0, said
    assert [each["steps"] for each in json.loads((tmp_path / "longer.json").read_text())["longer"]] == [5, 7]
    assert "│ 6 " in printed
    code, _, said = run("evaluate", trained, "--out", "x.json")
    assert code == 2
    assert "--out cannot be given here" in said
