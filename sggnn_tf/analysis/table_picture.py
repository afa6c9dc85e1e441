"""A table of results as a picture: a bar a model, with its spread, and the paper's value as a mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sggnn_tf.analysis.style import colour, save


class Entry(Protocol):
    """A place of a table."""

    @property
    def model(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def values(self) -> tuple[float, ...]: ...
    @property
    def paper(self) -> float | None: ...
    @property
    def mean(self) -> float: ...
    @property
    def spread(self) -> float: ...


def draw_table(entries: Sequence[Entry], title: str, path: str | Path, about: str = "") -> None:
    """Draws the columns of a table side by side to a PNG.

    Args:
      entries: the places of the table that are filled, in percent.
      title: what stands above.
      path: the picture.
      about: what it shows, to be written into the file.
    """
    if not entries:
        raise ValueError("There are no results to draw.")
    columns = list(dict.fromkeys(entry.column for entry in entries))
    models = list(dict.fromkeys(entry.model for entry in entries))
    width = 0.8 / len(models)
    figure = Figure(figsize=(max(5.0, 2.4 * len(columns) + 1.5), 4.0), layout="constrained")
    axes = figure.subplots()
    for entry in entries:
        place = columns.index(entry.column) + (models.index(entry.model) - (len(models) - 1) / 2) * width
        axes.bar(place, entry.mean, 0.9 * width, color=colour(entry.model))
        if len(entry.values) > 1:
            axes.errorbar(place, entry.mean, entry.spread, color="black", capsize=2, linewidth=1)
        if entry.paper is not None:
            axes.hlines(entry.paper, place - width / 2, place + width / 2, color="black", linewidth=2)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_ylim(0, 105)
    axes.set_ylabel("% right on test")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    axes.set_title(title, fontsize=11)
    keys = [Line2D([], [], color=colour(model), linewidth=6, label=model) for model in models]
    if any(entry.paper is not None for entry in entries):
        keys.append(Line2D([], [], color="black", linewidth=2, label="in the paper"))
    axes.legend(handles=keys, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path, about)
