"""What the README and the guides show is what runs."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from sggnn_tf import doctor, tfgnn
from sggnn_tf.cli import app
from sggnn_tf.models import registry
from sggnn_tf.serving.local import serve

ROOT = Path(__file__).parent.parent


def blocks(path, language="python"):
    """The code of a document, each with the comment before it."""
    pattern = rf"(?:<!-- ([^>]*?) -->\n)?```{language}\n(.*?)```"
    return re.findall(pattern, (ROOT / path).read_text(), re.DOTALL)


EXAMPLES = [code for comment, code in blocks("README.md") if comment != "client"]


@pytest.mark.parametrize("code", EXAMPLES, ids=["fit", "models", "data", "subclass"])
def test_the_code_of_the_readme(code, monkeypatch):
    monkeypatch.setattr(doctor, "RINGS", 64)
    space = {}
    exec(compile(code, "README.md", "exec"), space)
    assert "model" not in space or space["model"].built


def test_the_code_of_the_models_guide():
    space = {}
    for _, code in blocks("docs/models.md"):
        exec(compile(code, "docs/models.md", "exec"), space)
    graph = tfgnn.random_graph_tensor(tfgnn.create_graph_spec_from_schema_pb(space["schema"]), row_lengths_range=(2, 5))
    assert space["model"].built
    states = tf.zeros([graph.node_sets["char"].total_size, 120])
    graph = graph.replace_features(node_sets={"char": {tfgnn.HIDDEN_STATE: states}})
    assert space["encoder"](graph).node_sets["char"][tfgnn.HIDDEN_STATE].shape[1] == 120


def test_the_commands_and_the_code_of_the_data_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (_, commands), (_, on_many_workers) = blocks("docs/data.md", "bash")
    for line in commands.splitlines():
        arguments = shlex.split(line, comments=True)
        assert CliRunner().invoke(app, arguments[1:]).exit_code == 0, line
    known = CliRunner().invoke(app, ["dataset", "--help"], env={"COLUMNS": "200"}).output
    assert all(option in known for option in re.findall(r"--[a-z]+", on_many_workers))
    space = {}
    for _, code in blocks("docs/data.md"):
        exec(compile(code, "docs/data.md", "exec"), space)
    assert str(space["train"]) == re.search("^# (976 graphs.*)$", (ROOT / "docs/data.md").read_text(), re.MULTILINE)[1]
    assert space["model"].built
    assert sum(1 for _ in space["graphs"]) == 400
    assert (tmp_path / "conditional_recall.png").stat().st_size > 10_000


def test_the_code_and_the_options_of_the_training_guide():
    ((_, code),) = blocks("docs/training.md")
    space = {}
    exec(compile(code, "docs/training.md", "exec"), space)
    assert space["model"].compiled
    for _, command in blocks("docs/training.md", "bash"):
        name, *options = re.findall(r"^sggnn ([a-z]+)|(--[a-z]+)", command, re.MULTILINE)
        known = CliRunner().invoke(app, [name[0], "--help"], env={"COLUMNS": "200"}).output
        assert all(option in known for _, option in options), command


def test_the_code_of_the_serving_guide_and_the_clients_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ((_, code),) = blocks("docs/serving.md")
    code = code.replace("units=100, steps=6", "units=8, steps=2")
    space = {}
    exec(compile(code, "docs/serving.md", "exec"), space)
    with serve("served/recall") as server:
        (curl,) = (code for comment, code in blocks("README.md", "bash") if comment == "curl")
        answer = subprocess.run(shlex.split(curl.replace("http://localhost:8501", server.rest)), capture_output=True)
        (client,) = (code for comment, code in blocks("README.md") if comment == "client")
        exec(compile(client.replace("localhost:8500", server.grpc), "README.md", "exec"), space)
    (prediction,) = json.loads(answer.stdout)["predictions"]
    assert prediction["label"].encode() == space["labels"][0]
    assert len(space["labels"]) == 2


def test_the_options_of_the_serving_guide():
    for _, commands in blocks("docs/serving.md", "bash"):
        for command in commands.splitlines():
            name, *options = re.findall(r"^sggnn ([a-z]+)|(--[a-z]+)", command)
            known = CliRunner().invoke(app, [name[0], "--help"], env={"COLUMNS": "200"}).output
            assert all(option in known for _, option in options), command


def test_the_table_of_parameters():
    table = dict(re.findall(r"\| `([a-z-]+)` \| [^|]* \| (\d+,[\d,]+) \|", (ROOT / "docs/models.md").read_text()))
    expected = {name: f"{registry.update_parameters(name, 150, 7):,}" for name in registry.MODELS}
    assert table == expected


def test_migration_before_and_after():
    code = dict(blocks("docs/migration.md"))
    spec = tfgnn.create_graph_spec_from_schema_pb(
        tfgnn.parse_schema("""
          node_sets { key: "paper" value {
            features { key: "id" value { dtype: DT_STRING } }
            features { key: "words" value { dtype: DT_FLOAT shape { dim { size: 4 } } } } } }
          edge_sets { key: "cites" value { source: "paper" target: "paper" } } """)
    )
    spaces = [{"graph_spec": spec, "tf": tf, "tfgnn": tfgnn} for _ in range(2)]
    for name, space in zip(("before", "after"), spaces, strict=True):
        exec(compile(code[name], f"migration.md, {name}", "exec"), space)
    before, after = (space["model"] for space in spaces)
    assert isinstance(after, keras.Model)
    assert not isinstance(before, keras.Model)
    assert [weight.shape for weight in before.weights] == [weight.shape for weight in after.weights]
    after.set_weights(before.get_weights())
    graph = tfgnn.random_graph_tensor(spec, row_lengths_range=(3, 9))
    np.testing.assert_allclose(before(graph), after(graph), rtol=1e-6, atol=1e-6)


def test_links_and_files_exist():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert target.startswith("http") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_continuous_integration_runs_the_command_of_the_readme():
    (command,) = (code for comment, code in blocks("README.md", "bash") if comment == "test command")
    assert "pytest" in command
    assert "<!-- test command -->" in (ROOT / ".ci/run").read_text()
