"""Transforming the features of a graph by small Keras models, one for each piece."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from sggnn_tf.layers.graph_access import check_merged
from sggnn_tf.layers.graph_layer import GraphLayer
from sggnn_tf.tfgnn_bridge import is_auxiliary, tfgnn


class PieceInputs:
    """What a callback of `MapFeatures` sees of a graph piece: its features, as symbolic Keras tensors."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.features: Mapping[str, Any] = {name: _input(value) for name, value in spec.features_spec.items()}
        self.no_features = keras.Input([0], dtype="float32")

    def __getitem__(self, feature_name: str) -> Any:
        return self.features[feature_name]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"A callback of MapFeatures sees the features of a graph piece, not its {name!r}. For a feature as long as "
            "the piece, use MakeEmptyFeature()(piece)."
        )

    def get_features_dict(self) -> dict[str, Any]:
        """A dict of the features that the callback may change and return."""
        return dict(self.features)


@keras.saving.register_keras_serializable("sggnn_tf")
class _PieceModel(GraphLayer):
    """The new features of one graph piece, by a Keras model on the old ones in the order of their names."""

    def __init__(self, features: list[str], model: keras.Model | None, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.features = list(features)
        self.model = model

    def call(self, piece: Any) -> dict[str, Any]:
        if self.model is None:  # All features are removed; Keras knows no model without outputs.
            return {}
        no_features = tf.zeros([piece.total_size, 0])
        return self.model([*(piece.features[name] for name in self.features), no_features])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "features": list(self.features), "model": self.model}


@keras.saving.register_keras_serializable("sggnn_tf")
class MapFeatures(GraphLayer):
    """Makes new features of the old ones, by Keras models that callbacks build.

    The first graph decides: for each piece, the callback is called once, on symbolic Keras tensors, and
    what it returns becomes the model for that piece. It may return

    - a dict of features, which replaces those of the piece;
    - a single tensor, which becomes its only feature, `tfgnn.HIDDEN_STATE`;
    - `None`, to leave the piece alone.

    Inside a callback, write `keras.layers` and `keras.ops`; Keras 3 takes no `tf.*` function on symbolic
    tensors. Auxiliary sets (`_readout`) are left alone unless a pattern admits them.

    Args:
      context_fn: called as `context_fn(context)`.
      node_sets_fn: called as `node_sets_fn(node_set, node_set_name=...)`, for each node set.
      edge_sets_fn: called as `edge_sets_fn(edge_set, edge_set_name=...)`, for each edge set.
      allowed_aux_node_sets_pattern, allowed_aux_edge_sets_pattern: regular expressions of the auxiliary sets
        to map as well.

    Call arguments:
      graph: a scalar `GraphTensor`.

    Returns:
      The graph with the new features.

    Example:

    ```python
    def node_sets_fn(node_set, *, node_set_name):
        if node_set_name == "latent":
            return MakeEmptyFeature()(node_set)
        return keras.layers.Dense(64, "relu")(node_set["embedding"])

    graph = MapFeatures(node_sets_fn=node_sets_fn)(graph)
    ```
    """

    def __init__(
        self,
        context_fn: Callable[..., Any] | None = None,
        node_sets_fn: Callable[..., Any] | None = None,
        edge_sets_fn: Callable[..., Any] | None = None,
        *,
        allowed_aux_node_sets_pattern: str | None = None,
        allowed_aux_edge_sets_pattern: str | None = None,
        **kwargs: Any,
    ) -> None:
        models = kwargs.pop("models", None)
        super().__init__(autocast=False, **kwargs)  # The models cast what they compute with.
        self.allowed_aux_node_sets_pattern = allowed_aux_node_sets_pattern
        self.allowed_aux_edge_sets_pattern = allowed_aux_edge_sets_pattern
        self.callbacks = (context_fn, node_sets_fn, edge_sets_fn)
        self.models = models  # {"context": {"": model}, "node set": {...}, "edge set": {...}}; None: not built yet.

    def build(self, graph_spec: Any = None) -> None:
        if self.models is not None:
            return
        context_fn, node_sets_fn, edge_sets_fn = self.callbacks
        models: dict[str, dict[str, _PieceModel | None]] = {
            "context": {"": _model(context_fn, graph_spec.context_spec, "the context")},
            "node set": {},
            "edge set": {},
        }
        for name, spec in sorted(graph_spec.node_sets_spec.items()):
            if not self._leaves_alone("node set", name):
                where = f"the node set {name!r}"
                models["node set"][name] = _model(node_sets_fn, spec, where, node_set_name=name)
        for name, spec in sorted(graph_spec.edge_sets_spec.items()):
            if not self._leaves_alone("edge set", name):
                where = f"the edge set {name!r}"
                models["edge set"][name] = _model(edge_sets_fn, spec, where, edge_set_name=name)
        self.models = models
        self.callbacks = (None, None, None)

    def call(self, graph: Any) -> Any:
        check_merged(graph, self.name)
        context = self._mapped("context", {"": graph.context}).get("")
        node_sets = self._mapped("node set", graph.node_sets)
        edge_sets = self._mapped("edge set", graph.edge_sets)
        return graph.replace_features(context=context, node_sets=node_sets, edge_sets=edge_sets)

    def get_config(self) -> dict[str, Any]:
        if self.models is None:
            raise ValueError(
                f"{self.name} has not seen a graph yet, and so has nothing to save: call it or build its model before."
            )
        return {
            **super().get_config(),
            "allowed_aux_node_sets_pattern": self.allowed_aux_node_sets_pattern,
            "allowed_aux_edge_sets_pattern": self.allowed_aux_edge_sets_pattern,
            "models": {kind: dict(models) for kind, models in self.models.items()},
        }

    def _mapped(self, kind: str, pieces: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        mapped = {}
        for name, piece in pieces.items():
            where = f"the {kind} {name!r}" if name else "the context"
            if name not in self.models[kind]:
                if self._leaves_alone(kind, name):
                    continue
                raise ValueError(
                    f"{self.name} has no model for {where}: its first graph had {sorted(self.models[kind])}."
                )
            model = self.models[kind][name]
            if model is None:
                continue
            if sorted(piece.features) != list(model.features):
                raise ValueError(
                    f"{self.name} was built for {where} with the features {list(model.features)}, but it has "
                    f"{sorted(piece.features)}."
                )
            mapped[name] = model(piece)
        return mapped

    def _leaves_alone(self, kind: str, name: str) -> bool:
        patterns = {
            "node set": self.allowed_aux_node_sets_pattern,
            "edge set": self.allowed_aux_edge_sets_pattern,
        }
        pattern = patterns.get(kind)
        return bool(name) and is_auxiliary(name) and not (pattern and re.fullmatch(pattern, name))


def _input(spec: Any) -> Any:
    """A symbolic Keras tensor for a feature."""
    return keras.Input(
        batch_shape=(None, *spec.shape[1:]), dtype=spec.dtype.name, ragged=isinstance(spec, tf.RaggedTensorSpec)
    )


def _model(callback: Callable[..., Any] | None, spec: Any, where: str, **kwargs: Any) -> _PieceModel | None:
    """The model that a callback builds for a piece, or `None` to leave it alone."""
    if callback is None:
        return None
    inputs = PieceInputs(spec)
    result = callback(inputs, **kwargs)
    if result is None:
        return None
    outputs = dict(result) if isinstance(result, Mapping) else {tfgnn.HIDDEN_STATE: result}
    foreign = sorted(name for name, value in outputs.items() if not keras.backend.is_keras_tensor(value))
    if foreign:
        raise ValueError(
            f"The callback of MapFeatures for {where} returned {foreign}, which does not depend on its input. Make "
            "features of the input's (MakeEmptyFeature()(piece) where it has none), with keras.layers and keras.ops."
        )
    features = sorted(inputs.features)
    tensors = [inputs.features[name] for name in features] + [inputs.no_features]
    return _PieceModel(features, keras.Model(tensors, outputs) if outputs else None)
