"""The models by name: each a choice of message, aggregation and update."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import keras

from sggnn_tf.layers.aggregations import Aggregation, Attention, Mean, Sum
from sggnn_tf.layers.messages import GatedMessage, MatrixMessage, Message, ReducedMatrixMessage
from sggnn_tf.layers.relational_update import RelationalNodeSetUpdate, SteppedNodeSetUpdate
from sggnn_tf.layers.rgat import RGATNodeSetUpdate
from sggnn_tf.layers.updates import DenseUpdate, GRUUpdate, SymmetricGRUUpdate, Update

Switches = dict[str, Any]

REDUCED_FROM = 150
"""RGCN and GGNN take reduced relation matrices, of this inner width, where states are wider (the paper's footnote)."""


@dataclasses.dataclass(frozen=True)
class ModelParts:
    """A model: its parts, in words and as classes.

    Attributes:
      name: what it is called in commands, files and results.
      summary: one line on what it is.
      message, aggregation, update: the classes of its parts; `None` for RGAT, which is an update of its own.
      shared: whether its steps share their weights unless told otherwise.
    """

    name: str
    summary: str
    message: type[Message] | None = None
    aggregation: type[Aggregation] | None = None
    update: type[Update] | None = None
    shared: bool = True

    @property
    def parts(self) -> dict[str, str]:
        """The names of its parts."""
        if self.message is None or self.aggregation is None or self.update is None:
            return {"convolution": "RGATNodeSetUpdate"}
        return {
            "message": self.message.__name__,
            "aggregation": self.aggregation.__name__,
            "update": self.update.__name__,
        }


MODELS = {
    parts.name: parts
    for parts in (
        ModelParts("rgcn", "relational graph convolution", MatrixMessage, Mean, DenseUpdate),
        ModelParts("ggnn", "gated graph network", MatrixMessage, Sum, GRUUpdate),
        ModelParts("rgat", "relational graph attention, separate layers", shared=False),
        ModelParts("sggnn-rv-gat", "the paper's model", GatedMessage, Attention, SymmetricGRUUpdate),
        ModelParts("ggnn-rv-gat", "ablation: GRU instead of SGRU", GatedMessage, Attention, GRUUpdate),
        ModelParts("sggnn-rv-mean", "ablation: mean instead of attention", GatedMessage, Mean, SymmetricGRUUpdate),
        ModelParts("sggnn-rm-gat", "ablation: relation matrices", MatrixMessage, Attention, SymmetricGRUUpdate),
    )
}


def find(name: str) -> ModelParts:
    """The model of this name, or the nearest name."""
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no model {name!r}.{hint} The models are {', '.join(MODELS)}.")
    return MODELS[name]


def node_set_update(
    name: str, units: int, relations: Sequence[str], switches: Switches, dtype: Any = None
) -> SteppedNodeSetUpdate:
    """The update of one node set that makes up a model.

    Args:
      name: the model.
      units: the width of the states.
      relations: the edge sets that arrive.
      switches: arguments of the parts; and for `rgcn` and `ggnn`, `message` ("matrix", "reduced", or "auto", which is
        reduced for states wider than 150) and `aggregation` ("sum" or "mean").
      dtype: the policy of all parts.
    """
    parts = find(name)
    left = dict(switches)
    if parts.message is None or parts.aggregation is None or parts.update is None:
        update: SteppedNodeSetUpdate = RGATNodeSetUpdate(
            units, relations, **_take(left, RGATNodeSetUpdate), dtype=dtype
        )
    else:
        message: Any = parts.message
        aggregation: Any = parts.aggregation
        if name in ("rgcn", "ggnn"):
            message = _chosen_message(left, units)
            aggregation = _chosen_aggregation(left.pop("aggregation", None), aggregation)
        update = RelationalNodeSetUpdate(
            relations,
            message=message(units, **_take(left, message), dtype=dtype),
            aggregation=aggregation(**_take(left, aggregation), dtype=dtype),
            update=parts.update(units, **_take(left, parts.update), dtype=dtype),
            dtype=dtype,
        )
    if left:
        raise ValueError(
            f"The model {name!r} has no {', '.join(sorted(left))}; its switches are {', '.join(switch_names(name))}."
        )
    return update


def update_parameters(name: str, units: int, num_relations: int, **switches: Any) -> int:
    """The number of parameters of one update of a node set: of all steps together, where they share weights."""
    update = node_set_update(name, units, [f"relation_{index}" for index in range(num_relations)], switches)
    update.build()
    return update.count_params()


def switch_names(name: str) -> list[str]:
    """The switches of a model: the arguments of its parts."""
    parts = find(name)
    classes: list[Any] = [parts.message, parts.aggregation, parts.update] if parts.message else [RGATNodeSetUpdate]
    names = {argument for each in classes for argument in _arguments(each)}
    if name in ("rgcn", "ggnn"):
        names |= {"message", "aggregation", *_arguments(ReducedMatrixMessage)}
    return sorted(names)


def _chosen_message(switches: Switches, units: int) -> type[Message]:
    choice = switches.pop("message", "auto")
    if choice == "auto":
        is_reduced = units > REDUCED_FROM or "inner_units" in switches or "skip" in switches
        choice = "reduced" if is_reduced else "matrix"
    if choice not in ("matrix", "reduced"):
        raise ValueError(f"message={choice!r}: it is 'auto', 'matrix' or 'reduced'.")
    return MatrixMessage if choice == "matrix" else ReducedMatrixMessage


def _chosen_aggregation(choice: str | None, default: type[Aggregation]) -> type[Aggregation]:
    if choice not in (None, "sum", "mean"):
        raise ValueError(f"aggregation={choice!r}: it is 'sum' or 'mean'.")
    if choice is None:
        return default
    return Sum if choice == "sum" else Mean


def _take(switches: Switches, part: Callable[..., Any]) -> Switches:
    """Takes the arguments of a part out of the switches."""
    return {name: switches.pop(name) for name in _arguments(part) if name in switches}


def _arguments(part: Any) -> list[str]:
    """The options that a part and its bases name, other than its width, its relations and Keras' own."""
    own = ("units", "relations", "receiver_tag", "message", "aggregation", "update", "args", "kwargs")
    names: list[str] = []
    for base in inspect.getmro(part):
        if issubclass(base, keras.layers.Layer) and base.__module__.startswith("sggnn_tf."):
            names += inspect.signature(base).parameters
    return [name for name in dict.fromkeys(names) if name not in own]
