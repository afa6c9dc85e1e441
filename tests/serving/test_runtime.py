"""The process with TensorFlow's C++ runtime and without its Python: what it finds wrong with a model."""

import hashlib
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.serving.answers import Case
from sggnn_tf.serving.verify import runtime_command, verify
from sggnn_tf.serving.warmup import WARMUP, write_warmup

CHECK = """
import json, sys
from pathlib import Path
from sggnn_tf.serving.runtime.check import check
problems = {}
for folder in sys.argv[1:]:
    try:
        problems[Path(folder).name] = check(Path(folder))
    except Exception as error:
        problems[Path(folder).name] = [f"The check itself fails: {error!r}"]
print(json.dumps([problems, sorted(sys.modules)]))
"""

LEAK = """
import json, sys
from pathlib import Path
import numpy as np
from sggnn_tf.serving.runtime.session import RunError, Session

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

session = Session(sys.argv[1])
texts = np.array([bytes([65 + place]) * (1 << 20) for place in range(8)], object)
for number in range(100):
    found = session.run("serving_default", {"x": texts})
    assert found["y"].tolist() == [text + b"!" for text in texts]
    try:
        session.run("serving_default", {"x": texts, "z": texts})
    except RunError:
        pass
    try:
        session.run("refuses", {"x": texts})
    except RunError as error:
        assert error.code == 3
    else:
        raise AssertionError
    if number == 10:
        before = resident()
print(json.dumps(resident() - before))
"""


def run_module(folder, source, *arguments):
    """Runs a module in the process of a server; returns what it prints."""
    (folder / "module_of_a_test.py").write_text(source)
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        runtime_command("module_of_a_test", *map(str, arguments)),
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def double(module, x):
    return {"y": module.two * x}


def write(folder, function=double, expected=(2, 4, 6), shape=(None,), dtype=tf.float32, **more):
    """A version with one signature, of x to y, and one warm-up request: 1, 2, 3."""
    module = tf.Module()
    module.two = tf.Variable(2.0)
    for name, value in more.items():
        setattr(module, name, value)
    signature = tf.function(lambda x: function(module, x), input_signature=[tf.TensorSpec(shape, dtype, "x")])
    tf.saved_model.save(module, str(folder), {"serving_default": signature})
    (folder / "schema.pbtxt").write_text("")
    outputs = {"y": np.array(expected, np.float32)}
    write_warmup([Case("serving_default", {"x": np.array([1, 2, 3], np.float32)}, outputs)], "tiny", folder)
    return seal(folder)


def seal(folder):
    """Writes the card, with the checksums of all files."""
    (folder / "model.json").unlink(missing_ok=True)
    files = [path for path in folder.rglob("*") if path.is_file()]
    sums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    (folder / "model.json").write_text(json.dumps({"checksums": sums}))
    return folder


def in_python(module, x):
    return {"y": tf.ensure_shape(tf.numpy_function(lambda value: 2 * value, [x], tf.float32), [None])}


def compiled(module, x):
    return {"y": tf.function(lambda value: 2 * value, jit_compile=True)(x)}


def without_batch(module, x):
    return {"y": 2 * tf.reduce_sum(x)}


def of_three(module, x):
    return {"y": tf.ensure_shape(2 * x, [3])}


def other_answer(module, x):
    return {"y": 2 * x + 1e-3}


def of_the_batch(module, x):
    return {"y": 2 * x + 0.5 * tf.cast(tf.size(x), tf.float32)}


def by_keras(module, x):
    return {"y": module.model(x[:, None])[:, 0]}


def other_outputs(module, x):
    return {"y": 2 * x, "z": x}


def refusing(module, x):
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(x < 3), ["x is too large"])]):
        return {"y": 2 * x}


def keras_model():
    return keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])


BAD = {
    "python": (in_python, (2, 4, 6), {}),
    "xla": (compiled, (2, 4, 6), {}),
    "no_batch": (without_batch, 12, {}),
    "batch_of_three": (of_three, (2, 4, 6), {}),
    "other_answer": (other_answer, (2, 4, 6), {}),
    "of_the_batch": (of_the_batch, (3.5, 5.5, 7.5), {}),
    "keras": (by_keras, (1, 2, 3), {"model": keras_model}),
    "outputs": (other_outputs, (2, 4, 6), {}),
    "refuses": (refusing, (2, 4, 6), {}),
    "good": (double, (2, 4, 6), {}),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return write(tmp_path_factory.mktemp("good") / "1")


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """What is wrong with each of BAD, and the modules of the process that said it."""
    base = tmp_path_factory.mktemp("checked")
    for name, (function, expected, more) in BAD.items():
        write(base / name, function, expected, **{key: make() for key, make in more.items()})
    for name in ("no_warmup", "cut_variables", "other_type", "no_default"):
        write(base / name)
    with tf.io.TFRecordWriter(str(base / "no_warmup" / WARMUP)):
        pass
    data = base / "cut_variables" / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:2])
    (base / "other_type" / WARMUP).unlink()
    (base / "other_type" / WARMUP).parent.rmdir()
    case = Case("serving_default", {"x": np.array([1, 2, 3], np.float32)}, {"y": np.array([2, 4, 6])})
    write_warmup([case], "tiny", base / "other_type")
    saved = base / "no_default" / "saved_model.pb"
    saved.write_bytes(saved.read_bytes().replace(b"serving_default", b"serving_another"))
    folders = [base / name for name in (*BAD, "no_warmup", "cut_variables", "other_type", "no_default")]
    return run_module(base, CHECK, *map(seal, folders))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("python", ["The operation PyFunc needs Python"]),
        ("xla", ["jit_compile=True"]),
        ("no_batch", ["serving_default: the first dimension of 'y' is not the batch"]),
        ("batch_of_three", ["serving_default: the first dimension of 'y' is not the batch"]),
        ("other_answer", ["y is not what the live model gave", "e-0"]),
        ("of_the_batch", ["y of graph 0 is another one alone than with others", "y of graph 2"]),
        ("keras", ["variable"]),
        ("outputs", ["the outputs are ['y', 'z'], not ['y']"]),
        ("refuses", ["the runtime refuses a warm-up request", "x is too large"]),
        ("no_warmup", ["no warm-up request for the signature serving_default"]),
        ("cut_variables", ["The C++ runtime does not load it"]),
        ("other_type", ["float32 of the shape [3] and not int64"]),
        ("no_default", ["There is no signature serving_default"]),
    ],
)
def test_the_check_finds_what_a_server_would_stumble_over(name, parts, checked):
    problems = "\n".join(checked[0][name])
    assert all(part in problems for part in parts), problems


def test_the_check_finds_nothing_wrong_with_what_is_right(checked):
    assert checked[0]["good"] == []


def test_the_answers_of_a_batch_are_as_the_live_ones_so_only_graphs_alone_tell(checked):
    assert not any("live" in problem for problem in checked[0]["of_the_batch"])


def test_the_process_that_checks_has_no_python_tensorflow_nor_keras(checked):
    heads = {name.split(".")[0] for name in checked[1]}
    assert not heads & {"keras", "tf_keras", "tensorflow_gnn", "ai_edge_litert", "jax", "torch"}
    assert not [name for name in checked[1] if name.startswith("tensorflow.python")]
    assert "tensorflow.core.protobuf.saved_model_pb2" in checked[1]


def test_a_changed_byte_is_found_in_every_file(good):
    assert verify(good) == []
    files = [path for path in sorted(good.rglob("*")) if path.is_file() and path.name != "model.json"]
    assert len(files) >= 5
    originals = {path: path.read_bytes() for path in files}
    try:
        for path, content in originals.items():
            place = len(content) // 2
            path.write_bytes(content[:place] + bytes([(content[place] if content else 0) ^ 1]) + content[place + 1 :])
        problems = verify(good)
    finally:
        for path, content in originals.items():
            path.write_bytes(content)
    names = [path.relative_to(good).as_posix() for path in files]
    assert sorted(problems) == sorted(f"{name} is not as it was written." for name in names)


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index", "schema.pbtxt", "model.json", WARMUP])
def test_a_file_that_is_missing_is_named(name, good, tmp_path):
    away = tmp_path / "away"
    (good / name).rename(away)
    try:
        (problem,) = verify(good)
    finally:
        away.rename(good / name)
    assert f"has no {name}" in problem


def test_variables_that_are_missing_are_named(good, tmp_path):
    path = good / "variables" / "variables.data-00000-of-00001"
    path.rename(tmp_path / "away")
    try:
        assert verify(good) == ["variables/variables.data-00000-of-00001 is not as it was written."]
    finally:
        (tmp_path / "away").rename(path)


def test_a_process_that_fails_is_a_problem_and_not_an_approval(good, tmp_path):
    card = (good / "model.json").read_text()
    (good / "model.json").write_text("{")
    try:
        (problem,) = verify(good)
    finally:
        (good / "model.json").write_text(card)
    assert "ended with the code 1" in problem
    assert "JSONDecodeError" in problem


def test_large_strings_do_not_leak(tmp_path):
    """A hundred runs with 8 MB in and 8 MB out."""
    module = tf.Module()
    spec = [tf.TensorSpec([None], tf.string, "x")]

    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(tf.size(x) < 0, ["no"])]):
            return {"y": tf.strings.join([x, "!"])}

    functions = {
        "serving_default": tf.function(lambda x: {"y": tf.strings.join([x, "!"])}, input_signature=spec),
        "refuses": tf.function(refuse, input_signature=spec),
    }
    tf.saved_model.save(module, str(tmp_path / "1"), functions)
    assert run_module(tmp_path, LEAK, tmp_path / "1") < 60


def test_a_folder_that_is_no_model_cannot_be_loaded(tmp_path):
    source = """
import json, sys
from sggnn_tf.serving.runtime.session import Session
try:
    Session(sys.argv[1])
except ValueError as error:
    print(json.dumps(str(error)))
"""
    assert "no saved_model.pb" in run_module(tmp_path, source, tmp_path)


def test_a_module_that_is_not_there_ends_the_process():
    run = subprocess.run(runtime_command("sggnn_tf.serving.runtime.nothing"), capture_output=True, check=False)
    assert run.returncode != 0
    assert sys.executable == runtime_command("x")[0]
