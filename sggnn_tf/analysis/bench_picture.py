"""A benchmark as a picture: how much of the rate of its own matrix products each model reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sggnn_tf.analysis.style import colour, save

HATCH = {("train", False): "", ("train", True): "//", ("predict", False): "..", ("predict", True): "xx"}


def draw_bench(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Draws a bar for each row of a benchmark to a PNG, with its time beside it."""
    figure = Figure(figsize=(9, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        hatch = HATCH[row["mode"], row["jit"]]
        axes.barh(place, 100 * row["of_gemm"], color=colour(row["model"]), hatch=hatch, edgecolor="white", linewidth=0)
        axes.text(100 * row["of_gemm"] + 1, place, f"{1000 * row['seconds']:.0f} ms", va="center", fontsize=8)
    labels = [
        f"{row['task']}  {row['model']}  D={row['units']} K={row['steps']} batch {row['batch_size']}  "
        f"{row['mode']}{', XLA' if row['jit'] else ''}"
        for row in rows
    ]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("% of the rate of the model's own matrix products")
    axes.set_xlim(0, max(100, *(115 * row["of_gemm"] for row in rows)))
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    save(figure, path)
