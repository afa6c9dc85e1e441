"""All pictures that results give, each with what it shows written into the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sggnn_tf.analysis.lines_picture import draw_lines
from sggnn_tf.analysis.reach_picture import draw_reach, panels, title_of
from sggnn_tf.analysis.table_picture import draw_table
from sggnn_tf.training.table_text import read_longer, read_reach
from sggnn_tf.training.tables import Entry, read_table


def shown(task: str, folder: Path) -> dict[str, Any]:
    """What each picture of a task shows, by the name of its file: only those for which there are results."""
    found: dict[str, Any] = {}
    entries = _bars(read_table(task, folder))
    if entries:
        found[f"{task}.png"] = [[*entry] for entry in entries]
    longer = read_longer(task, folder)
    if longer:
        found[f"{task}_longer.png"] = longer
    if (folder / task / "reach.json").exists():
        found[f"{task}_reach.png"] = read_reach(task, folder)["reach"]
    return json.loads(json.dumps(found))


def draw_all(task: str, folder: Path, picture: Path | None = None) -> list[Path]:
    """Draws what there is of a task, in the folder of its results; `picture` is where to draw the table instead."""
    drawn = []
    for name, content in shown(task, folder).items():
        path = folder / name
        about = json.dumps(content)
        if name.endswith("_longer.png"):
            lines = {model: {int(x): values for x, values in each.items()} for model, each in content.items()}
            draw_lines(lines, "characters of a string", "% right on test", path, about=about)
        elif name.endswith("_reach.png"):
            draw_reach(panels(content), path, title_of(read_reach(task, folder)), about=about)
        else:
            path = picture or path
            draw_table(_bars(read_table(task, folder)), f"{task}, mean over seeds", path, about=about)
        drawn.append(path)
    return drawn


def _bars(entries: list[Entry]) -> list[Entry]:
    """The entries to draw: those of the paper's own table; all, where there are none of it."""
    return [entry for entry in entries if entry.paper is not None] or entries
