"""Benchmarks as pictures: the time of each side, and how time and memory grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sggnn_tf.analysis.style import colour, save

OTHERS = {"pytorch": "#c44e52", "pyg": "#dd8452", "tfgnn-keras2": "#2e8b57"}


def draw_bench(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draws a bar for each row of a benchmark to a PNG, those of a task in a panel, with its time beside it."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    heights = [sum(row["task"] == task for row in rows) + 2 for task in tasks]
    figure = Figure(figsize=(9, 0.6 + 0.26 * sum(heights)), layout="constrained")
    panels = figure.subplots(len(tasks), squeeze=False, height_ratios=heights)[:, 0]
    for task, axes in zip(tasks, panels, strict=True):
        shown = [row for row in rows if row["task"] == task]
        longest = max(row["seconds"] for row in shown)
        for place, row in enumerate(shown):
            axes.barh(place, 1000 * row["seconds"], xerr=1000 * row["spread"], color=_colour(row), ecolor="0.3")
            text = f"{1000 * row['seconds']:.0f} ms"
            if "of_gemm" in row:
                text += f", {row['of_gemm']:.0%} of its products' rate"
            axes.text(1000 * (row["seconds"] + row["spread"] + 0.01 * longest), place, text, va="center", fontsize=8)
        axes.set_yticks(range(len(shown)), [_label(row) for row in shown], fontsize=8)
        axes.invert_yaxis()
        axes.set_title(task, loc="left", fontsize=10)
        axes.set_xlim(0, 1350 * longest)
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
    panels[-1].set_xlabel("milliseconds")
    save(figure, path)


def draw_scaling(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draws time and memory against each quantity, on logarithmic axes, to a PNG. The dotted lines are linear."""
    names = [axis for axis in dict.fromkeys(row["axis"] for row in rows) if axis in rows[0]]
    figure = Figure(figsize=(3 * len(names), 5.2), layout="constrained")
    panels = figure.subplots(2, len(names), sharey="row", squeeze=False)
    for column, name in enumerate(names):
        shown = sorted((row for row in rows if row["axis"] == name), key=lambda row: row[name])
        x = [row[name] for row in shown]
        for axes, key, label in zip(panels[:, column], ("seconds", "peak_mib"), ("seconds a step", "MiB"), strict=True):
            y = [row[key] for row in shown]
            axes.loglog(x, y, "o-", color=colour("sggnn-rv-gat"))
            if name != "relations":
                axes.loglog(x, [y[-1] * each / x[-1] for each in x], ":", color="0.5")
            axes.set_xticks(x, [f"{each:,}" for each in x])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
            if column == 0:
                axes.set_ylabel(label)
        panels[1, column].set_xlabel(name)
    save(figure, path)


def _colour(row: Mapping[str, Any]) -> str:
    return OTHERS.get(row["library"]) or colour(row["model"])


def _label(row: Mapping[str, Any]) -> str:
    compiled = {"pytorch": ", compiled", "sggnn_tf": ", XLA"}.get(row["library"], "") if row["jit"] else ""
    where = "" if row["library"] == "sggnn_tf" else f"{row['library']} "
    return (
        f"{where}{row['model']}  D={row['units']} K={row['steps']} batch {row['batch_size']}  {row['mode']}{compiled}"
    )
