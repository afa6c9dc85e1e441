"""The attention of a model over one example that a person writes, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from sggnn_tf import data, tasks
from sggnn_tf import schema as schemas
from sggnn_tf.analysis.attention_picture import draw_attention, edge_weights
from sggnn_tf.analysis.pictures import node_texts
from sggnn_tf.analysis.reach import readout_nodes
from sggnn_tf.training.config import Config, for_task
from sggnn_tf.training.reach_study import first_graphs
from sggnn_tf.training.run import make_model, read_run


def draw_attention_of_run(folder: str | Path, text: str, path: str | Path) -> None:
    """Draws who listened to whom in the model of a finished run.

    Args:
      folder: the run, of a task.
      text: the example.
      path: the picture.
    """
    config, model, _ = read_run(folder)
    if config.make_task() is None:
        raise ValueError(f"The run in {folder} is on records; only a task makes an example of a text.")
    _draw(config, model, text, path)


def draw_attention_of_start(task: str, model: str, text: str, path: str | Path) -> None:
    """Draws who listens to whom in a model of a task that was not trained."""
    config = for_task(task, model)
    keras.utils.set_random_seed(config.seed)
    _draw(config, make_model(config, data.task_schema(tasks.make(task))), text, path)


def _draw(config: Config, model: Any, text: str, path: str | Path) -> None:
    task = config.make_task()
    assert task is not None
    schema = data.task_schema(task)
    example = task.from_text(text)
    batch = first_graphs(config, data.Examples.from_graphs([example], schema, repr(text)), 1)
    graph = batch[0]
    node_set, _ = readout_nodes(graph, config.label)
    texts = node_texts(example, schema, node_set)
    places = task.positions(example)[:, 0]
    answer = model(graph).numpy()[0].argmax()
    words = schemas.vocabulary(schema, *schemas.split_label(config.label))
    title = f"{config.model}: {text} → {words[answer] if words else answer}"
    draw_attention(graph, edge_weights(model, graph), node_set, texts, places, path, title)
