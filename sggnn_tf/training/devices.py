"""On which devices a run computes: one, several of this machine, or those of several machines."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf


def make_strategy(devices: int) -> tf.distribute.Strategy:
    """Where a model lives and a step runs.

    With one device it is TensorFlow's default. With more it is a `MirroredStrategy`: every device has a copy of the
    model and computes a part of each batch, on GPUs if there are any, else on so many parts of the CPU. If the
    environment variable `TF_CONFIG` names several workers it is a `MultiWorkerMirroredStrategy` over all their devices.

    Args:
      devices: the number of devices, of all workers together.
    """
    if number_of_workers() > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        if strategy.num_replicas_in_sync != devices:
            found = strategy.num_replicas_in_sync
            raise ValueError(f"The workers of TF_CONFIG have {found} devices in all: run with --devices {found}.")
        return strategy
    if devices == 1:
        return tf.distribute.get_strategy()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        if len(gpus) < devices:
            raise ValueError(f"There are {len(gpus)} GPUs, and not {devices}.")
        return tf.distribute.MirroredStrategy([f"GPU:{number}" for number in range(devices)])
    _divide_cpu(devices)
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(devices)])


def number_of_workers() -> int:
    """The number of processes that train together."""
    cluster = _tf_config().get("cluster", {})
    return max(1, sum(len(cluster.get(job, ())) for job in ("chief", "worker")))


def is_chief() -> bool:
    """Whether this process is the one that writes: the chief, or the first of the workers if there is none."""
    config = _tf_config()
    job = "chief" if config.get("cluster", {}).get("chief") else "worker"
    task = config.get("task", {})
    return number_of_workers() == 1 or (task.get("type"), task.get("index")) == (job, 0)


def _tf_config() -> dict[str, Any]:
    text = os.environ.get("TF_CONFIG", "")
    try:
        found = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"The environment variable TF_CONFIG is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise ValueError(f"The environment variable TF_CONFIG has to be a JSON object, not {text}.")
    return found


def _divide_cpu(parts: int) -> None:
    """Makes several logical devices of the CPU."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) >= parts:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * parts)
    except RuntimeError:
        raise ValueError(
            f"TensorFlow has started already and the CPU cannot be divided into {parts} devices any more: train on "
            "several devices in a process of its own."
        ) from None
