"""Many runs: each a cell that is run once, in any order, and kept as one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sggnn_tf.files import write_whole
from sggnn_tf.training.config import Config, for_task
from sggnn_tf.training.run import RunInUseError, train


class Cell(NamedTuple):
    """One run of many."""

    task: str
    model: str
    variant: str  # Such as `length10`.
    seed: int
    task_arguments: dict[str, Any]
    settings: dict[str, Any]  # In place of the recipe's.

    def path(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / self.task / self.model / f"{self.variant}-seed{self.seed}.json"


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    workdir: Path,
    callbacks: Callable[[Cell], Sequence[Any]] = lambda cell: (),
) -> None:
    """Runs the cells that have no result yet; one that was interrupted goes on.

    Several processes can run the same cells: each takes one that no other has taken.

    Args:
      cells: the cells, in the order in which to run them.
      folder: where results are.
      workdir: where the runs are.
      callbacks: further Keras callbacks for a cell.
    """
    for cell in cells:
        path = cell.path(folder)
        config = for_task(cell.task, cell.model, task_arguments=cell.task_arguments, seed=cell.seed, **cell.settings)
        if path.exists():
            _check_same(path, config)
            continue
        try:
            result = train(config, workdir / cell.task / cell.model / path.stem, resume=True, callbacks=callbacks(cell))
        except RunInUseError:  # Another process has taken this cell.
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(result, indent=1) + "\n")


def _check_same(path: Path, config: Config) -> None:
    """Refuses a result of other settings than those that are asked for."""
    found, wanted = Config(**read_result(path)["config"]).to_dict(), config.to_dict()
    for name in wanted:
        if found[name] != wanted[name]:
            raise ValueError(
                f"{path} is the result of a run with another {name}: {found[name]!r}, not {wanted[name]!r}. Choose "
                "another folder for results, or delete it."
            )


def read_result(path: Path) -> dict[str, Any]:
    """The result of a cell."""
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no result of a run ({error}). Delete it, and run its cell again.") from None
