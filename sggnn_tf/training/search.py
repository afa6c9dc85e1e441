"""A search for settings: random ones from a task's ranges, as many for every model, chosen by `valid`.

The settings of a trial depend on the seed of the search and its number alone. So trials can run in any order and stop
at will, more of them can be added later, and all models try the same values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sggnn_tf import tasks
from sggnn_tf.training.cells import Cell, read_result
from sggnn_tf.training.tables import SEEDS


class Trial(NamedTuple):
    """What came of a trial."""

    settings: dict[str, Any]
    accuracy: float  # On `valid`, of the best epoch.
    loss: float


def trial_cells(
    task_name: str,
    models: Sequence[str],
    trials: int,
    *,
    seed: int = 1,
    task_arguments: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Cell]:
    """The trials of a search, those of all models in turn.

    Args:
      task_name: the task.
      models: the models.
      trials: the number of trials of each model.
      seed: of the search and of its runs; none that a table uses.
      task_arguments: arguments of the task.
      settings: settings of all runs in place of the recipe's.
    """
    if seed in SEEDS:
        raise ValueError(
            f"The seed {seed} is one of the tables'. What a table measures is not chosen by it: take another."
        )
    arguments = {"seed": seed, **(task_arguments or {})}
    task = tasks.make(task_name, **arguments)
    samples = {model: sample(task.ranges(model), trials, seed) for model in models}
    names = "-".join(f"{name}{value}" for name, value in sorted((task_arguments or {}).items()))
    return [
        Cell(
            task.name,
            model,
            f"{names + '-' if names else ''}trial{number:03d}",
            seed,
            arguments,
            {**(settings or {}), **samples[model][number]},
        )
        for number in range(trials)
        for model in models
        if number < len(samples[model])
    ]


def sample(ranges: Mapping[str, Sequence[Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """Random settings, no two the same; fewer than asked for only if there are no more."""
    found: list[dict[str, Any]] = []
    number = 0
    while len(found) < min(count, math.prod(len(values) for values in ranges.values())):
        chosen = {name: values[_draw(seed, number, name) % len(values)] for name, values in ranges.items()}
        number += 1
        if chosen not in found:
            found.append(chosen)
    return found


def best_first(cells: Sequence[Cell], folder: Path) -> list[Trial]:
    """What came of the trials that are done: by accuracy on `valid`, then by loss."""
    found = []
    for cell in cells:
        if cell.path(folder).exists():
            result = read_result(cell.path(folder))
            best = result["history"][result["best_epoch"] - 1]
            found.append(Trial(cell.settings, result["valid"]["accuracy"], best["val_loss"]))
    return sorted(found, key=lambda trial: (-trial.accuracy, trial.loss))


def _draw(seed: int, number: int, name: str) -> int:
    """A large random number of a setting of a trial, the same for every model."""
    return int(np.random.default_rng([seed, number, *name.encode()]).integers(1 << 62))
