"""One training run: from settings to a result, through whatever interrupts it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import data
from sggnn_tf.analysis.curves import draw_curves
from sggnn_tf.files import write_whole
from sggnn_tf.models import build_model
from sggnn_tf.models.graph_model import GraphModel
from sggnn_tf.training.checkpoints import Checkpoints
from sggnn_tf.training.config import Config, versions
from sggnn_tf.training.devices import is_chief, make_strategy
from sggnn_tf.training.figures import figures, predictions
from sggnn_tf.training.loss import SmoothedCrossentropy

CONFIG, METRICS, RESULT, CURVES, MODEL = "config.json", "metrics.jsonl", "result.json", "curves.png", "model.keras"
CHECKPOINTS, TENSORBOARD = "checkpoints", "tensorboard"
CHOSEN_BY, LOSS_IN_CHOICE = "val_chosen_by", 1e-6


class TrainingStoppedError(RuntimeError):
    """A run that cannot go on by itself."""


class RunInUseError(ValueError):
    """The folder of a run is that of another process."""


def train(
    config: Config, workdir: str | Path, *, resume: bool = False, callbacks: Sequence[keras.callbacks.Callback] = ()
) -> dict[str, Any]:
    """Trains a model, and measures it on `test` (or `valid`) with the weights that were best on `valid`.

    Args:
      config: the settings.
      workdir: the folder of the run; it has to be new, unless it is resumed.
      resume: whether to go on with the run in the folder, from the end of its last epoch.
      callbacks: further Keras callbacks.

    Returns:
      The result, which is also in the folder.
    """
    workdir = Path(workdir)
    if not is_chief():
        return _train(config, workdir, resume, callbacks)
    with _alone_in(workdir):
        _check_workdir(config, workdir, resume)
        if (workdir / RESULT).exists():
            return json.loads((workdir / RESULT).read_text())
        return _train(config, workdir, resume, callbacks)


def _train(
    config: Config, workdir: Path, resume: bool, callbacks: Sequence[keras.callbacks.Callback]
) -> dict[str, Any]:
    """The run itself, in a folder that is ready for it. Of several workers, each computes all, and the chief writes."""
    strategy = make_strategy(config.devices)
    keras.utils.set_random_seed(config.seed)
    examples = config.examples()
    batches = make_batches(config, examples)
    stopping = keras.callbacks.EarlyStopping(
        CHOSEN_BY,
        mode="max",
        patience=config.patience,
        start_from_epoch=config.min_epochs,
        restore_best_weights=True,
    )
    checkpoints = Checkpoints(workdir / CHECKPOINTS, stopping, writes=is_chief())
    if resume:
        checkpoints.load()
    started = checkpoints.epochs_done
    writers: list[keras.callbacks.Callback] = []
    if is_chief():
        writers.append(keras.callbacks.TensorBoard(str(workdir / TENSORBOARD), write_graph=False))
    with strategy.scope():
        model = make_model(config, examples["train"].schema)
        model.build_for_data(batches["train"].dataset())
        if config.start_from is not None:
            take_weights(model, read_run(config.start_from)[1], f"The run to start from, {config.start_from},")
        model.fit(
            _on_devices(batches["train"], strategy, started),
            steps_per_epoch=len(batches["train"]),
            validation_data=_on_devices(batches["valid"], strategy),
            validation_steps=len(batches["valid"]),
            initial_epoch=started,
            epochs=started if checkpoints.is_over else config.epochs,
            verbose=0,
            callbacks=[
                _Chosen(),
                stopping,
                _Finite(workdir),
                learning_rates(config),
                _Log(workdir / METRICS, checkpoints, len(examples["train"])),
                checkpoints,
                *writers,
                *callbacks,
            ],
        )
    model = _on_one_device(config, model, examples["train"].schema)
    if is_chief():
        model.save(workdir / MODEL)
    return _finish(config, workdir, model, examples, checkpoints)


def evaluate(workdir: str | Path) -> dict[str, Any]:
    """Measures the model of a finished run again, from its files; returns the figures of each split."""
    config, model, _ = read_run(workdir)
    return _figures(config, model, config.examples())


def read_run(workdir: str | Path) -> tuple[Config, GraphModel, dict[str, Any]]:
    """The settings, the model and the result of a finished run."""
    workdir = Path(workdir)
    config = read_config(workdir)
    if not (workdir / RESULT).exists():
        raise ValueError(f"The run in {workdir} is not finished: it has no {RESULT}. Go on with it by --resume.")
    return config, keras.saving.load_model(workdir / MODEL), json.loads((workdir / RESULT).read_text())


def make_batches(config: Config, examples: dict[str, data.Examples]) -> dict[str, data.Batches]:
    """The batches of each split; those of `train` are shuffled."""
    return {
        split: data.Batches(
            each,
            config.batch_size,
            label=config.label,
            ignore=config.ignore,
            shuffle_seed=config.seed if split == "train" else None,
            replicas=config.devices,
        )
        for split, each in examples.items()
    }


def make_model(config: Config, schema: Any) -> GraphModel:
    """The model of a run, compiled."""
    model = build_model(
        config.model,
        schema,
        units=config.units,
        steps=config.steps,
        label=config.label,
        ignore=config.ignore,
        embedding_units=config.embedding_units,
        embedding_stddev=config.embedding_stddev,
        embedding_gain=config.embedding_gain,
        node_dropout=config.node_dropout,
        dtype=config.precision,
        **config.switches,
    )
    loss = SmoothedCrossentropy(config.label_smoothing)
    if config.loss == "graphs":
        loss = SmoothedCrossentropy(config.label_smoothing, scale=1 / config.batch_size, reduction="sum")
    optimizer = keras.optimizers.Adam(
        config.learning_rate,
        weight_decay=config.weight_decay or None,
        epsilon=1e-8,
        global_clipnorm=config.clip_norm,
        gradient_accumulation_steps=config.accumulate if config.accumulate > 1 else None,
    )
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    model.compile(optimizer, loss, metrics=[accuracy], jit_compile=config.jit)
    return model


def learning_rates(config: Config) -> keras.callbacks.Callback:
    """The callback that sets the learning rate of each epoch."""
    return keras.callbacks.LearningRateScheduler(lambda epoch, _: config.rate_of_epoch(epoch))


def take_weights(model: GraphModel, trained: GraphModel, name: str) -> None:
    """Gives a model the weights of another, which has to be of the same shapes; `name` says whose they are."""
    there, wanted = ([tuple(weight.shape) for weight in each.weights] for each in (trained, model))
    if there != wanted:
        raise ValueError(
            f"{name} has weights of other shapes. Model, units, switches and schema have to be the same, and the "
            "number of steps too where they do not share their weights."
        )
    model.set_weights(trained.get_weights())


def read_config(workdir: str | Path) -> Config:
    """The settings of the run in a folder."""
    path = Path(workdir) / CONFIG
    if not path.exists():
        raise ValueError(f"There is no run in {workdir}: it has no {CONFIG}.")
    return Config(**json.loads(path.read_text())["config"])


def _check_workdir(config: Config, workdir: Path, resume: bool) -> None:
    """Writes the settings to the folder of a new run, or compares them with those of the run to go on with."""
    settings = {"config": config.to_dict(), "versions": versions()}
    path = workdir / CONFIG
    if not (workdir / METRICS).exists():  # No epoch was finished: there is nothing to go on with, or to lose.
        write_whole(path, json.dumps(settings, indent=2) + "\n")
        return
    if not resume:
        raise ValueError(f"{workdir} holds a run already. Go on with it by --resume, or choose another folder.")
    found = json.loads(path.read_text())
    for part, values in json.loads(json.dumps(settings)).items():
        for name in sorted({*values, *found.get(part, {})}):
            before, now = found.get(part, {}).get(name), values.get(name)
            if before != now:
                raise ValueError(
                    f"{workdir} holds a run with another {name}: {before!r}, not {now!r}. A run goes on with the same "
                    f"settings and versions; for others, choose another folder."
                )


def _finish(
    config: Config,
    workdir: Path,
    model: GraphModel,
    examples: dict[str, data.Examples],
    checkpoints: Checkpoints,
) -> dict[str, Any]:
    """Measures a trained model and writes the result."""
    history = checkpoints.history
    result = {
        "config": config.to_dict(),
        "versions": versions(),
        "parameters": model.count_params(),
        "epochs": len(history),
        "best_epoch": int(checkpoints.early_stopping.best_epoch) + 1,
        "seconds": sum(epoch["seconds"] for epoch in history),
        "history": history,
    }
    result |= _figures(config, model, examples)
    if is_chief():
        draw_curves(history, workdir / CURVES)
        write_whole(workdir / RESULT, json.dumps(result, indent=2) + "\n")
    return result


def _figures(config: Config, model: GraphModel, examples: dict[str, data.Examples]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    batches = make_batches(dataclasses.replace(config, devices=1), examples)
    for split in ("valid", "test"):
        if split in examples:
            predicted = predictions(model, batches[split])
            found[split] = figures(examples[split], config.label, predicted, examples["train"], config.make_task())
    return found


def _on_devices(batches: data.Batches, strategy: tf.distribute.Strategy, first_epoch: int = 0) -> Any:
    """All epochs of a data set, for `fit` on the devices of a strategy."""
    if batches.replicas == 1:
        return batches.dataset(first_epoch, endless=True)
    return batches.distributed(strategy, first_epoch)


def _on_one_device(config: Config, model: GraphModel, schema: Any) -> GraphModel:
    """The same model, on one device."""
    if config.devices == 1:
        return model
    alone = make_model(config, schema)
    alone.set_weights(model.get_weights())
    alone.optimizer.build(alone.trainable_variables)
    for variable, trained in zip(alone.optimizer.variables, model.optimizer.variables, strict=True):
        variable.assign(np.asarray(trained))
    return alone


@contextlib.contextmanager
def _alone_in(workdir: Path) -> Iterator[None]:
    """Makes the folder, and lets no other process use it; the lock goes with the process, however that ends."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        file = (workdir / ".lock").open("w")
    except OSError as error:
        raise ValueError(f"{workdir} cannot be written: {error}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunInUseError(f"Another run is using {workdir}. Wait for it, or choose another folder.") from None
        yield


class _Chosen(keras.callbacks.Callback):
    """Adds the figure by which the best epoch is chosen: accuracy on `valid`; of two that are equal, the lower loss."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs[CHOSEN_BY] = float(logs["val_accuracy"]) - LOSS_IN_CHOICE * float(logs["val_loss"])


class _Finite(keras.callbacks.Callback):
    """Stops at the first loss that is not a number."""

    def __init__(self, workdir: Path) -> None:
        super().__init__()
        self.workdir = workdir
        self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not math.isfinite(float(logs["loss"])):
            kept = f"The weights of epoch {self.epoch} are in {self.workdir}." if self.epoch else ""
            raise TrainingStoppedError(
                f"The loss is not a number any more in epoch {self.epoch + 1}, step {batch + 1}. Try a smaller "
                f"learning rate, a smaller norm to clip gradients to, or float32. {kept}".strip()
            )


class _Log(keras.callbacks.Callback):
    """Adds time and speed to what is known of an epoch, and writes all epochs to a file."""

    def __init__(self, path: Path, checkpoints: Checkpoints, graphs: int) -> None:
        super().__init__()
        self.path = path
        self.checkpoints = checkpoints
        self.graphs = graphs
        self.start = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["seconds"] = time.perf_counter() - self.start
        logs["graphs_per_second"] = self.graphs / logs["seconds"]
        now = {name: float(value) for name, value in logs.items()}
        lines = [{"epoch": number, **each} for number, each in enumerate([*self.checkpoints.history, now], 1)]
        if is_chief():
            write_whole(self.path, "".join(json.dumps(line) + "\n" for line in lines))
