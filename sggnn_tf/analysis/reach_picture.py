"""Gradient reach as a picture: a panel for each moment of training, a line for each model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sggnn_tf.analysis.style import colour, save

SMALLEST = 1e-12  # Below it a norm is none, in 32 bits.

Lines = Mapping[str, Mapping[int, float]]
"""By model, the mean norm at each distance."""


def draw_reach(panels: Mapping[str, Lines], path: str | Path, title: str = "", about: str = "") -> None:
    """Draws the mean norm of the Jacobians against the distance to a PNG.

    Args:
      panels: by the title of a panel, its lines.
      path: the picture.
      title: what stands above all.
      about: what it shows, to be written into the file.
    """
    figure = Figure(figsize=(4.6 * len(panels) + 1.6, 3.9), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (name, lines) in zip(axes, panels.items(), strict=True):
        for model, by_hop in lines.items():
            drawn = {hop: norm for hop, norm in sorted(by_hop.items()) if norm > SMALLEST}
            panel.plot(list(drawn), list(drawn.values()), marker="o", markersize=3, color=colour(model), label=model)
        panel.set_yscale("log")
        panel.set_xlabel("hops from the node that is asked")
        panel.set_title(name, fontsize=10)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel(r"$\|\partial h_v^{(K)} / \partial h_u^{(0)}\|_F$, mean over pairs")
    axes[-1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(title, fontsize=11)
    save(figure, path, about)


def panels(measured: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[int, float]]]:
    """The panels of what was measured, by model and number of epochs."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for model, by_epoch in measured.items():
        for epoch, figures in by_epoch.items():
            title = "at the start" if epoch == "0" else f"after {epoch} epochs"
            found.setdefault(title, {})[model] = {int(hop): norm for hop, norm in figures["by_hop"].items()}
    return found


def title_of(measured: Mapping[str, Any]) -> str:
    """What a picture of a measurement is of: the task and its arguments."""
    words = ", ".join(f"{name} {value}" for name, value in measured["task_arguments"].items())
    return f"{measured['task']} {words}".strip()
