"""All settings of a training run, as data."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf import tasks
from sggnn_tf.data import Examples, generate, read
from sggnn_tf.models import registry

PACKAGES = ("sggnn-tf", "tensorflow", "tensorflow-gnn", "keras", "numpy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a run.

    Attributes:
      task, task_arguments: the data set, if it is generated.
      data, schema: the data set, if it is read: a folder of records, and its schema (by default the one in the folder).
      label: what is predicted, `NODE_SET/FEATURE` or `context/FEATURE`.
      ignore: features that the model does not see, in the same way.
      model, units, steps, embedding_units, embedding_stddev, embedding_gain, node_dropout, switches: the model; see
        `build_model`.
      seed: of the initial weights, of dropout and of the order of the examples.
      epochs: the largest number of epochs.
      patience: early stopping, after so many epochs without a better accuracy on `valid`.
      min_epochs: the number of epochs before early stopping begins to count.
      batch_size: the number of graphs of a batch.
      learning_rate: of Adam.
      weight_decay: in a step, each weight loses this times the learning rate of itself. So what no gradient holds falls
        back, and can be learned anew.
      schedule: `constant`, or `cosine`: the learning rate falls with each epoch, to almost nothing in the last one.
      warmup: the number of epochs in which the learning rate rises to its value.
      clip_norm: gradients are scaled down to this global norm.
      label_smoothing: see `SmoothedCrossentropy`.
      loss: `items`, the mean over all questions; or `graphs`, the sum over the questions of a graph, in the mean over
        graphs.
      jit: whether to compile with XLA.
      precision: the Keras policy, such as `mixed_bfloat16`.
      accumulate: the number of batches whose gradients are summed up to one step of the optimizer.
      devices: the number of devices that share each batch; see `training.devices`.
      start_from: the folder of a finished run whose weights are the initial ones. The number of steps may differ.
    """

    task: str | None = None
    task_arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    data: str | None = None
    schema: str | None = None
    label: str = "_readout/label"
    ignore: Sequence[str] = ()
    model: str
    units: int
    steps: int
    embedding_units: int = 20
    embedding_stddev: float = 1.0
    embedding_gain: float = 1.0
    node_dropout: float = 0.0
    switches: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    epochs: int = 100
    patience: int = 10
    min_epochs: int = 0
    batch_size: int = 20
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    clip_norm: float = 3.0
    label_smoothing: float = 0.1
    loss: Literal["items", "graphs"] = "items"
    jit: bool = False
    precision: str = "float32"
    accumulate: int = 1
    devices: int = 1
    start_from: str | None = None

    def __post_init__(self) -> None:
        at_least = {
            "units": 1,
            "steps": 1,
            "epochs": 1,
            "patience": 1,
            "min_epochs": 0,
            "warmup": 0,
            "batch_size": 1,
            "accumulate": 1,
            "devices": 1,
        }
        for name, smallest in at_least.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} is {getattr(self, name)}; it has to be at least {smallest}.")
        if not self.learning_rate > 0 or not self.clip_norm > 0:
            raise ValueError("The learning rate and the norm to clip to have to be above 0.")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay is {self.weight_decay}; it has to be 0 or more.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing is {self.label_smoothing}; it has to be from 0 to below 1.")
        if self.schedule not in ("constant", "cosine"):
            raise ValueError(f"schedule is {self.schedule!r}; it has to be 'constant' or 'cosine'.")
        if self.batch_size % self.devices:
            raise ValueError(f"batch_size is {self.batch_size}; it has to be a multiple of the {self.devices} devices.")
        if self.jit and self.devices > 1:
            raise ValueError("XLA is for one device: with several, train with --no-jit.")
        registry.find(self.model)

    def rate_of_epoch(self, epoch: int) -> float:
        """The learning rate of an epoch, from 0 on: it depends on nothing else, so that a run can go on anywhere."""
        if epoch < self.warmup:
            return self.learning_rate * (epoch + 1) / (self.warmup + 1)
        if self.schedule == "constant":
            return self.learning_rate
        done = (epoch - self.warmup) / (self.epochs - self.warmup)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))

    def to_dict(self) -> dict[str, Any]:
        """All settings, as they are in a JSON file."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def make_task(self) -> tasks.Task | None:
        """The task, if the data set is generated."""
        return None if self.task is None else tasks.make(self.task, **self.task_arguments)

    def examples(self) -> dict[str, Examples]:
        """The splits of the data set."""
        task = self.make_task()
        return generate(task) if task is not None else read_splits(self.data, self.schema)


def for_task(task_name: str, model: str, *, task_arguments: Mapping[str, Any] | None = None, **settings: Any) -> Config:
    """The settings for a task: its recipe for the model, and what is given here in place of it.

    Args:
      task_name: the task.
      model: the model.
      task_arguments: arguments of the task. Its seed is that of the run, unless it is given.
      **settings: settings of `Config`, and switches of the model.
    """
    registry.find(model)
    settings = {name: value for name, value in settings.items() if value is not None}
    arguments = {"seed": settings.get("seed", 0), **(task_arguments or {})}
    task = tasks.make(task_name, **arguments)
    return _resolved(task.recipe(model), model, settings, task=task.name, task_arguments=task.arguments())


def for_data(folder: str | Path, model: str, *, schema: str | Path | None = None, **settings: Any) -> Config:
    """The settings for a data set in a folder: what is given, and common values for the rest."""
    registry.find(model)
    settings = {name: value for name, value in settings.items() if value is not None}
    recipe = {"units": 100, "steps": 8, "dropout": 0.1, "gate_bias": 3.0, "neighbour_bias": 2.0, "candidate_bias": True}
    return _resolved(recipe, model, settings, data=str(folder), schema=None if schema is None else str(schema))


def read_splits(folder: str | None, schema: str | None) -> dict[str, Examples]:
    """The splits of a folder: `train` and `valid` have to be there, `test` may."""
    if folder is None:
        raise ValueError("A run needs a task or a folder of records.")
    splits = read(folder) if schema is None else read(folder, schemas.read(schema))
    for split in ("train", "valid"):
        if split not in splits:
            raise ValueError(f"{folder} has no split {split!r}; it has {', '.join(sorted(splits))}.")
    return splits


def versions() -> dict[str, str]:
    """The versions that a run depends on."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}


def _resolved(recipe: Mapping[str, Any], model: str, settings: Mapping[str, Any], **fixed: Any) -> Config:
    """Settings in place of those of a recipe; what is no setting is a switch of the model.

    A recipe is for all models: of its switches, a model takes those that it has. A switch that is given has to exist.
    """
    names = {field.name for field in dataclasses.fields(Config)}
    known = registry.switch_names(model)
    switches = {name: value for name, value in recipe.items() if name not in names and name in known}
    given = {name: value for name, value in settings.items() if name not in names}
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise ValueError(f"The model {model} has no switch {unknown[0]!r}; it has {', '.join(known)}.")
    values = {name: value for name, value in {**recipe, **settings}.items() if name in names}
    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    jit = values.pop("jit", on_gpu and values.get("devices", 1) == 1)  # On a CPU, XLA mostly costs time.
    return Config(**fixed, model=model, switches={**switches, **given}, jit=jit, **values)
