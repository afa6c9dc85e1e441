"""One graph as plain arrays: what a task generates and what one brings along."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

Arrays = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Graph:
    """A graph as NumPy arrays, or anything that NumPy takes for an array, by the names of its schema.

    Attributes:
      nodes: for each node set its features, arrays whose first axis is the nodes; or the number of its nodes, if it
        has no features.
      edges: for each edge set `(sources, targets)`, two lists of node numbers: sources count from 0 in the edge set's
        source node set, targets in its target node set. An edge set that is left out has no edges.
      edge_features: for each edge set with features, arrays whose first axis is the edges.
      context: features of the graph as a whole.

    Where a schema has a vocabulary for a feature, its values may be strings; they are turned into ids.

    Example: the string "ab" whose last node is asked for the first one's letter.

    ```python
    Graph(
        nodes={"char": {"symbol": ["a", "b"]}, "_readout": {"label": ["a"]}},
        edges={"next": ([0], [1]), "_readout/target": ([1], [0])},
    )
    ```
    """

    nodes: Mapping[str, Arrays | int]
    edges: Mapping[str, tuple[Any, Any]]
    edge_features: Mapping[str, Arrays] = dataclasses.field(default_factory=dict)
    context: Arrays = dataclasses.field(default_factory=dict)
