"""Sizes and vocabularies of categorical features, which stand in a `GraphSchema` by one convention.

A `Feature` has no field for them, so they are entries of the `metadata.extra` of the node set, edge set or context:
`vocabulary/<feature>`, a JSON list of strings, or `num_values/<feature>`, an integer n. Ids are 0 .. n-1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from sggnn_tf.tfgnn_bridge import tfgnn

CONTEXT = "context"


def feature_set(schema: Any, set_name: str) -> Any:
    """The node set or edge set of this name, or the context, in a schema."""
    if set_name == CONTEXT:
        return schema.context
    for sets in (schema.node_sets, schema.edge_sets):
        if set_name in sets:
            return sets[set_name]
    known = [CONTEXT, *sorted(schema.node_sets), *sorted(schema.edge_sets)]
    raise ValueError(f"The schema has no node or edge set {set_name!r}; it has {', '.join(known)}.")


def split_label(label: str) -> tuple[str, str]:
    """`(set, feature)` of what is written as `SET/FEATURE`."""
    set_name, slash, feature_name = label.rpartition("/")
    if not (set_name and slash and feature_name):
        raise ValueError(f"A feature is named NODE_SET/FEATURE or context/FEATURE, not {label!r}.")
    return set_name, feature_name


def vocabulary(schema: Any, set_name: str, feature_name: str) -> list[str] | None:
    """The strings that the ids of a feature stand for, if the schema says."""
    text = _extra(schema, set_name).get(f"vocabulary/{feature_name}")
    if text is None:
        return None
    try:
        words = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The entry vocabulary/{feature_name} of {set_name!r} in the schema is not a JSON list: {error}."
        ) from None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"The entry vocabulary/{feature_name} of {set_name!r} in the schema is not a list of strings.")
    return words


def num_values(schema: Any, set_name: str, feature_name: str) -> int | None:
    """The number of values of a categorical feature, if the schema says."""
    words = vocabulary(schema, set_name, feature_name)
    if words is not None:
        return len(words)
    text = _extra(schema, set_name).get(f"num_values/{feature_name}")
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(
            f"The entry num_values/{feature_name} of {set_name!r} in the schema is {text!r}, not a positive integer."
        )
    return int(text)


def set_num_values(schema: Any, set_name: str, feature_name: str, value: int | Sequence[str]) -> None:
    """Writes the number of values of a categorical feature, or its vocabulary, into a schema; what was there goes."""
    extra = feature_set(schema, set_name).metadata.extra
    keys = (f"num_values/{feature_name}", f"vocabulary/{feature_name}")
    others = [entry for entry in extra if entry.key not in keys]
    del extra[:]
    extra.extend(others)
    if isinstance(value, int):
        extra.add(key=keys[0], value=str(value))
    else:
        extra.add(key=keys[1], value=json.dumps(list(value)))


def shipped(name: str) -> Any:
    """A schema of `task_schemas/`, by the name of its task."""
    package = Path(__file__).parent
    for folder in (package / "task_schemas", package.parent / "task_schemas"):  # Installed; in the repository.
        if (folder / f"{name}.pbtxt").exists():
            return read(folder / f"{name}.pbtxt")
    raise ValueError(f"There is no schema for the task {name!r}.")


def read(path: str | Path) -> Any:
    """Reads a schema from a file and checks it as TF-GNN does."""
    try:
        text = tf.io.gfile.GFile(str(path)).read()
    except (tf.errors.OpError, UnicodeDecodeError) as error:
        raise ValueError(f"The schema {path} cannot be read: {error}") from None
    try:
        schema = from_text(text)
        tfgnn.validate_schema(schema)
    except (text_format.ParseError, tfgnn.ValidationError) as error:
        raise ValueError(f"{path} is not a valid GraphSchema: {error}") from None
    return schema


def to_text(schema: Any) -> str:
    """A schema as text, always the same for the same schema."""
    return text_format.MessageToString(schema)


def from_text(text: str) -> Any:
    """The schema of a text."""
    return tfgnn.parse_schema(text)


def _extra(schema: Any, set_name: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in feature_set(schema, set_name).metadata.extra}
