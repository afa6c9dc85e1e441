"""Checks a version of a served model: `python start.py sggnn_tf.serving.runtime.check FOLDER` prints what is wrong.

That is: files that are not there or not as they were written; operations that a server does not have or refuses; inputs
and outputs that do not have the batch first; answers that differ from those of the live model; graphs that get another
answer alone than together with others.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from sggnn_tf.serving.runtime.layout import CARD, DEFAULT, SCHEMA, WARMUP
from sggnn_tf.serving.runtime.protos import to_array
from sggnn_tf.serving.runtime.records import read_records
from sggnn_tf.serving.runtime.session import Arrays, RunError, Session

TOLERANCE = 1e-5
PYTHON_OPS = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
XLA_ATTRIBUTE = "_XlaMustCompile"


def check(folder: Path) -> list[str]:
    """What is wrong with a version, in sentences."""
    problems = [*_files(folder)]
    if problems:
        return problems
    problems += _operations(folder)
    try:
        session = Session(folder)
    except ValueError as error:
        return [*problems, f"The C++ runtime does not load it: {error}"]
    problems += _shapes(session)
    if problems:
        return problems
    cases = list(_cases(folder))
    missing = sorted(session.signatures.keys() - {name for name, _, _ in cases})
    problems += [f"There is no warm-up request for the signature {name}." for name in missing]
    for name, inputs, expected in cases:
        try:
            problems += _run(session, name, inputs, expected)
        except RunError as error:
            problems.append(f"{name}: the runtime refuses a warm-up request: {error}")
    return problems


def _files(folder: Path) -> Iterator[str]:
    needed = [CARD, SCHEMA, WARMUP, "saved_model.pb", "variables/variables.index"]
    missing = [name for name in needed if not (folder / name).exists()]
    if missing:
        yield f"{folder} has no {missing[0]}: it is no whole export."
        return
    for name, expected in json.loads((folder / CARD).read_text())["checksums"].items():
        path = folder / name
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            yield f"{name} is not as it was written."


def _operations(folder: Path) -> Iterator[str]:
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    for meta_graph in saved.meta_graphs:
        library = meta_graph.graph_def.library.function
        nodes = [*meta_graph.graph_def.node, *(node for function in library for node in function.node_def)]
        for op in sorted({node.op for node in nodes} & PYTHON_OPS):
            yield f"The operation {op} needs Python, which a server does not have."
        for op in sorted({node.op for node in nodes if node.op.startswith("Xla")}):
            yield f"The operation {op} needs XLA, which a server does not use unless it is told to."
        holders = [*nodes, *library]
        if any(holder.attr[XLA_ATTRIBUTE].b for holder in holders if XLA_ATTRIBUTE in holder.attr):
            yield "A function is compiled by XLA (jit_compile=True), which a server does not do unless it is told to."


def _shapes(session: Session) -> Iterator[str]:
    if DEFAULT not in session.signatures:
        yield f"There is no signature {DEFAULT}."
    for name, signature in session.signatures.items():
        for key, info in (*signature.inputs.items(), *signature.outputs.items()):
            if info.shape is None or not info.shape or info.shape[0] != -1:
                yield f"{name}: the first dimension of {key!r} is not the batch, of any size."


def _cases(folder: Path) -> Iterator[tuple[str, Arrays, Arrays]]:
    for record in read_records(folder / WARMUP):
        log = prediction_log_pb2.PredictionLog.FromString(record).predict_log
        inputs = {key: to_array(proto) for key, proto in log.request.inputs.items()}
        outputs = {key: to_array(proto) for key, proto in log.response.outputs.items()}
        yield log.request.model_spec.signature_name, inputs, outputs


def _run(session: Session, name: str, inputs: Arrays, expected: Arrays) -> Iterator[str]:
    """Compares a request with its answer: all graphs together, and a few alone."""
    found = session.run(name, inputs)
    if found.keys() != expected.keys():
        yield f"{name}: the outputs are {sorted(found)}, not {sorted(expected)}."
        return
    for key in sorted(found):
        difference = _difference(found[key], expected[key])
        if difference:
            yield f"{name}: {key} is not what the live model gave: {difference}."
    graphs = len(next(iter(inputs.values())))
    for number in sorted({0, graphs // 2, graphs - 1}) if graphs > 1 else ():
        alone = session.run(name, {key: array[number : number + 1] for key, array in inputs.items()})
        for key in sorted(alone):
            together = found[key][number : number + 1]
            if together.ndim > 1:  # Without the padding of the others.
                together = together[:, : alone[key].shape[1]]
            difference = _difference(alone[key], together)
            if difference:
                yield f"{name}: {key} of graph {number} is another one alone than with others: {difference}."


def _difference(found: np.ndarray, expected: np.ndarray) -> str:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype} of the shape {list(found.shape)} and not {expected.dtype} of {list(expected.shape)}"
    if found.dtype.kind == "f":
        largest = float(np.max(np.abs(found - expected) / np.maximum(1, np.abs(expected)), initial=0.0))
        return "" if largest <= TOLERANCE else f"they differ by {largest:.1e}"
    return "" if np.array_equal(found, expected) else f"{int(np.sum(found != expected))} values differ"


if __name__ == "__main__":
    print(json.dumps([problem for folder in sys.argv[1:] for problem in check(Path(folder))]))
