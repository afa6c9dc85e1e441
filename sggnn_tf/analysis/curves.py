"""Learning curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from sggnn_tf.analysis.style import save


def draw_curves(history: Sequence[Mapping[str, float]], path: str | Path) -> None:
    """Draws loss and accuracy of each epoch, in training and on `valid`, to a PNG."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    epochs = range(1, len(history) + 1)
    for axes, name in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
        for key, label, colour in ((name, "train", "#8a8a8a"), (f"val_{name}", "valid", "#1a56c4")):
            axes.plot(epochs, [epoch[key] for epoch in history], label=label, color=colour)
        axes.set_xlabel("epoch")
        axes.set_title(name, fontsize=10)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.axes[1].set_ylim(-0.02, 1.02)
    save(figure, path)
