"""A step on several devices that is the step of one device on the whole batch.

Keras divides a mean over a device's part by the number of devices, and clips the gradients of each part before it adds
them up. Both are right only if parts are alike. Here a part counts by the weight of its items, and gradients are added
up first. On one device nothing of this does anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf


def number() -> int:
    """The number of devices that run the step; one, while a model is built before any step."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def sum_over(value: Any) -> Any:
    """The sum of a value over all devices."""
    return value if number() == 1 else _all_reduce(value)


def share(items: Any) -> tf.Tensor:
    """What the mean over this device's part, as Keras divides it by the number of devices, has to be multiplied by."""
    items = tf.cast(items, tf.float32)
    return tf.math.divide_no_nan(items * number(), _all_reduce(items))


def sum_to_first(gradients: Sequence[Any]) -> list[Any]:
    """The sum of gradients over all devices, on the first one; zeros on the others, for an optimizer that adds up."""
    if number() == 1:
        return list(gradients)
    there = [place for place, gradient in enumerate(gradients) if gradient is not None]
    summed = _all_reduce([tf.convert_to_tensor(gradients[place]) for place in there])
    is_first = tf.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
    result: list[Any] = [None] * len(gradients)
    for place, gradient in zip(there, summed, strict=True):
        result[place] = tf.where(is_first, gradient, tf.zeros_like(gradient))
    return result


def logs(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a step tells, as Keras wants it: with several workers it takes the mean over a first axis."""
    if not isinstance(tf.distribute.get_strategy(), tf.distribute.MultiWorkerMirroredStrategy):
        return dict(values)
    return {name: tf.reshape(value, [1]) for name, value in values.items()}


def _all_reduce(values: Any) -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)
