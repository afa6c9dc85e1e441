"""Graphs from NetworkX."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import networkx as nx

from sggnn_tf.graph import Graph
from sggnn_tf.tfgnn_bridge import is_auxiliary

NODE_SET = "node_set"


def from_networkx(graph: nx.MultiDiGraph, schema: Any) -> Graph:
    """A NetworkX graph as arrays, by a schema.

    Args:
      graph: a `MultiDiGraph`. The key of an edge is its edge set: `graph.add_edge(u, v, key="next")`. The attribute
        `node_set` of a node is its node set; if the schema has only one, it may be left out. Features are attributes:
        of nodes, of edges, and in `graph.graph` those of the context. For a structured readout, the nodes that have the
        features of `_readout` as attributes are those that are asked, in the order of the graph.
      schema: a `tfgnn.GraphSchema`. Attributes that it does not name are left out.

    Example:

    ```python
    graph = networkx.MultiDiGraph()
    graph.add_node("first", symbol="a")
    graph.add_node("last", symbol="b", label="a")
    graph.add_edge("first", "last", key="next")
    examples = Examples.from_graphs([from_networkx(graph, schema)], schema)
    ```
    """
    if not (graph.is_directed() and graph.is_multigraph()):
        raise ValueError(
            f"A networkx.MultiDiGraph is needed, whose edges have a direction and a key; this is a "
            f"{type(graph).__name__}. For an undirected graph, add each edge in both directions."
        )
    ordinary = [name for name in schema.node_sets if not is_auxiliary(name)]
    members: dict[str, list[Hashable]] = {name: [] for name in ordinary}
    for node, attributes in graph.nodes(data=True):
        name = attributes.get(NODE_SET, ordinary[0] if len(ordinary) == 1 else None)
        if name not in members:
            raise ValueError(f"The node {node!r} is of the node set {name!r}; the schema has {sorted(ordinary)}.")
        members[name].append(node)
    number = {node: place for nodes in members.values() for place, node in enumerate(nodes)}
    node_set_of = {node: name for name, nodes in members.items() for node in nodes}

    nodes: dict[str, Any] = {}
    for name, names in members.items():
        features = sorted(schema.node_sets[name].features)
        owners = [(f"the node {node!r}", graph.nodes[node]) for node in names]
        nodes[name] = _columns(owners, features) if features else len(names)

    edges: dict[str, tuple[list[int], list[int]]] = {
        name: ([], []) for name in schema.edge_sets if not is_auxiliary(name)
    }
    edge_owners: dict[str, list[tuple[str, dict[str, Any]]]] = {name: [] for name in edges}
    for source, target, key, attributes in graph.edges(keys=True, data=True):
        where = f"the edge from {source!r} to {target!r} with the key {key!r}"
        if key not in edges:
            raise ValueError(f"The key of an edge is its edge set, one of {sorted(edges)}; not so of {where}.")
        piece = schema.edge_sets[key]
        if (node_set_of[source], node_set_of[target]) != (piece.source, piece.target):
            raise ValueError(
                f"The edge set {key!r} leads from {piece.source!r} to {piece.target!r}, but {where} from "
                f"{node_set_of[source]!r} to {node_set_of[target]!r}."
            )
        edges[key][0].append(number[source])
        edges[key][1].append(number[target])
        edge_owners[key].append((where, attributes))
    edge_features = {
        name: _columns(owners, sorted(schema.edge_sets[name].features)) for name, owners in edge_owners.items()
    }

    for name in schema.edge_sets:
        if is_auxiliary(name):  # A readout: from the nodes that are asked.
            piece = schema.edge_sets[name]
            features = sorted(schema.node_sets[piece.target].features)
            asked = [node for node in members[piece.source] if set(features) <= graph.nodes[node].keys()]
            nodes[piece.target] = _columns([(f"the node {node!r}", graph.nodes[node]) for node in asked], features)
            edges[name] = ([number[node] for node in asked], list(range(len(asked))))
    context = {name: graph.graph[name] for name in schema.context.features if name in graph.graph}
    return Graph(nodes=nodes, edges=edges, edge_features=edge_features, context=context)


def _columns(owners: Sequence[tuple[str, dict[str, Any]]], features: Sequence[str]) -> dict[str, list[Any]]:
    """The features of these nodes or edges, a list each."""
    for where, attributes in owners:
        for name in features:
            if name not in attributes:
                raise ValueError(f"The attribute {name!r} is missing at {where}.")
    return {name: [attributes[name] for _, attributes in owners] for name in features}
