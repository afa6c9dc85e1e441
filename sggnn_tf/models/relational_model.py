"""The paper's models, on any schema."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf.layers import GraphUpdate, Pool, Readout, StructuredReadout
from sggnn_tf.layers.initial_states import CATEGORICAL, DENSE, InitialStates
from sggnn_tf.layers.initializers import UniformFanIn
from sggnn_tf.layers.repeat import Repeat
from sggnn_tf.models import registry
from sggnn_tf.models.graph_model import GraphModel
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn

READOUT = "_readout"


@keras.saving.register_keras_serializable("sggnn_tf")
class RelationalModel(GraphModel):
    """A model of the registry on the graphs of a schema: initial states, K steps, a readout and a linear head.

    Args:
      model: the name, one of `sggnn_tf.models.MODELS`.
      schema: a `tfgnn.GraphSchema`. Its ordinary edge sets are the relations, each read by the node set at its
        target; categorical features have their size in it (see `sggnn_tf.schema`).
      units: the width D of the states.
      steps: the number K of steps.
      label: what is predicted, and so where it is read: `_readout/FEATURE` (TF-GNN's structured readout),
        `NODE_SET/FEATURE` (every node of the set) or `context/FEATURE` (a graph, by the mean of its nodes). The
        label is no input. By default `_readout/label`.
      embedding_units: the width of embeddings of categorical features, before they are projected to `units`.
      embedding_stddev, embedding_gain, node_dropout: see `InitialStates`.
      ignore: features that the model shall not read, as `SET/FEATURE`. Edge features have to be here: these models
        know edges by their relation only.
      shared: whether the steps share their weights; by default as the model has it (all but `rgat` do).
      unroll, recompute: see `Repeat`.
      **switches: arguments of the model's parts, such as `dropout`, `gate_bias` or `num_heads`.

    Call arguments:
      graph: a scalar `GraphTensor` of the schema.

    Returns:
      Scores (logits), a row for each thing that is predicted.
    """

    def __init__(
        self,
        model: str,
        schema: Any,
        *,
        units: int,
        steps: int,
        label: str = f"{READOUT}/label",
        embedding_units: int = 20,
        embedding_stddev: float = 1.0,
        embedding_gain: float = 1.0,
        node_dropout: float = 0.0,
        ignore: list[str] | tuple[str, ...] = (),
        shared: bool | None = None,
        unroll: int = 2,
        recompute: bool = False,
        **switches: Any,
    ) -> None:
        keras_arguments = {key: switches.pop(key) for key in ("name", "dtype", "trainable") if key in switches}
        super().__init__(**keras_arguments)
        parts = registry.find(model)
        if isinstance(schema, str):
            schema = schemas.from_text(schema)
        self.settings = {
            "model": model,
            "schema": schemas.to_text(schema),
            "units": units,
            "steps": steps,
            "label": label,
            "embedding_units": embedding_units,
            "embedding_stddev": embedding_stddev,
            "embedding_gain": embedding_gain,
            "node_dropout": node_dropout,
            "ignore": list(ignore),
            "shared": shared,
            "unroll": unroll,
            "recompute": recompute,
            **switches,
        }
        for each in ignore:
            _check_feature(schema, each, "ignore")
        policy = self.dtype_policy
        self.initial_states = _initial_states(
            schema,
            {label, *ignore},
            units=units,
            embedding_units=embedding_units,
            embedding_stddev=embedding_stddev,
            embedding_gain=embedding_gain,
            node_dropout=node_dropout,
            dtype=policy,
        )
        updates = {
            node_set: registry.node_set_update(model, units, relations, switches, policy)
            for node_set, relations in _relations(schema).items()
        }
        self.encoder = Repeat(
            GraphUpdate(node_sets=updates, dtype=policy),
            steps,
            shared=parts.shared if shared is None else shared,
            unroll=unroll,
            recompute=recompute,
            dtype=policy,
        )
        self.readout = _readout(schema, label)
        self.head = keras.layers.Dense(
            _num_classes(schema, label),
            kernel_initializer=UniformFanIn(units),
            bias_initializer=UniformFanIn(units),
            dtype="float64" if policy.name == "float64" else "float32",  # Scores are not worth rounding.
        )

    @property
    def label(self) -> str:
        """What is predicted, and so where it is read."""
        return self.settings["label"]

    def build(self, graph_spec: Any = None) -> None:
        """Creates all weights. Graphs to come need neither the label nor what is ignored."""
        if isinstance(graph_spec, tfgnn.GraphSchema):
            schema, graph_spec = graph_spec, type(graph_spec)()
            graph_spec.CopyFrom(schema)
            for each in (self.settings["label"], *self.settings["ignore"]):
                set_name, feature_name = schemas.split_label(each)
                schemas.feature_set(graph_spec, set_name).features.pop(feature_name, None)
        super().build(graph_spec)

    def call(self, graph: Any, training: bool | None = None) -> Any:
        graph = self.encoder(self.initial_states(graph, training=training), training=training)
        return self.head(self.readout(graph))

    def get_config(self) -> dict[str, Any]:
        config = {key: value for key, value in super().get_config().items() if key in ("name", "dtype", "trainable")}
        return {**config, **self.settings}


def build_model(name: str, schema: Any, *, units: int, steps: int, **options: Any) -> RelationalModel:
    """Makes a model by name and builds it for a schema: all weights exist, and no data was needed.

    Args:
      name: one of `sggnn_tf.models.MODELS`.
      schema: a `tfgnn.GraphSchema`.
      units: the width of the states.
      steps: the number of steps.
      **options: see `RelationalModel`; anything else is a switch of the model's parts.

    Example:

    ```python
    model = build_model("sggnn-rv-gat", schema, units=120, steps=11, dropout=0.3, gate_bias=3.0)
    ```
    """
    model = RelationalModel(name, schema, units=units, steps=steps, **options)
    model.build(schema)
    return model


def _check_feature(schema: Any, label: str, argument: str) -> tuple[str, str]:
    """The `(set, feature)` that an argument names, if the schema has it."""
    set_name, feature_name = schemas.split_label(label)
    known = schemas.feature_set(schema, set_name).features
    if feature_name not in known:
        raise ValueError(f"{argument}={label!r} names no feature of the schema: {set_name!r} has {sorted(known)}.")
    return set_name, feature_name


def _initial_states(schema: Any, not_read: set[str], **options: Any) -> InitialStates:
    """What to read of each node set and of the context; what is not described is refused."""
    node_sets = {
        name: _features(schema, name, node_set, not_read)
        for name, node_set in schema.node_sets.items()
        if not is_auxiliary(name)
    }
    for name, edge_set in schema.edge_sets.items():
        for feature_name in edge_set.features:
            if f"{name}/{feature_name}" not in not_read:
                raise ValueError(
                    f"The edge set {name!r} has the feature {feature_name!r}, which this model cannot read: it knows "
                    f"edges by their relation. To leave it out, pass ignore=['{name}/{feature_name}']."
                )
    context = _features(schema, schemas.CONTEXT, schema.context, not_read)
    return InitialStates(node_sets=node_sets, context=context, **options)


def _features(schema: Any, set_name: str, piece: Any, not_read: set[str]) -> dict[str, tuple[str, int]]:
    features = {}
    for name, feature in sorted(piece.features.items()):
        if f"{set_name}/{name}" in not_read:
            continue
        dtype = tf.dtypes.as_dtype(feature.dtype)
        sizes = [dim.size for dim in feature.shape.dim]
        where = f"The feature {name!r} of {set_name!r} in the schema"
        leave_out = f"To leave it out, pass ignore=['{set_name}/{name}']."
        if dtype.is_floating:
            if any(size < 0 for size in sizes):
                raise ValueError(f"{where} has a ragged or unknown shape {sizes}. {leave_out}")
            features[name] = (DENSE, math.prod(sizes))
        elif dtype.is_integer:
            size = schemas.num_values(schema, set_name, name)
            if size is None:
                raise ValueError(
                    f"{where} is categorical ({dtype.name}) and its size is not given: add vocabulary/{name} or "
                    f"num_values/{name} to its set's metadata.extra. {leave_out}"
                )
            if sizes:
                raise ValueError(
                    f"{where} is categorical and has the shape {sizes}; one id an item is read. {leave_out}"
                )
            features[name] = (CATEGORICAL, size)
        else:
            raise ValueError(f"{where} is of type {dtype.name}; numbers are read. Turn it into ids. {leave_out}")
    return features


def _relations(schema: Any) -> dict[str, list[str]]:
    """The relations that arrive at each node set."""
    relations: dict[str, list[str]] = {}
    for name, edge_set in sorted(schema.edge_sets.items()):
        if is_auxiliary(name):
            continue
        if edge_set.target not in schema.node_sets or edge_set.source not in schema.node_sets:
            raise ValueError(
                f"The edge set {name!r} leads from {edge_set.source!r} to {edge_set.target!r}, but the node sets are "
                f"{sorted(schema.node_sets)}."
            )
        relations.setdefault(edge_set.target, []).append(name)
    if not relations:
        raise ValueError("The schema has no edge sets, so there is nothing to pass messages over.")
    return relations


def _readout(schema: Any, label: str) -> keras.layers.Layer:
    set_name, _ = schemas.split_label(label)
    if set_name == schemas.CONTEXT:
        node_sets = sorted(name for name in schema.node_sets if not is_auxiliary(name))
        return Pool(tfgnn.CONTEXT, "mean", node_set_name=node_sets)
    schemas.feature_set(schema, set_name)
    if not is_auxiliary(set_name):
        return Readout(node_set_name=set_name)
    keys = sorted(name.removeprefix(f"{set_name}/") for name in schema.edge_sets if name.startswith(f"{set_name}/"))
    if len(keys) != 1:
        raise ValueError(
            f"The structured readout {set_name!r} needs exactly one edge set {set_name}/KEY in the schema, not {keys}."
        )
    return StructuredReadout(keys[0], readout_node_set=set_name)


def _num_classes(schema: Any, label: str) -> int:
    set_name, feature_name = _check_feature(schema, label, "label")
    classes = schemas.num_values(schema, set_name, feature_name)
    if classes is None:
        raise ValueError(
            f"The number of classes of the label {label!r} is not given: add vocabulary/{feature_name} or "
            f"num_values/{feature_name} to the metadata.extra of {set_name!r} in the schema."
        )
    return classes
