"""The order of the packages: imports point one way, and TF-GNN and private Keras names stand in one module."""

import ast
from pathlib import Path

import sggnn_tf
from sggnn_tf.tasks import TASKS

ROOT = Path(sggnn_tf.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
# What a package may import of ours, besides itself and what stands before it.
ORDER = [
    "tfgnn_bridge",
    "files",
    "graph",
    "schema",
    "tasks",
    "data",
    "layers",
    "models",
    "analysis",
    "training",
    "serving",
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def part(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_point_to_what_stands_before():
    for path in MODULES:
        if part(path) not in ORDER:
            continue
        for name in imports(path):
            if name.startswith("sggnn_tf."):
                imported = name.split(".")[1]
                assert ORDER.index(imported) <= ORDER.index(part(path)), f"{path.name} imports {name}"


def test_layers_know_only_the_bridge_and_tasks_only_numpy():
    for path in MODULES:
        ours = {name.split(".")[1] for name in imports(path) if name.startswith("sggnn_tf.")}
        if part(path) == "layers":
            assert ours <= {"tfgnn_bridge", "layers"}, path.name
        if part(path) == "tasks":
            assert ours <= {"graph", "tasks"}, path.name
            if not path.stem.endswith("_signature"):  # What a SavedModel does with a task's own requests.
                assert not any(name.startswith(("tensorflow", "keras")) for name in imports(path)), path.name


def test_no_task_is_named_where_all_graphs_are_alike():
    for path in MODULES:
        if part(path) in ("layers", "models", "data", "serving"):
            for name in TASKS:
                assert name not in path.read_text(), f"{path.name} names {name}"


def test_only_the_bridge_knows_tf_gnn_and_the_inside_of_keras():
    for path in MODULES:
        if part(path) != "tfgnn_bridge" and path.name != "tfgnn_keras2.py":  # The latter is TF-GNN as a peer.
            for name in imports(path):
                assert not name.startswith(("tensorflow_gnn", "keras.src")), f"{path.name} imports {name}"


def test_the_runtime_imports_no_tensorflow():
    for path in (ROOT / "serving" / "runtime").glob("*.py"):
        for name in imports(path):
            is_ours = name.startswith("sggnn_tf.serving.runtime")
            assert is_ours or not name.startswith(("sggnn_tf", "keras")), f"{path.name} imports {name}"
            assert name != "tensorflow", path.name
            assert not name.startswith("tensorflow.") or name.startswith("tensorflow.core"), f"{path.name}: {name}"


def test_files_fit_in_a_head():
    lengths = {path.name: len(path.read_text().splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}
