"""Train short, run long: a model whose steps share their weights, on larger examples and with more steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sggnn_tf import tasks
from sggnn_tf.training.config import versions
from sggnn_tf.training.figures import figures, predictions
from sggnn_tf.training.run import make_batches, make_model, read_run, take_weights


def run_longer(
    workdir: str | Path, arguments: Sequence[Mapping[str, Any]], report: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Measures the model of a finished run on other data of its task, without further training.

    Args:
      workdir: the run.
      arguments: arguments of the task, each in place of those of the run. The number of steps is that of the task's
        recipe for them, such as T + 1 for strings of T characters.
      report: is told what is being done.

    Returns:
      The settings of the run, and for each of the arguments the figures of `test`.
    """
    config, trained, _ = read_run(workdir)
    if config.task is None:
        raise ValueError(f"The run in {workdir} is on records; only a task makes longer examples.")
    found = []
    for given in arguments:
        task = tasks.make(config.task, **{**config.task_arguments, **given})
        longer = dataclasses.replace(
            config, task_arguments=task.arguments(), steps=task.recipe(config.model)["steps"], jit=False
        )
        report(", ".join(f"{name} {value}" for name, value in given.items()))
        examples = longer.examples()
        model = make_model(longer, examples["train"].schema)
        take_weights(model, trained, f"The run in {workdir}")
        predicted = predictions(model, make_batches(longer, {"test": examples["test"]})["test"])
        of_test = figures(examples["test"], longer.label, predicted, examples["train"], task)
        found.append({"task_arguments": task.arguments(), "steps": longer.steps, "test": of_test})
    return {"config": config.to_dict(), "versions": versions(), "longer": found}
