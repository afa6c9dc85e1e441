"""A trained model as a SavedModel that TF Serving serves: a version that is there whole and checked, or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from sggnn_tf import schema as schemas
from sggnn_tf import training
from sggnn_tf.data import Examples
from sggnn_tf.files import write_whole
from sggnn_tf.models.graph_model import GraphModel
from sggnn_tf.serving.answers import make_cases
from sggnn_tf.serving.runtime.layout import CARD, SCHEMA
from sggnn_tf.serving.signatures import Signature, make_signatures
from sggnn_tf.serving.verify import verify
from sggnn_tf.serving.warmup import write_warmup
from sggnn_tf.tasks import Task
from sggnn_tf.training.config import versions

MODELS_CONFIG = "models.config"


def export(
    model: GraphModel,
    path: str | Path,
    examples: Examples,
    *,
    label: str | None = None,
    ignore: Sequence[str] | None = None,
    task: Task | None = None,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a model as the next version of a served model, and checks it in TF Serving's runtime.

    Args:
      model: a built model whose output is scores, a row for each thing that is predicted.
      path: the folder of the served model; its last part is the model's name. Versions are folders in it: 1, 2, ...
      examples: graphs of the model's schema. A few of them, with the answers that the model gives here, become the
        version's warm-up requests, by which it is checked.
      label: what is predicted, `NODE_SET/FEATURE` or `context/FEATURE`; models of `build_model` know.
      ignore: features that the model does not read; models of `build_model` know.
      task: the task, if it has signatures of its own.
      card: what else to say of the model in `model.json`.

    Returns:
      The folder of the version.

    Example:

    ```python
    export(model, "saved_models/grid", splits["valid"])
    ```
    """
    path = Path(path)
    partial = path / f".partial-{uuid.uuid4().hex[:8]}"
    try:
        write_version(model, partial, examples, name=path.name, label=label, ignore=ignore, task=task, card=card)
        problems = verify(partial)
        if problems:
            raise ValueError("The export does not pass its check and is not published:\n" + "\n".join(problems))
        version = _publish(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    write_whole(path / MODELS_CONFIG, _models_config(path.name))
    return version


def write_version(
    model: GraphModel,
    folder: Path,
    examples: Examples,
    *,
    name: str,
    label: str | None = None,
    ignore: Sequence[str] | None = None,
    task: Task | None = None,
    card: Mapping[str, Any] | None = None,
    graphs: int = 8,
) -> None:
    """Writes a version to a folder, without a check.

    Args:
      model, examples, label, ignore, task, card: see `export`.
      folder: where to; it is made.
      name: of the model.
      graphs: the number of graphs of its largest warm-up request.
    """
    if not isinstance(model, GraphModel) or not model.built:
        raise ValueError(
            "Only a built GraphModel can be exported: fit it first, or build it for a schema without its label."
        )
    settings = getattr(model, "settings", {})
    label = label or settings.get("label")
    if label is None:
        raise ValueError("Say what the model predicts, by label='NODE_SET/FEATURE' or 'context/FEATURE'.")
    ignore = settings.get("ignore", ()) if ignore is None else ignore
    counted, feature = schemas.split_label(label)
    schema = _served_schema(examples.schema, [label, *ignore])
    labels = schemas.vocabulary(examples.schema, counted, feature)
    is_single = counted == schemas.CONTEXT or bool((examples.sizes[:, examples.sets.names.index(counted)] == 1).all())
    own = () if task is None else task.signatures(_vocabularies(examples.schema), settings.get("steps", 0))
    signatures = make_signatures(model, schema, counted, labels, is_single, own)
    cases = make_cases(model, schema, examples, counted, labels, is_single, own, graphs)
    _save(model, signatures, folder)
    write_whole(folder / SCHEMA, schemas.to_text(schema))
    write_warmup(cases, name, folder)
    about = {"name": name, "label": label, "classes": labels, "one_answer_a_graph": is_single}
    _write_card(folder, {**about, **(card or {})}, signatures)


def export_run(workdir: str | Path, path: str | Path) -> Path:
    """Exports the model of a finished run, with its settings and figures on its card. Returns the version's folder."""
    config, model, result = training.read_run(workdir)
    examples = config.examples()
    figures = {split: result[split] for split in ("valid", "test") if split in result}
    card = {"config": config.to_dict(), "metrics": figures}
    return export(model, path, examples["valid"], task=config.make_task(), card=card)


def latest_version(path: str | Path) -> Path:
    """The newest version of a served model; a folder that is a version is its own."""
    path = Path(path)
    if (path / "saved_model.pb").exists():
        return path
    versions_there = [each for each in path.iterdir() if each.name.isdecimal()] if path.is_dir() else []
    if not versions_there:
        raise ValueError(f"There is no exported model in {path}: no folder 1, 2, ... with a saved_model.pb.")
    return max(versions_there, key=lambda each: int(each.name))


def _served_schema(schema: Any, left_out: Sequence[str]) -> Any:
    """The schema of what a client sends: without the label and what the model does not read."""
    served = type(schema)()
    served.CopyFrom(schema)
    for each in left_out:
        set_name, feature = schemas.split_label(each)
        known = schemas.feature_set(served, set_name).features
        if feature not in known:
            raise ValueError(f"{each!r} is no feature; {set_name!r} has {sorted(known)}.")
        known.pop(feature)
    return served


def _vocabularies(schema: Any) -> dict[str, list[str]]:
    found = {}
    for set_name in (*schema.node_sets, *schema.edge_sets, schemas.CONTEXT):
        for feature in schemas.feature_set(schema, set_name).features:
            words = schemas.vocabulary(schema, set_name, feature)
            if words is not None:
                found[f"{set_name}/{feature}"] = words
    return found


def _save(model: GraphModel, signatures: Mapping[str, Signature], folder: Path) -> None:
    """Writes the SavedModel, with the inputs called what clients call them."""
    module = tf.Module()
    # Not the Keras model itself: TensorFlow's C++ runtime does not find the variables that it holds.
    module.weights = [variable.value for variable in model.variables]
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    functions = {name: each.function for name, each in signatures.items()}
    tf.saved_model.save(module, str(folder), functions, options)
    path = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name, signature in signatures.items():
        inputs = saved.meta_graphs[0].signature_def[name].inputs
        for argument, key in signature.keys.items():
            if key != argument:
                inputs[key].CopyFrom(inputs[argument])
                del inputs[argument]
    path.write_bytes(saved.SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # Of the file as it was.


def _write_card(folder: Path, about: Mapping[str, Any], signatures: Mapping[str, Signature]) -> None:
    def tensors(specs: Mapping[str, Any]) -> dict[str, Any]:
        return {key: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()} for key, spec in specs.items()}

    described = {}
    for name, (function, keys) in signatures.items():
        inputs = {keys[argument]: spec for argument, spec in function.structured_input_signature[1].items()}
        described[name] = {"inputs": tensors(inputs), "outputs": tensors(function.structured_outputs)}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    checksums = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    content = {**about, "signatures": described, "versions": versions(), "checksums": checksums}
    write_whole(folder / CARD, json.dumps(content, indent=2) + "\n")


def _publish(partial: Path, path: Path) -> Path:
    """Gives a version its number: the next one that is free."""
    while True:
        taken = [int(each.name) for each in path.iterdir() if each.name.isdecimal()]
        version = path / str(max(taken, default=0) + 1)
        try:
            partial.rename(version)  # Fails if there is such a folder by now, unless it is empty.
        except OSError as error:
            if not version.exists():
                raise ValueError(f"{version} cannot be written: {error}") from None
        else:
            return version


def _models_config(name: str) -> str:
    return (
        "# For: docker run -p 8500:8500 -p 8501:8501 -v THIS_FOLDER:/models/" + name + " tensorflow/serving \\\n"
        f"#   --model_config_file=/models/{name}/{MODELS_CONFIG}\n"
        f'model_config_list {{\n  config {{\n    name: "{name}"\n    base_path: "/models/{name}"\n'
        '    model_platform: "tensorflow"\n  }\n}\n'
    )
