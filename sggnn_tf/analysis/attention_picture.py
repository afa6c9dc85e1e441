"""Who listened to whom: the attention of each step over the edges of one graph, as a picture of time against place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sggnn_tf.analysis.style import save
from sggnn_tf.tfgnn_bridge import tfgnn

FAINTEST = 0.03  # Weights below it are left out.


def draw_attention(
    graph: Any,
    weights: Sequence[dict[str, Any]],
    node_set: str,
    texts: Sequence[str],
    places: np.ndarray,
    path: str | Path,
    title: str = "",
) -> None:
    """Draws the way of messages between the nodes of a set, from the first states (below) to the last, to a PNG.

    A line from one row to the next is an edge; the heavier it is, the more its receiver listened. Each head has a
    panel.

    Args:
      graph: a merged `GraphTensor` of one graph.
      weights: what `Repeat.edge_weights` returns.
      node_set: the nodes that are drawn.
      texts: what to write for each node.
      places: where each node stands in a row.
      path: the picture.
      title: what stands above.
    """
    heads = max(each.shape[1] for step in weights for each in step.values())
    steps = len(weights)
    width = 1.5 + 0.55 * float(np.ptp(places) + 1)
    figure = Figure(figsize=(heads * width, 1.4 + 0.55 * steps), layout="constrained")
    for head, axes in enumerate(figure.subplots(1, heads, squeeze=False)[0]):
        for step, by_relation in enumerate(weights):
            for relation, values in by_relation.items():
                adjacency = graph.edge_sets[relation].adjacency
                if {adjacency.source_name, adjacency.target_name} != {node_set}:
                    continue
                weight = np.clip(np.asarray(values)[:, min(head, values.shape[1] - 1)], 0, 1)
                ends = places[np.stack([adjacency.source.numpy(), adjacency.target.numpy()], axis=1)]
                seen = weight >= FAINTEST
                lines = [[(start, step), (end, step + 1)] for start, end in ends[seen]]
                colours = [(0.1, 0.34, 0.77, float(each)) for each in weight[seen]]
                axes.add_collection(LineCollection(lines, colors=colours, linewidths=0.5 + 4.0 * weight[seen]))
        rows, columns = np.meshgrid(range(steps + 1), places, indexing="ij")
        axes.scatter(columns, rows, s=9, color="#444444", zorder=3)
        axes.set_xticks(places, texts)
        axes.set_yticks(range(steps + 1), ["start", *(f"step {step}" for step in range(1, steps + 1))])
        axes.tick_params(length=0)
        axes.set_xlim(places.min() - 0.6, places.max() + 0.6)
        axes.set_ylim(-0.4, steps + 0.4)
        axes.set_title(f"head {head + 1}", fontsize=10)
        for side in axes.spines.values():
            side.set_visible(False)
    figure.suptitle(title, fontsize=11)
    save(figure, path)


def edge_weights(model: Any, graph: Any) -> list[dict[str, np.ndarray]]:
    """How much each edge of a merged graph counted, in each step of a model: by edge set, `[edges, heads]`."""
    if not isinstance(graph, tfgnn.GraphTensor):
        raise ValueError(f"The attention of a GraphTensor can be looked at, not of a {type(graph).__name__}.")
    weights = model.encoder.edge_weights(model.initial_states(graph))
    return [{name: each.numpy() for name, each in step.items()} for step in weights]
