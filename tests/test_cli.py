"""The command line."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sggnn_tf import data, doctor, tasks
from sggnn_tf.cli import app, main
from sggnn_tf.models import MODELS


def test_doctor_reports_and_fails_if_a_check_fails(monkeypatch):
    findings = [doctor.Finding("one", "well", True), doctor.Finding("two", "badly", False)]
    monkeypatch.setattr(doctor, "checks", lambda: iter(findings))
    result = CliRunner().invoke(app, ["doctor", "--json"])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert [check["is_fine"] for check in report["checks"]] == [True, False]
    assert report["versions"]["keras"].startswith("3.")
    assert report["devices"][0] == "CPU"


def test_doctor_finds_this_installation_fine():
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    assert result.output.count("ok ") == 4


def test_models_lists_parts_and_parameters():
    listed = json.loads(CliRunner().invoke(app, ["models", "--units", "20", "--relations", "4", "--json"]).stdout)
    by_name = {model["name"]: model for model in listed["models"]}
    assert list(by_name) == list(MODELS)
    ours = by_name["sggnn-rv-gat"]
    assert (ours["message"], ours["aggregation"], ours["update"]) == ("GatedMessage", "Attention", "SymmetricGRUUpdate")
    assert ours["parameters"] == 19 * 20**2 + 4 * 20 + 8 * 20
    assert {"dropout", "gate_bias", "neighbour_bias", "num_heads"} <= set(ours["switches"])
    assert by_name["rgat"]["steps"] == "separate"
    table = CliRunner().invoke(app, ["models"], env={"COLUMNS": "120"}).output
    assert all(name in table for name in MODELS)
    assert "191,100" in table


def test_bad_input_is_one_sentence():
    program = "from sggnn_tf.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, "models", "--units", "7"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "Error: " in run.stderr
    assert "a width of 7 cannot be divided among 2 heads" in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(("command", "example"), [("doctor", "sggnn doctor"), ("models", "sggnn models --units 150")])
def test_help_has_an_example(command, example):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: {example}" in result.output
    assert command in CliRunner().invoke(app, ["--help"]).output


def test_dataset_writes_records_and_prints_the_card(tmp_path):
    arguments = ["conditional_recall", "--length", "4", "--examples-per-class", "2", "--letters", "62", "--seed", "5"]
    result = CliRunner().invoke(
        app, ["dataset", *arguments, "--out", str(tmp_path / "data"), "--shards", "2", "--json"]
    )
    card = json.loads(result.stdout)
    assert card == data.read_card(tmp_path / "data")
    assert card["arguments"] == {"seed": 5, "length": 4, "examples_per_class": 2, "letters": 62}
    task = tasks.ConditionalRecall(length=4, examples_per_class=2, letters=62, seed=5)
    assert data.read(tmp_path / "data")["test"].records.tolist() == data.generate(task)["test"].records.tolist()


def test_dataset_draws_examples(tmp_path):
    path = tmp_path / "trees.png"
    arguments = ["dataset", "tree_max", "--show", "2", "--max-depth", "6", "--picture", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tree_mx"], "Did you mean tree_max?"),
        (["tree_max", "--length", "3"], "no argument 'length'"),
        (["tree_max"], "nothing to do"),
        (["tree_max", "--branching", "a,b", "--show", "1"], "--branching is 'a,b'"),
        (["conditional_recall", "--length", "1", "--show", "1"], "length is 1"),
        (["conditional_recall", "--out", "."], "--force"),
    ],
)
def test_dataset_says_what_is_wrong(arguments, message, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sggnn", "dataset", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
