"""The command line."""

import json

import pytest
from typer.testing import CliRunner

from sggnn_tf import doctor
from sggnn_tf.cli import app


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


@pytest.mark.parametrize("command", [[], ["doctor"]])
def test_help(command):
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example: sggnn doctor" in result.output if command else "doctor" in result.output
