"""What all pictures share: one colour a model, and how a figure becomes a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from sggnn_tf.files import write_whole

COLOURS = {
    "rgcn": "#8a8a8a",
    "ggnn": "#c98a1b",
    "rgat": "#7b4fb3",
    "sggnn-rv-gat": "#1a56c4",
    "ggnn-rv-gat": "#d1495b",
    "sggnn-rv-mean": "#2a9d8f",
    "sggnn-rm-gat": "#5fa8d3",
}


def colour(model: str) -> str:
    """The colour of a model."""
    return COLOURS.get(model, "#333333")


def save(figure: Figure, path: str | Path, about: str = "") -> None:
    """Writes a figure to a PNG, with a text about it in the file, if there is one."""
    write_whole(path, _bytes(figure, "png", dpi=110, metadata={"Description": about} if about else None))


def svg(figure: Figure) -> bytes:
    """A figure as an SVG, the same bytes each time."""
    with mpl.rc_context({"svg.hashsalt": "sggnn"}):
        return _bytes(figure, "svg", metadata={"Date": None})


def _bytes(figure: Figure, form: str, **options: Any) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format=form, **options)
    return picture.getvalue()
