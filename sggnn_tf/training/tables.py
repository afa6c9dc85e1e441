"""The paper's tables: grids of runs, and what they say beside the paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sggnn_tf import tasks
from sggnn_tf.models import MODELS
from sggnn_tf.training.cells import Cell, read_result
from sggnn_tf.training.config import Config
from sggnn_tf.training.run import read_config

SEEDS = (12345678, 34989987, 76850409, 45739488, 87646464)  # Of the paper's author.
LENGTHS = (3, 5, 7, 10)

# The paper's values, in percent: of test strings that are right, by length; of nodes, and of trees that are all right.
PAPER_RECALL = {
    "rgcn": (96.7, 78.7, 38.5, 6.6),
    "ggnn": (96.7, 74.6, 17.2, 2.5),
    "rgat": (96.7, 90.2, 0.0, 0.0),
    "sggnn-rv-gat": (98.4, 96.7, 91.8, 96.7),
    "ggnn-rv-gat": (100.0, 18.9, 13.1, 4.1),
    "sggnn-rv-mean": (95.9, 94.3, 33.6, 11.5),
    "sggnn-rm-gat": (98.4, 98.4, 84.4, 8.2),
}
PAPER_TREES = {
    "rgcn": (95.7, 31.7),
    "ggnn": (97.0, 40.6),
    "rgat": (88.3, 10.0),
    "sggnn-rv-gat": (99.7, 87.8),
    "ggnn-rv-gat": (95.0, 48.1),
    "sggnn-rv-mean": (99.0, 68.5),
    "sggnn-rm-gat": (96.8, 45.1),
}


class Entry(NamedTuple):
    """What a table says: the mean and the spread over seeds, in percent."""

    model: str
    column: str
    values: tuple[float, ...]
    paper: float | None

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """The standard deviation over seeds, as of a sample."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0


def recall_cells(
    models: Sequence[str],
    lengths: Sequence[int],
    seeds: Sequence[int],
    examples_per_class: Sequence[int] = (20,),
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Cell]:
    """The cells of Table 1, the shortest strings first."""
    for length in lengths:
        for examples in examples_per_class:
            variant = f"length{length}" if examples == 20 else f"length{length}-examples{examples}"
            for seed in seeds:
                for model in models:
                    arguments = {"length": length, "examples_per_class": examples}
                    yield Cell("conditional_recall", model, variant, seed, arguments, dict(settings or {}))


def tree_cells(
    models: Sequence[str], seeds: Sequence[int], settings: Mapping[str, Any] | None = None
) -> Iterator[Cell]:
    """The cells of Table 2; of a model that has depths to choose from, one for each."""
    for seed in seeds:
        for model in models:
            depths = {f"steps{depth}": {"steps": depth} for depth in tasks.make("tree_max").depths(model)}
            for variant, own in (depths or {"default": {}}).items():
                yield Cell("tree_max", model, variant, seed, {}, {**own, **(settings or {})})


def warm_cells(
    models: Sequence[str],
    lengths: Sequence[int],
    seeds: Sequence[int],
    from_length: int,
    runs: Path,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Cell]:
    """Cells of Conditional Recall that start from the weights of a shorter length's, as wide and as long as those.

    Args:
      models, lengths, seeds: the grid.
      from_length: the length of the runs to start from.
      runs: the folder of those runs, the `workdir` of `run_cells`.
      settings: settings in place of the recipe's.
    """
    for length in lengths:
        for seed in seeds:
            for model in models:
                short = Cell("conditional_recall", model, f"length{from_length}", seed, {}, {})
                start = runs / short.path(Path()).with_suffix("")
                variant = f"length{length}-from{from_length}"
                own = {"start_from": start.as_posix(), **of_start(read_config(start)), **(settings or {})}
                yield Cell("conditional_recall", model, variant, seed, {"length": length}, own)


def of_start(shorter: Config) -> dict[str, Any]:
    """The settings that a cell has of the run whose weights it starts from: its width, its switches and its epochs."""
    return {**{name: getattr(shorter, name) for name in ("units", "epochs", "patience")}, **shorter.switches}


def read_results(task: str, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of a task's runs, by model."""
    found = {}
    for model in MODELS:
        paths = sorted((folder / task / model).glob("*-seed*.json"))
        results = [read_result(path) for path in paths if not path.name.startswith("longer")]
        if results:
            found[model] = results
    return found


def best_depths(task: str, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the results of a model, where it ran on the same data with several depths, the best on `valid`."""
    if task != "tree_max":
        return list(results)
    best: dict[int, dict[str, Any]] = {}
    for result in results:
        seed = result["config"]["seed"]
        if seed not in best or result["valid"]["accuracy"] > best[seed]["valid"]["accuracy"]:
            best[seed] = result
    return list(best.values())


def read_table(task: str, folder: Path) -> list[Entry]:
    """The entries of a task's table, from the results that are there."""
    entries = []
    for model, results in read_results(task, folder).items():
        by_column: dict[str, list[float]] = {}
        for result in best_depths(task, results):
            for column, value in _columns(result).items():
                by_column.setdefault(column, []).append(100 * value)
        entries += [
            Entry(model, column, tuple(values), _paper(task, model, column)) for column, values in by_column.items()
        ]
    return sorted(entries, key=lambda entry: (list(MODELS).index(entry.model), _order(entry.column)))


def _columns(result: dict[str, Any]) -> dict[str, float]:
    """The columns of a table to which a result belongs."""
    config, test = result["config"], result["test"]
    if config["task"] == "tree_max":
        return {"node": test["accuracy"], "graph": test["graph_accuracy"]}
    arguments = config["task_arguments"]
    examples = arguments["examples_per_class"]
    column = f"T = {arguments['length']}" + (f", {examples} each" if examples != 20 else "")
    start = re.search(r"length(\d+)[^/]*$", config.get("start_from") or "")
    return {column + (f", from T = {start.group(1)}" if start else ""): test["accuracy"]}


def _paper(task: str, model: str, column: str) -> float | None:
    if task == "tree_max":
        return dict(zip(("node", "graph"), PAPER_TREES[model], strict=True)).get(column)
    columns = [f"T = {length}" for length in LENGTHS]
    return dict(zip(columns, PAPER_RECALL[model], strict=True)).get(column)


def _order(column: str) -> tuple[int, str]:
    digits = "".join(character for character in column.split(",")[0] if character.isdigit())
    return int(digits or 0), "" if column == "node" else column
