"""The tables as Markdown, written between marks of a page, so that a page shows what the results say."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sggnn_tf import tasks
from sggnn_tf.models import MODELS
from sggnn_tf.tasks import TreeMax, tree_max_order
from sggnn_tf.training.cells import read_result
from sggnn_tf.training.config import Config
from sggnn_tf.training.tables import Entry, best_depths, read_results, read_table

MARK = re.compile(r"<!-- sggnn tables (\w+): (\w+) -->\n.*?<!-- end -->", re.DOTALL)
NOT_OF_A_RECIPE = {"task", "task_arguments", "data", "schema", "label", "ignore", "model", "seed", "switches", "jit"}
NOT_OF_A_RECIPE |= {"devices", "precision", "start_from"}


def rewrite(page: str, folder: Path, only: str | None = None) -> str:
    """A page with the text between its marks `<!-- sggnn tables TASK: PART -->` and `<!-- end -->` made anew.

    Args:
      page: the page, in Markdown.
      folder: where results are.
      only: a task, of which alone the parts are made.
    """

    def made(match: re.Match[str]) -> str:
        task, part = match.groups()
        if only not in (None, task):
            return match.group()
        if part not in PARTS:
            raise ValueError(f"There is no part {part!r} of the tables; there are {', '.join(PARTS)}.")
        return f"<!-- sggnn tables {task}: {part} -->\n{PARTS[part](task, folder)}\n<!-- end -->"

    return MARK.sub(made, page)


def main_table(task: str, folder: Path) -> str:
    """The paper's table: the columns that the paper has."""
    return _table([entry for entry in read_table(task, folder) if entry.paper is not None])


def further_table(task: str, folder: Path) -> str:
    """What the paper does not have, a row for each model and setting."""
    entries = [entry for entry in read_table(task, folder) if entry.paper is None]
    rows = [[f"`{entry.model}`", entry.column, _mean(entry), f"{len(entry.values)}"] for entry in entries]
    return markdown(["model", "", "% right", "seeds"], rows)


def hops_table(task: str, folder: Path) -> str:
    """Accuracy by the distance of the answer, over all seeds of a model."""
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for model, results in read_results(task, folder).items():
        for result in best_depths(task, results):
            for hop, each in result["test"]["by_hops"].items():
                pairs = found.setdefault(model, {}).setdefault(int(hop), [])
                pairs.append((each["questions"], each["questions"] * each["accuracy"]))
    groups = {
        "0": (0, 0),
        "1": (1, 1),
        "2": (2, 2),
        "3–4": (3, 4),
        "5–6": (5, 6),
        "7–9": (7, 9),
        "10 or more": (10, 999),
    }
    rows = []
    for model, by_hop in found.items():
        row = [f"`{model}`"]
        for low, high in groups.values():
            pairs = [pair for hop, each in by_hop.items() if low <= hop <= high for pair in each]
            questions, right = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
            row.append(f"{100 * right / questions:.1f}" if questions else "")
        rows.append(row)
    return markdown(["hops to the answer", *groups], rows)


def longer_table(task: str, folder: Path) -> str:
    """Accuracy on longer examples than those of training."""
    found = read_longer(task, folder)
    lengths = sorted({length for each in found.values() for length in each})
    rows = [
        [f"`{model}`", *(_mean_of(by_length.get(length)) for length in lengths)] for model, by_length in found.items()
    ]
    return markdown(["model", *(f"T = {length}" for length in lengths)], rows)


def recipe_table(task: str, folder: Path) -> str:
    """The settings of the runs of the paper's table: those that all share, and those of a model."""
    settings: dict[str, dict[str, set[str]]] = {}
    for model, results in read_results(task, folder).items():
        for result in results:
            if not result["config"].get("start_from"):
                for name, value in _recipe(result["config"]).items():
                    settings.setdefault(name, {}).setdefault(model, set()).add(json.dumps(value))
    rows = []
    for name in sorted(settings):
        values = {value for each in settings[name].values() for value in each}
        if len(values) == 1:
            rows.append([f"`{name}`", values.pop()])
            continue
        by_value: dict[str, list[str]] = {}
        for model, each in settings[name].items():
            by_value.setdefault(", ".join(sorted(each, key=_numeric)), []).append(f"`{model}`")
        rows.append([f"`{name}`", "; ".join(f"{value}: {', '.join(models)}" for value, models in by_value.items())])
    return markdown(["setting", "value"], rows)


def depths_table(task: str, folder: Path) -> str:
    """What came of each depth of the models that have depths to choose from."""
    rows = []
    for model, results in read_results(task, folder).items():
        if not tasks.make(task).depths(model):
            continue
        chosen = best_depths(task, results)
        for result in sorted(results, key=lambda each: (each["config"]["seed"], each["config"]["steps"])):
            steps = f"**{result['config']['steps']}**" if result in chosen else f"{result['config']['steps']}"
            shares = (result["valid"]["accuracy"], result["test"]["accuracy"], result["test"]["graph_accuracy"])
            rows.append([f"`{model}`", steps, *(f"{100 * share:.1f}" for share in shares)])
    return markdown(["model", "steps", "node, on valid", "node", "graph"], rows)


def told_table(task: str, folder: Path) -> str:
    """By seed, how many answers of Tree Max the training trees tell and suggest, beside what SGGNN-RV-GAT has right."""
    rows = []
    for result in read_results(task, folder).get("sggnn-rv-gat", []):
        task_of_cell = TreeMax(**result["config"]["task_arguments"])
        shares = tree_max_order.shares(task_of_cell, tree_max_order.answers_told, tree_max_order.answers_ranked)
        shares.append((result["test"]["accuracy"], result["test"]["graph_accuracy"]))
        pairs = [f"{100 * nodes:.2f} / {100 * trees:.1f}" for nodes, trees in shares]
        rows.append([str(result["config"]["seed"]), *pairs])
    return markdown(["% of nodes / of trees, by seed", "told", "by ranking", "`sggnn-rv-gat`"], rows)


def reach_table(task: str, folder: Path) -> str:
    """The radius of each model's reach, by the number of epochs."""
    measured = read_reach(task, folder)
    epochs = list(dict.fromkeys(epoch for each in measured["reach"].values() for epoch in each))
    hops = [max(each[epochs[0]]["by_hop"], key=int) for each in measured["reach"].values()]
    farthest = max(hops, key=int)
    rows = []
    for model, by_epoch in measured["reach"].items():
        norms = [f"{by_epoch[epoch]['by_hop'].get(farthest, 0.0):.1e}" for epoch in epochs]
        rows.append([f"`{model}`", *norms, *(f"{by_epoch[epoch]['radius']:.2f}" for epoch in epochs)])
    when = ["start" if epoch == "0" else f"{epoch} epochs" for epoch in epochs]
    return markdown(
        ["model", *(f"norm at {farthest} hops, {each}" for each in when), *(f"radius, {e}" for e in when)], rows
    )


def search_table(task: str, folder: Path) -> str:
    """The trials of a search, kept in `search` beside the results: accuracy on valid by model and settings."""
    results = [read_result(path) for path in sorted((folder / "search" / task).glob("*/*trial*.json"))]
    recipes = [_recipe(Config(**result["config"]).to_dict()) | result["config"]["task_arguments"] for result in results]
    names = [*tasks.make(task).ranges("sggnn-rv-gat")]
    arguments = [name for result in results[:1] for name in result["config"]["task_arguments"]]
    for name in (*arguments, *(field.name for field in dataclasses.fields(Config))):
        values = {json.dumps(recipe[name]) for recipe in recipes if name in recipe}
        if name not in (*names, "steps") and len(values) > 1:  # Trials differ in it, not by length alone.
            names.append(name)
    found: dict[str, dict[str, str]] = {}
    for result, recipe in zip(results, recipes, strict=True):
        tried = ", ".join(f"{name} {recipe[name]}" for name in names)
        found.setdefault(tried, {})[result["config"]["model"]] = f"{100 * result['valid']['accuracy']:.1f}"
    models = [model for model in MODELS if any(model in each for each in found.values())]
    rows = [[tried, *(each.get(model, "") for model in models)] for tried, each in found.items()]
    return markdown(["% right on valid", *(f"`{model}`" for model in models)], rows)


def development_table(task: str, folder: Path) -> str:
    """The single runs by which a recipe was found, in `development.json`: by seed, what is right on new data."""
    runs = read_result(folder / task / "development.json")["runs"]
    seeds = sorted({run["seed"] for run in runs})
    found: dict[str, dict[int, str]] = {}
    for run in runs:
        found.setdefault(run["what"], {})[run["seed"]] = " / ".join(f"{100 * value:.1f}" for value in run["right"])
    rows = [[what, *(by_seed.get(seed, "") for seed in seeds)] for what, by_seed in found.items()]
    return markdown(["", *(f"seed {seed}" for seed in seeds)], rows)


PARTS: Mapping[str, Callable[[str, Path], str]] = {
    "table": main_table,
    "further": further_table,
    "hops": hops_table,
    "longer": longer_table,
    "depths": depths_table,
    "told": told_table,
    "recipe": recipe_table,
    "reach": reach_table,
    "search": search_table,
    "development": development_table,
}


def read_longer(task: str, folder: Path) -> dict[str, dict[int, list[float]]]:
    """By model and length, the accuracies in percent of runs on longer examples than those of training."""
    found: dict[str, dict[int, list[float]]] = {}
    for model in MODELS:
        for path in sorted((folder / task / model).glob("longer*.json")):
            for each in read_result(path)["longer"]:
                length = each["task_arguments"]["length"]
                found.setdefault(model, {}).setdefault(length, []).append(100 * each["test"]["accuracy"])
    return found


def read_reach(task: str, folder: Path) -> dict[str, Any]:
    """What was measured of the reach on a task."""
    return read_result(folder / task / "reach.json")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; nothing, where there are no rows."""
    if not rows:
        return "(no results yet)"
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _table(entries: Sequence[Entry]) -> str:
    columns = list(dict.fromkeys(entry.column for entry in entries))
    head = [cell for column in columns for cell in (column, "paper")]
    rows = []
    for model in MODELS:
        row = {entry.column: entry for entry in entries if entry.model == model}
        if row:
            cells = [_with_paper(row.get(column)) for column in columns]
            rows.append([f"`{model}`", *(cell for pair in cells for cell in pair)])
    return markdown(["% right", *head], rows)


def _with_paper(entry: Entry | None) -> tuple[str, str]:
    if entry is None:
        return "", ""
    return f"{_mean(entry)} ({len(entry.values)})", f"{entry.paper:.1f}"


def _mean(entry: Entry) -> str:
    return f"{entry.mean:.1f} ± {entry.spread:.1f}" if len(entry.values) > 1 else f"{entry.mean:.1f}"


def _mean_of(values: Sequence[float] | None) -> str:
    return _mean(Entry("", "", tuple(values), None)) if values else ""


def _recipe(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that a recipe makes."""
    known = {field.name for field in dataclasses.fields(Config)} - NOT_OF_A_RECIPE
    return {name: value for name, value in config.items() if name in known} | config["switches"]


def _numeric(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return 0.0, text
