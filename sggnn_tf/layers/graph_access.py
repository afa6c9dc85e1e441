"""Reading a piece of a graph, with an error that names what is missing and what there is instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sggnn_tf.tfgnn_bridge import tfgnn

Tag = int | str
"""`tfgnn.SOURCE`, `tfgnn.TARGET` or `tfgnn.CONTEXT`."""

Names = str | Sequence[str] | None
"""One name, several, or none: of features, or of sets."""


def node_set(graph: Any, name: str, reader: str) -> Any:
    """Returns the node set (or its spec), or says which ones there are."""
    return _lookup(_pieces(graph, "node_sets"), name, "node set", reader)


def edge_set(graph: Any, name: str, reader: str) -> Any:
    """Returns the edge set (or its spec), or says which ones there are."""
    return _lookup(_pieces(graph, "edge_sets"), name, "edge set", reader)


def node_set_at(graph: Any, edge_set_name: str, tag: Tag, reader: str) -> Any:
    """Returns the node set at the `tag` end (`tfgnn.SOURCE` or `tfgnn.TARGET`) of an edge set."""
    adjacency = edge_set(graph, edge_set_name, reader).adjacency
    return node_set(graph, adjacency.node_set_name(tag), reader)


def feature(piece: Any, name: str, where: str, reader: str) -> Any:
    """Returns one feature of a graph piece, or says which ones it has."""
    try:
        return piece.features[name]
    except KeyError:
        raise ValueError(
            f"{reader} reads the feature {name!r} of {where}, which has {_names(piece.features)}. Make it before "
            f"(MapFeatures names a single result {tfgnn.HIDDEN_STATE!r}), or name another feature."
        ) from None


def feature_or_features(piece: Any, names: Names, where: str, reader: str) -> Any:
    """Returns one feature for one name, a dict of them for several, an empty dict for none."""
    if isinstance(names, str):
        return feature(piece, names, where, reader)
    return {name: feature(piece, name, where, reader) for name in names or ()}


def name_or_names(names: Names) -> str | tuple[str, ...] | None:
    """A copy of what a user gave, so that a list changed later changes no layer."""
    return names if names is None or isinstance(names, str) else tuple(names)


def check_merged(graph: Any, reader: str) -> None:
    """Refuses a batch of graphs that was not merged into one graph with a component each."""
    if graph.rank != 0:
        raise ValueError(
            f"{reader} works on a scalar GraphTensor, but got one of shape {graph.shape}: a batch that was not "
            "merged. Add `.map(lambda graph: graph.merge_batch_to_components())` after `.batch(...)`."
        )


def _pieces(graph: Any, kind: str) -> Mapping[str, Any]:
    return getattr(graph, kind if isinstance(graph, tfgnn.GraphTensor) else f"{kind}_spec")


def _lookup(pieces: Mapping[str, Any], name: str, kind: str, reader: str) -> Any:
    if name not in pieces:
        raise ValueError(f"{reader} reads the {kind} {name!r}, but the graph has {_names(pieces)}.")
    return pieces[name]


def _names(mapping: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in sorted(mapping)) or "none"
