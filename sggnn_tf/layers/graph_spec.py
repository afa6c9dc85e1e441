"""The description of a graph that a model is built for: made, checked, compared, stored."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Mapping
from typing import Any

from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn


def as_graph_spec(description: Any) -> Any:
    """Returns the `GraphTensorSpec` of any number and size of graphs like the one described.

    Args:
      description: a `tfgnn.GraphTensor`, a `tfgnn.GraphTensorSpec` or a `tfgnn.GraphSchema`.
    """
    if isinstance(description, tfgnn.GraphSchema):
        spec = tfgnn.create_graph_spec_from_schema_pb(description)
    elif isinstance(description, tfgnn.GraphTensor):
        spec = description.spec
    elif isinstance(description, tfgnn.GraphTensorSpec):
        spec = description
    else:
        raise ValueError(
            "A graph is described by a tfgnn.GraphSchema, a tfgnn.GraphTensorSpec or a tfgnn.GraphTensor, "
            f"not by a {type(description).__name__}."
        )
    _check_endpoints(spec)
    if spec.rank > 0:  # A batch, for a model that merges it itself; its sizes are ragged, so free already.
        return spec
    return spec.relax(num_components=True, num_nodes=True, num_edges=True)


def to_text(spec: Any) -> str:
    """Writes a spec as text, exactly, for a configuration file."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Encoding a StructuredValue with type tensorflow_gnn")
        proto = spec.experimental_as_proto()
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode("ascii")


def from_text(text: str) -> Any:
    """Reads what `to_text` wrote."""
    proto_type = tfgnn.GraphTensorSpec.experimental_type_proto()
    proto = proto_type.FromString(base64.b64decode(text))
    return tfgnn.GraphTensorSpec.experimental_from_proto(proto)


def check_matches(found: Any, expected: Any, reader: str) -> None:
    """Refuses a graph that is not of the kind a model was built for.

    The graph must have the node sets, edge sets and features that the model was built with, of the same
    type and shape, and no other node or edge set: the model would not see it. Other features are
    harmless, and auxiliary sets (`_readout`, which holds labels in training only) may come and go.
    """
    if found.rank != expected.rank:
        raise ValueError(
            f"{reader} was built for graphs of shape {expected.shape} and got {found.shape}: merge batches with "
            "`.map(lambda graph: graph.merge_batch_to_components())` after `.batch(...)`."
        )
    _check_features(found.context_spec, expected.context_spec, "the context", reader)
    for kind in ("node set", "edge set"):
        found_sets, expected_sets = _ordinary_sets(found, kind), _ordinary_sets(expected, kind)
        if found_sets.keys() != expected_sets.keys():
            missing = sorted(expected_sets.keys() - found_sets.keys())
            unknown = sorted(found_sets.keys() - expected_sets.keys())
            raise ValueError(
                f"{reader} was built for the {kind}s {sorted(expected_sets)}, but the graph has "
                f"{sorted(found_sets)}: {missing or 'none'} missing, {unknown or 'none'} never seen. "
                f"An empty {kind} still has to be there; a new one needs a new model."
            )
        for name, expected_set in expected_sets.items():
            where = f"the {kind} {name!r}"
            _check_features(found_sets[name], expected_set, where, reader)
            if kind == "edge set":
                _check_adjacency(found_sets[name], expected_set, where, reader)


def _ordinary_sets(spec: Any, kind: str) -> dict[str, Any]:
    sets = spec.node_sets_spec if kind == "node set" else spec.edge_sets_spec
    return {name: piece for name, piece in sets.items() if not is_auxiliary(name)}


def _check_features(found: Any, expected: Any, where: str, reader: str) -> None:
    found_features: Mapping[str, Any] = found.features_spec
    for name, spec in expected.features_spec.items():
        if name not in found_features:
            raise ValueError(
                f"{reader} was built for the feature {name!r} of {where}, which has "
                f"{sorted(found_features) or 'no features'}."
            )
        value = found_features[name]
        item, expected_item = value.shape[found.rank + 1 :], spec.shape[expected.rank + 1 :]
        if value.dtype != spec.dtype or not item.is_compatible_with(expected_item):
            raise ValueError(
                f"{reader} was built for the feature {name!r} of {where} as {spec.dtype.name} of shape "
                f"{expected_item} an item, and got {value.dtype.name} of shape {item}."
            )


def _check_adjacency(found: Any, expected: Any, where: str, reader: str) -> None:
    for tag, end in ((tfgnn.SOURCE, "starts"), (tfgnn.TARGET, "ends")):
        found_end = found.adjacency_spec.node_set_name(tag)
        expected_end = expected.adjacency_spec.node_set_name(tag)
        if found_end != expected_end:
            raise ValueError(
                f"{reader} was built for {where} that {end} in the node set {expected_end!r}, and got one that {end} "
                f"in {found_end!r}."
            )


def _check_endpoints(spec: Any) -> None:
    for name, edge_set in spec.edge_sets_spec.items():
        for node_set_name, _ in edge_set.adjacency_spec.get_index_specs_dict().values():
            if node_set_name not in spec.node_sets_spec:
                raise ValueError(
                    f"The edge set {name!r} ends in the node set {node_set_name!r}, but the graph has "
                    f"{sorted(spec.node_sets_spec)}. Add the node set, or mend the edge set's source or target."
                )
