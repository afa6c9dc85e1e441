"""How well a model does: in all, by graph, by distance of the answer and by rule; beside what needs no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sggnn_tf import data, tasks
from sggnn_tf import schema as schemas
from sggnn_tf.data.codec import Codec


def predictions(model: Any, batches: data.Batches) -> np.ndarray:
    """The predicted classes of all questions of a data set, in order, without those of padding."""
    dataset = batches.dataset()
    scores = model.predict(dataset, verbose=0)
    weights = np.concatenate([weight.numpy() for weight in _column(dataset, 2)])
    return scores.argmax(axis=-1)[weights > 0]


def figures(
    examples: data.Examples, label: str, predicted: np.ndarray, train: data.Examples, task: tasks.Task | None
) -> dict[str, Any]:
    """The figures of a split.

    Args:
      examples: the split.
      label: what was predicted.
      predicted: a class for each question, in order.
      train: the training data, which says what the most common answer is.
      task: the task, if there is one: it knows distances and kinds.
    """
    labels = labels_by_graph(examples, label)
    sizes = [len(each) for each in labels]
    answers = np.concatenate(labels)
    is_right = predicted == answers
    graph = np.repeat(np.arange(len(sizes)), sizes)
    wrong = np.bincount(graph, ~is_right, minlength=len(sizes))
    found: dict[str, Any] = {
        "questions": len(answers),
        "accuracy": float(is_right.mean()),
        "graphs": len(sizes),
        "graph_accuracy": float((wrong == 0)[np.array(sizes) > 0].mean()),
    }
    common = np.bincount(np.concatenate(labels_by_graph(train, label))).argmax()
    found["floors"] = {"most common answer": float((answers == common).mean())}
    if task is not None:
        graphs = [Codec(examples.schema).decode(record) for record in examples.records]
        hops = np.concatenate([task.hops(each) for each in graphs])
        found["floors"]["own value"] = float((hops == 0).mean())
        found["by_hops"] = _by(hops.tolist(), is_right)
        kinds = [kind for each in graphs for kind in task.groups(each)]
        if kinds:
            found["by_rule"] = _by(kinds, is_right)
    return found


def labels_by_graph(examples: data.Examples, label: str) -> list[np.ndarray]:
    """The labels of each graph."""
    set_name, feature = schemas.split_label(label)
    codec = Codec(examples.schema)
    graphs = (codec.decode(record) for record in examples.records)
    if set_name == schemas.CONTEXT:
        return [np.atleast_1d(graph.context[feature]) for graph in graphs]
    nodes: list[Any] = [graph.nodes[set_name] for graph in graphs]
    return [np.asarray(features[feature]) for features in nodes]


def _by(keys: Sequence[Any], is_right: np.ndarray) -> dict[str, dict[str, float]]:
    """The accuracy of each group of questions."""
    groups: dict[Any, list[bool]] = {}
    for key, right in zip(keys, is_right.tolist(), strict=True):
        groups.setdefault(key, []).append(right)
    return {
        str(key): {"questions": len(groups[key]), "accuracy": float(np.mean(groups[key]))} for key in sorted(groups)
    }


def _column(dataset: tf.data.Dataset, place: int) -> tf.data.Dataset:
    return dataset.map(lambda *parts: parts[place])
