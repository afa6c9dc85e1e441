"""A figure of models against a number, as a picture: a line a model, through the means of its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sggnn_tf.analysis.style import colour, save


def draw_lines(
    lines: Mapping[str, Mapping[int, Sequence[float]]], x: str, y: str, path: str | Path, about: str = ""
) -> None:
    """Draws lines with the span of their seeds to a PNG.

    Args:
      lines: by model and number, a value for each seed, in percent.
      x, y: what the axes are.
      path: the picture.
      about: what it shows, to be written into the file.
    """
    figure = Figure(figsize=(7.2, 3.9), layout="constrained")
    axes = figure.subplots()
    for model, values in lines.items():
        places = sorted(values)
        axes.plot(places, [np.mean(values[place]) for place in places], marker="o", color=colour(model), label=model)
        low, high = ([limit(values[place]) for place in places] for limit in (min, max))
        axes.fill_between(places, low, high, color=colour(model), alpha=0.15, linewidth=0)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_ylim(-2, 102)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save(figure, path, about)
