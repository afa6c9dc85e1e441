"""Examples as pictures: nodes, coloured relations, who is asked and who holds the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from sggnn_tf import schema as schemas
from sggnn_tf.analysis.style import save
from sggnn_tf.graph import Graph
from sggnn_tf.tasks import Task
from sggnn_tf.tfgnn_bridge import is_auxiliary

ASKED, ANSWER, PLAIN = "#9ec5f4", "#f4a9a0", "#f3f3f3"
BEND = 0.17  # How far an edge is bent at its middle, so that the two directions between a pair of nodes are apart.
INCHES = 0.95  # Between neighbours.
FEW_EDGES = 40  # That many can be labelled one by one.


def draw_examples(task: Task, schema: Any, numbers: Sequence[int], path: str | Path) -> None:
    """Draws examples of a task, one below the other, to a PNG.

    Args:
      task: the task.
      schema: the schema of its graphs.
      numbers: the examples.
      path: the file.
    """
    graphs = [task.example(number) for number in numbers]
    places = [task.positions(graph) for graph in graphs]
    spans = [INCHES * (np.ptp(place, axis=0) + 1.2) for place in places]
    heights = [span[1] + 0.4 for span in spans]
    figure = Figure(figsize=(max(7.0, *(span[0] for span in spans)), sum(heights) + 0.7), layout="constrained")
    panels = figure.subplots(len(graphs), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, number, graph, place in zip(panels, numbers, graphs, places, strict=True):
        farthest = int(task.hops(graph).max())
        away = f"{farthest} hop{'' if farthest == 1 else 's'} away"
        what = "the answer is" if len(task.hops(graph)) == 1 else "the farthest answer is"
        axes.set_title(f"{task.name}, example {number}: {what} {away}", fontsize=10, loc="left")
        draw(axes, graph, schema, place, task.hops(graph))
    ordinary = [name for name in sorted(schema.edge_sets) if not is_auxiliary(name) and not _is_self(name)]
    is_single = len(task.hops(graphs[0])) == 1
    handles = _legend(ordinary, is_single)
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    save(figure, path)


def draw(axes: Axes, graph: Graph, schema: Any, positions: np.ndarray, hops: np.ndarray) -> None:
    """Draws a graph with one node set and a structured readout.

    One question: the node that is asked is blue, the one that holds the answer red. Several: their answers are in blue
    below the values of the nodes.
    """
    (node_set,) = (name for name in schema.node_sets if not is_auxiliary(name))
    (readout,) = (name for name in schema.edge_sets if is_auxiliary(name))
    asked = np.asarray(graph.edges[readout][0])
    values, labels = node_texts(graph, schema, node_set), node_texts(graph, schema, schema.edge_sets[readout].target)
    is_single = len(asked) == 1
    colours = dict.fromkeys(range(len(values)), PLAIN)
    if is_single:
        colours[int(asked[0])] = ASKED
        colours[_holder(graph, asked[0], labels[0], values, int(hops[0]))] = ANSWER
    _draw_edges(axes, graph, positions)
    for node, (x, y) in enumerate(positions):
        axes.scatter(x, y, s=620, color=colours[node], edgecolor="#444444", linewidth=1, zorder=3)
        axes.text(x, y if is_single else y + 0.08, values[node], ha="center", va="center", fontsize=10, zorder=4)
    if not is_single:
        for label, node in zip(labels, asked, strict=True):
            x, y = positions[node]
            axes.text(x, y - 0.1, label, ha="center", va="center", fontsize=8, color="#1a56c4", zorder=4)
    axes.set_xlim(positions[:, 0].min() - 0.6, positions[:, 0].max() + 0.6)
    axes.set_ylim(positions[:, 1].min() - 0.6, positions[:, 1].max() + 0.6)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_edges(axes: Axes, graph: Graph, positions: np.ndarray) -> None:
    ordinary = sorted(name for name in graph.edges if not is_auxiliary(name) and not _is_self(name))
    are_few = sum(len(graph.edges[name][0]) for name in ordinary) <= FEW_EDGES
    for name in ordinary:
        for source, target in zip(*graph.edges[name], strict=True):
            start, end = positions[source], positions[target]
            along = end - start
            bend = BEND / np.linalg.norm(along)  # Of a straight line of length 1.
            style: dict[str, Any] = {
                "arrowstyle": "-|>",
                "mutation_scale": 9,
                "linewidth": 1.1,
                "shrinkA": 13,
                "shrinkB": 13,
            }
            curve = f"arc3,rad={2 * bend}"
            axes.add_patch(FancyArrowPatch(start, end, color=_colour(name), connectionstyle=curve, zorder=2, **style))
            if are_few:  # Nearer to the start, so that the two directions do not meet.
                place = start + 0.42 * along + bend * np.array([along[1], -along[0]])
                box: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
                axes.text(
                    place[0],
                    place[1],
                    name,
                    ha="center",
                    va="center",
                    fontsize=6,
                    color=_colour(name),
                    bbox=box,
                    zorder=2,
                )


def _legend(relations: Sequence[str], is_single: bool) -> list[Line2D]:
    lines = [Line2D([], [], color=_colour(name), label=name) for name in relations]
    circle: dict[str, Any] = {"color": "none", "marker": "o", "markersize": 9, "markeredgecolor": "#444444"}
    if is_single:
        lines.append(Line2D([], [], markerfacecolor=ASKED, label="is asked", **circle))
        lines.append(Line2D([], [], markerfacecolor=ANSWER, label="holds the answer", **circle))
    else:
        lines.append(Line2D([], [], markerfacecolor=PLAIN, label="black: its value, blue: its answer", **circle))
    lines.append(Line2D([], [], color="none", label="(self: not drawn)"))
    return lines


def _holder(graph: Graph, asked: int, label: str, values: Sequence[str], hops: int) -> int:
    """The node that holds the answer: the one with its value, so many hops away."""
    reached, ring = {int(asked)}, {int(asked)}
    for _ in range(hops):
        pairs = [
            pair for name, ends in graph.edges.items() if not is_auxiliary(name) for pair in zip(*ends, strict=True)
        ]
        ring = {int(target) for source, target in pairs if source in ring} - reached
        reached |= ring
    return next(node for node in sorted(ring) if values[node] == label)


def node_texts(graph: Graph, schema: Any, set_name: str) -> list[str]:
    """The values of the first feature of a node set, as text."""
    features: Any = graph.nodes[set_name]
    name, values = next(iter(features.items()))
    words = schemas.vocabulary(schema, set_name, name)
    return [str(value) if words is None else words[value] for value in np.asarray(values).tolist()]


def _is_self(name: str) -> bool:
    return name == "self"


def _colour(relation: str) -> Any:
    """A colour for a relation, always the same: light for one direction, dark for the other."""
    names = ["next", "previous", "child_1", "child_1_of", "child_2", "child_2_of", "child_3", "child_3_of"]
    place = names.index(relation) if relation in names else sum(relation.encode())
    return colormaps["tab20"](place % 20)
