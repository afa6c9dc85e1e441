"""The command line."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sggnn_tf import doctor
from sggnn_tf.cli import app
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
