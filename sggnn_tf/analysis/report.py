"""Runs side by side on one page of HTML that needs no other file."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sggnn_tf import tasks
from sggnn_tf.analysis.style import colour, svg
from sggnn_tf.files import write_whole

NAMED = 8  # The most runs that a legend names one by one.
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 80rem; margin: 2rem auto; padding: 0 1.5rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
table { border-collapse: collapse; font-size: 14px } .wide { overflow-x: auto }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e3e3e3; white-space: nowrap }
th { font-weight: 600 } .text { text-align: left } .best { font-weight: 700; color: #1a56c4 }
img { max-width: 100%; margin-top: .5rem } details { border-bottom: 1px solid #e3e3e3; padding: .5rem 0 }
summary { cursor: pointer; font-weight: 600 } .side { display: flex; gap: 2rem; flex-wrap: wrap; align-items: start }
.note { color: #666 }
"""


class Run(NamedTuple):
    """What is known of a run."""

    name: str
    result: dict[str, Any]  # As `result.json`; of an unfinished run, its settings and history only.

    @property
    def config(self) -> dict[str, Any]:
        return self.result["config"]

    @property
    def is_finished(self) -> bool:
        return "valid" in self.result

    @property
    def figures(self) -> dict[str, Any]:
        """The figures on `test`, or on `valid` if there is no `test`."""
        return self.result.get("test") or self.result.get("valid") or {}

    @property
    def data(self) -> str:
        """What it was trained on."""
        task = self.config["task"]
        if task is None:
            return Path(self.config["data"]).name
        usual = {**tasks.make(task).arguments(), "length": None}  # A length is always worth telling.
        told = {k: v for k, v in self.config["task_arguments"].items() if k != "seed" and v != usual.get(k)}
        return ", ".join([task, *(f"{name} {value}" for name, value in told.items())])


def find_runs(folders: Iterable[str | Path]) -> list[Run]:
    """The runs in folders: each the folder of a run, or one with runs or their results below it."""
    runs: dict[Path, Run] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder}.")
        found = [*folder.rglob("config.json"), *folder.rglob("*-seed*.json")]
        for path in sorted(found):
            is_run = path.name == "config.json"
            place = path.parent if is_run else path
            runs[place.resolve()] = _read_run(place) if is_run else Run(path.stem, _read_json(path))
        if not found:
            raise ValueError(f"{folder} holds no run: there is no config.json, and no result, in it or below it.")
    names = _short_names(runs)
    return [run._replace(name=names[place]) for place, run in runs.items()]


def write_report(folders: Sequence[str | Path], path: str | Path) -> int:
    """Writes the page; returns the number of runs on it."""
    runs = find_runs(folders)
    write_whole(path, render(runs))
    return len(runs)


def render(runs: Sequence[Run]) -> str:
    """The page."""
    parts = [_summary(runs), _heading("Learning curves"), _picture(_curves(runs), "Learning curves")]
    for data in dict.fromkeys(run.data for run in runs):
        with_hops = [run for run in runs if run.data == data and "by_hops" in run.figures]
        if with_hops:
            parts += [_heading(f"By distance of the answer: {data}"), _picture(_hops(with_hops), "Accuracy by hops")]
    parts += [_heading("Each run"), *(_details(run) for run in runs)]
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>\n'
        f"<body>\n<h1>{html.escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _summary(runs: Sequence[Run]) -> str:
    head: tuple[str, ...] = (
        "run",
        "data",
        "model",
        "parameters",
        "epochs",
        "best",
        "minutes",
        "valid",
        "test",
        "whole graphs",
    )
    best = {data: max(_number(run, "accuracy") for run in runs if run.data == data) for data in {r.data for r in runs}}
    rows = []
    for run in runs:
        history = run.result["history"]
        done = run.is_finished
        accuracy = _percent(_number(run, "accuracy")) if done and "test" in run.result else ""
        if accuracy and _number(run, "accuracy") == best[run.data]:
            accuracy = f'<span class="best">{accuracy}</span>'
        several = run.figures.get("questions") != run.figures.get("graphs")
        valid = max((epoch["val_accuracy"] for epoch in history), default=float("nan"))
        rows.append(
            [
                html.escape(run.name) + ("" if done else ' <span class="note">(not finished)</span>'),
                html.escape(run.data),
                html.escape(run.config["model"]),
                f"{run.result['parameters']:,}" if done else "",
                str(len(history)),
                str(run.result.get("best_epoch", "")),
                f"{sum(epoch['seconds'] for epoch in history) / 60:.1f}",
                _percent(run.result["valid"]["accuracy"] if done else valid),
                accuracy,
                _percent(_number(run, "graph_accuracy")) if done and several else "",
            ]
        )
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return _table(head, rows, texts=3) + _floors(runs) + _means(runs)


def _floors(runs: Sequence[Run]) -> str:
    """What needs no model, for each data set."""
    first = {run.data: run.figures["floors"] for run in reversed(runs) if "floors" in run.figures}
    texts = [
        f"{data}: {', '.join(f'{name} {_percent(value)}' for name, value in floors.items())}"
        for data, floors in first.items()
    ]
    return f'<p class="note">Without a model: {html.escape("; ".join(texts))}.</p>' if texts else ""


def _means(runs: Sequence[Run]) -> str:
    """Mean and spread of the runs that differ in nothing but their seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run.is_finished:
            config = {k: v for k, v in run.config.items() if k not in ("seed", "task_arguments")}
            arguments = {k: v for k, v in run.config["task_arguments"].items() if k != "seed"}
            groups.setdefault(json.dumps([config, arguments], sort_keys=True), []).append(run)
    rows = []
    for group in groups.values():
        if len(group) > 1:
            values = [100 * run.figures["accuracy"] for run in group]
            mean = f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f} %"
            rows.append([html.escape(group[0].data), html.escape(group[0].config["model"]), str(len(group)), mean])
    head = ("data", "model", "seeds", "mean ± spread")
    return _heading("Over seeds") + _table(head, rows, texts=2) if rows else ""


def _details(run: Run) -> str:
    """A run with all its figures and settings, folded up."""
    tables = []
    for key, what in (("by_rule", "rule"), ("by_hops", "hops")):
        groups = run.figures.get(key, {})
        rows = [
            [html.escape(name), f"{each['questions']:,}", _percent(each["accuracy"])] for name, each in groups.items()
        ]
        if rows:
            tables.append(_table((what, "questions", "right"), rows))
    settings = {**run.config, **run.config["switches"], **run.result.get("versions", {})}
    rows = [
        [html.escape(name), html.escape(json.dumps(value))] for name, value in settings.items() if name != "switches"
    ]
    tables.append(_table(("setting", ""), rows))
    return f'<details><summary>{html.escape(run.name)}</summary><div class="side">{"".join(tables)}</div></details>'


def _curves(runs: Sequence[Run]) -> Figure:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axes, (key, title) in zip(
        figure.subplots(1, 2), (("val_loss", "loss on valid"), ("val_accuracy", "accuracy on valid")), strict=True
    ):
        for run, look in zip(runs, _looks(runs), strict=True):
            values = [epoch[key] for epoch in run.result["history"]]
            axes.plot(range(1, len(values) + 1), values, **look)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
    figure.axes[1].set_ylim(-0.02, 1.02)
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def _hops(runs: Sequence[Run]) -> Figure:
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    axes = figure.subplots()
    for run, look in zip(runs, _looks(runs), strict=True):
        hops = sorted(int(name) for name in run.figures["by_hops"])
        values = [run.figures["by_hops"][str(each)]["accuracy"] for each in hops]
        axes.plot(hops, values, marker="o", markersize=4, **look)
    axes.set_xlabel("hops from the node that answers to the one that holds the answer")
    axes.set_ylabel("right")
    axes.set_ylim(-0.02, 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _looks(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Colour, dashes and label of each run's line; the legend has all runs if they are few, else one of each model."""
    looks: list[dict[str, Any]] = []
    count: dict[str, int] = {}
    for run in runs:
        model = run.config["model"]
        number = count[model] = count.get(model, -1) + 1
        dashes = ("-", "--", ":", "-.")[number % 4] if len(runs) <= NAMED else "-"
        label = run.name if len(runs) <= NAMED else "_" if number else model  # Matplotlib leaves out "_".
        looks.append({"color": colour(model), "linestyle": dashes, "label": label, "alpha": 0.8})
    return looks


def _read_run(folder: Path) -> Run:
    if (folder / "result.json").exists():
        return Run(folder.name, _read_json(folder / "result.json"))
    path = folder / "metrics.jsonl"
    try:
        history = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
    return Run(folder.name, {**_read_json(folder / "config.json"), "history": history})


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}.") from None
    if not isinstance(content, dict) or "config" not in content:
        raise ValueError(f"{path} is not of a run: it has no 'config'.")
    return content


def _short_names(places: Iterable[Path]) -> dict[Path, str]:
    """Names of the fewest last parts of a path that tell all apart."""
    places = list(places)
    for length in range(1, max(len(place.parts) for place in places) + 1):
        names = {place: "/".join(place.parts[-length:]).removesuffix(".json") for place in places}
        if len(set(names.values())) == len(places):
            break
    return names


def _number(run: Run, name: str) -> float:
    return run.figures.get(name, float(np.nan)) if run.is_finished else -1.0


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.1f} %"


def _heading(text: str) -> str:
    return f"<h2>{html.escape(text)}</h2>"


def _picture(figure: Figure, text: str) -> str:
    content = base64.b64encode(svg(figure)).decode()
    return f'<img alt="{html.escape(text)}" src="data:image/svg+xml;base64,{content}">'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table of cells that are HTML already; the first columns are texts, the others numbers."""
    kinds = [' class="text"' if place < texts else "" for place in range(len(head))]
    top = "".join(f"<th{kind}>{html.escape(each)}</th>" for kind, each in zip(kinds, head, strict=True))
    lines = ("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return f'<div class="wide"><table><tr>{top}</tr>\n{body}</table></div>'
