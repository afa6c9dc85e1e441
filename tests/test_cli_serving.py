"""The commands that export, check, serve and ask a model, on a tiny run."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from typer.testing import CliRunner

from sggnn_tf.cli import app
from sggnn_tf.data.codec import Codec
from sggnn_tf.serving.client import ask_records, ask_texts, connect
from sggnn_tf.serving.local import serve
from tests.serving import exports

SGGNN = str(Path(sys.executable).with_name("sggnn"))
TREE = "(1 (2 (3 ) (4 )) (5 ))"


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("run") / "work"
    options = "--model rgcn --length 3 --argument examples_per_class=2 --units 8 --steps 2 --epochs 1"
    result = CliRunner().invoke(app, ["train", "conditional_recall", *options.split(), "--workdir", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def exported(workdir, tmp_path_factory):
    """What `sggnn export` says, and the folder of the served model."""
    folder = tmp_path_factory.mktemp("models") / "recall"
    result = CliRunner().invoke(app, ["export", str(workdir), "--out", str(folder)], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    return result.output, folder


@pytest.fixture(scope="module")
def served(exported):
    with serve(exported[1]) as server:
        yield server


def test_export_writes_a_version_with_the_figures_of_the_run(exported, workdir):
    said, folder = exported
    assert f"Exported and checked: {folder / '1'}" in said
    card = json.loads((folder / "1" / "model.json").read_text())
    result = json.loads((workdir / "result.json").read_text())
    assert card["name"] == "recall"
    assert card["config"] == result["config"]
    assert card["config"]["task_arguments"]["length"] == 3
    assert card["metrics"] == {"valid": result["valid"], "test": result["test"]}
    assert card["signatures"].keys() == {"serving_default", "graph_tensors", "text"}


def test_export_of_a_folder_without_a_run_is_said(run, tmp_path):
    code, _, said = run("export", tmp_path, "--out", tmp_path / "m")
    assert code == 2
    assert said.startswith("Error: ")
    assert f"There is no run in {tmp_path}" in said
    assert not (tmp_path / "m").exists()


def test_verify_passes_the_newest_version(exported, run):
    code, said, _ = run("verify", exported[1])
    assert (code, said) == (0, f"{exported[1] / '1'} passes: TF Serving's runtime gives the answers of the live model.")


def test_verify_of_a_damaged_version_fails(exported, run, tmp_path):
    shutil.copytree(exported[1], tmp_path / "damaged")
    path = tmp_path / "damaged" / "1" / "variables" / "variables.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    code, _, said = run("verify", tmp_path / "damaged")
    assert code == 2
    assert "does not pass" in said
    assert "variables/variables.data-00000-of-00001 is not as it was written." in said


@pytest.mark.parametrize("command", [["verify"], ["serve"], ["predict"]])
def test_a_folder_without_a_model_is_said(command, run, tmp_path):
    code, _, said = run(*command, tmp_path, *(["ab"] if command == ["predict"] else []))
    assert code == 2
    assert f"There is no exported model in {tmp_path}" in said


def predictions(*arguments):
    result = CliRunner().invoke(app, ["predict", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("way", ["folder", "grpc", "rest", "rest with the name"])
def test_predict_answers_strings(way, exported, served):
    target = {
        "folder": [exported[1]],
        "grpc": [served.grpc, "--name", "recall"],
        "rest": [served.rest, "--name", "recall"],
        "rest with the name": [f"{served.rest}/v1/models/recall"],
    }[way]
    first, second = predictions(*target, "a8c", "xyzabc")
    with connect(served.grpc, "recall") as client:
        expected = ask_texts(client, ["a8c", "xyzabc"])
    assert [each["input"] for each in (first, second)] == ["a8c", "xyzabc"]
    assert [each["prediction"] for each in (first, second)] == [each.predictions for each in expected]
    assert [each["label"] for each in (first, second)] == [each.labels for each in expected]
    assert [each["confidence"] for each in (first, second)] == [
        pytest.approx(e.confidences, rel=1e-4) for e in expected
    ]
    assert (first["within_reach"], second["within_reach"]) == (True, False)


def test_predict_prints_answers_for_people(served, run):
    with connect(served.grpc, "recall") as client:
        short, long = ask_texts(client, ["a8c", "xyzabc"])
    code, said, _ = run("predict", served.grpc, "a8c", "xyzabc", "--name", "recall")
    assert code == 0
    assert (
        f"a8c → {short.labels[0]} {short.confidences[0]:.1%} xyzabc → {long.labels[0]} {long.confidences[0]:.1%}"
        in said
    )
    assert said.endswith("(longer than the model's steps can carry)")


def test_predict_answers_strings_as_graphs_of_the_task(served):
    target = [served.grpc, "--name", "recall"]
    (by_text,) = predictions(*target, "a8c")
    (by_graph,) = predictions(*target, "a8c", "--task", "conditional_recall")
    assert by_graph["prediction"] == by_text["prediction"]
    assert "within_reach" not in by_graph


def test_predict_answers_trees():
    record = Codec(exports.task_schema(exports.TREES)).encode(exports.TREES.from_text(TREE))
    with serve(exports.trees().version) as server:
        (found,) = predictions(server.grpc, TREE, "--name", "trees")
        result = CliRunner().invoke(app, ["predict", f"{server.rest}/v1/models/trees", TREE], env={"COLUMNS": "60"})
        with connect(server.grpc, "trees") as client:
            (expected,) = ask_records(client, [record])
    assert found["input"] == TREE
    assert found["prediction"] == expected.predictions
    assert len(found["prediction"]) == len(found["confidence"]) == 5
    one, two, three, four, five = expected.labels
    answer = f"({one} ({two} ({three} ) ({four} )) ({five} ))"
    assert f"{TREE} → {answer}  at least {min(expected.confidences):.1%}" in result.output


@pytest.mark.parametrize("ending", [".tfrecord", ".tfrecord.gz"])
def test_predict_answers_a_file_of_records(ending, served, tmp_path):
    path = tmp_path / f"some{ending}"
    texts = ["a8c", "abc", "Xy"]
    options = tf.io.TFRecordOptions(compression_type="GZIP" if ending.endswith("gz") else "")
    with tf.io.TFRecordWriter(str(path), options) as file:
        for record in exports.records(*texts):
            file.write(record)
    found = predictions(served.grpc, path, "--name", "recall")
    assert [each["input"] for each in found] == [f"{path}:{number}" for number in range(3)]
    with connect(served.grpc, "recall") as client:
        assert [each["label"] for each in found] == [each.labels for each in ask_texts(client, texts)]


def test_predict_writes_answers_to_many_records(exported, tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "test-0.tfrecord")) as file:
        for record in exports.records("a8c", "abc"):
            file.write(record)
    arguments = ["--records", str(tmp_path / "test-*.tfrecord"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["predict", str(exported[1]), *arguments])
    assert result.exit_code == 0, result.output
    assert "1 files of answers in" in result.output
    lines = (tmp_path / "out" / "test-0.tfrecord.jsonl").read_text().splitlines()
    assert [json.loads(line)["record"] for line in lines] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ADDRESS", "a?c", "--name", "recall"], "the character ? at place 1 is not in the vocabulary"),
        (["ADDRESS", "abc", "--name", "recal"], "There is no model 'recal' here"),
        (["ADDRESS", "abc"], "Say which model, by --name NAME"),
        (["ADDRESS"], "Give inputs, or files of records by --records, and not both"),
        (["ADDRESS", "abc", "--records", "x"], "Give inputs, or files of records by --records, and not both"),
        (["ADDRESS", "--records", "x"], "--records needs --out"),
        (["nowhere", "abc"], "nowhere is neither a folder nor an address"),
        (["ADDRESS", "(1 (2 )", "--name", "recall"], "is no tree"),
        (["ADDRESS", "[/b]", "--name", "recall"], "the character [ at place 0"),
        (["ADDRESS", "", "--name", "recall"], "the graph is empty"),
        (["ADDRESS", "abc", "--task", "tree_mx", "--name", "recall"], "Did you mean tree_max?"),
    ],
)
def test_predict_says_what_is_wrong(arguments, message, served, run):
    code, _, said = run("predict", *(served.grpc if each == "ADDRESS" else each for each in arguments))
    assert code == 2
    assert said.startswith("Error: ")
    assert message in said


def test_serve_prints_addresses_and_ends_on_ctrl_c(exported):
    folder = exported[1]
    command = [SGGNN, "serve", str(folder), "--grpc-port", "0", "--rest-port", "0"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()[-2000:]
        said = "".join(lines)
        assert "recall, version 1" in said
        (address,) = (line.split()[1] for line in lines if line.split()[:1] == ["REST"])
        (by_grpc,) = (line.split()[1] for line in lines if line.split()[:1] == ["gRPC"])
        docker = f"docker run -p 8500:8500 -p 8501:8501 -v {folder.resolve()}:/models/recall -e MODEL_NAME=recall"
        assert any(line.strip() == f"{docker} tensorflow/serving" for line in lines)
        with connect(address) as client:
            assert len(ask_texts(client, ["a8c"])[0].labels) == 1
        with connect(by_grpc, "recall") as client:
            assert len(ask_texts(client, ["a8c"])[0].labels) == 1
        os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to the command and to its server.
        rest, errors = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, errors[-2000:]
    assert "Traceback" not in errors
    assert "Ended." in rest
    with connect(address) as client, pytest.raises(ValueError, match="There is no answer"):
        client.signatures()


def test_a_server_that_dies_is_an_error(tmp_path):
    command = [SGGNN, "serve", str(exports.tiny(tmp_path)), "--grpc-port", "0", "--rest-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while "Ctrl-C" not in process.stdout.readline():
            assert process.poll() is None
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode != 0


def test_serve_says_that_a_port_is_in_use(served, run, tmp_path):
    port = served.rest.rsplit(":", 1)[1]
    code, _, said = run("serve", exports.tiny(tmp_path), "--grpc-port", "0", "--rest-port", port)
    assert code == 2
    assert f"The port {port} cannot be used" in said


@pytest.mark.parametrize("command", ["export", "verify", "serve", "predict"])
def test_help_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"Example: sggnn {command} " in result.output
    assert command in CliRunner().invoke(app, ["--help"]).output
