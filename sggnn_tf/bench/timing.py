"""Times that can be compared: taken in turn, so that the noise of the machine meets all sides alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sggnn_tf.bench.flops import Product


class Times(NamedTuple):
    """Seconds: the median, and the spread (half of what the middle half spans)."""

    median: float
    spread: float


def in_turn(timed: Mapping[Any, Callable[[], float]], repetitions: int) -> dict[Any, Times]:
    """Calls functions that tell how long they took, one after the other, again and again."""
    taken: dict[Any, list[float]] = {name: [] for name in timed}
    for _ in range(repetitions):
        for name, function in timed.items():
            taken[name].append(function())
    found = {}
    for name, values in taken.items():
        low, median, high = np.percentile(values, [25, 50, 75])
        found[name] = Times(float(median), float(high - low) / 2)
    return found


def seconds(action: Callable[[], object], times: int = 1) -> float:
    """The time of a call, in the mean of several."""
    start = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - start) / times


def product_action(product: Product, together: int = 8) -> Callable[[], object]:
    """A matrix product, several times in one call; see `gemm_rate`."""
    random = tf.random.Generator.from_seed(0)
    left = random.normal([product.rows, product.inner])
    right = random.normal([product.inner, product.columns])

    @tf.function(autograph=False)
    def run(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([])
        for _ in range(together):
            with tf.control_dependencies([total]):  # One after the other, and none left out.
                total = total + (tf.identity(left) @ right)[0, 0]
        return total

    traced = run.get_concrete_function(left, right)
    return lambda: traced(left, right).numpy()


def gemm_rate(times: Mapping[Product, Times], together: int = 8) -> float:
    """Operations a second of products at their measured times: the rate that a model of these products could reach."""
    return sum(each.flops * together for each in times) / sum(time.median for time in times.values())
