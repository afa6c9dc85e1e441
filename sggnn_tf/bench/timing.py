"""Times that can be compared: taken in turn, so that the noise of the machine meets all sides alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sggnn_tf.bench.flops import Product


class Times(NamedTuple):
    """Seconds: the median, the spread (half of what the middle half spans), and the first call less the median."""

    median: float
    spread: float
    first: float


def in_turn(actions: Mapping[Any, Callable[[], object]], repetitions: int) -> dict[Any, Times]:
    """The time of each action, each called once before (which traces and compiles), then all in turn."""
    first = {name: seconds(action) for name, action in actions.items()}
    taken: dict[Any, list[float]] = {name: [] for name in actions}
    for _ in range(repetitions):
        for name, action in actions.items():
            taken[name].append(seconds(action))
    found = {}
    for name, values in taken.items():
        low, median, high = np.percentile(values, [25, 50, 75])
        found[name] = Times(float(median), float(high - low) / 2, max(0.0, first[name] - float(median)))
    return found


def seconds(action: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def product_action(product: Product, together: int = 8) -> Callable[[], object]:
    """A matrix product, several times in one call; see `gemm_rate`."""
    random = tf.random.Generator.from_seed(0)
    left = random.normal([product.rows, product.inner])
    right = random.normal([product.inner, product.columns])

    @tf.function(autograph=False, reduce_retracing=True)
    def run(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([])
        for _ in range(together):
            with tf.control_dependencies([total]):  # One after the other, and none left out.
                total = total + (tf.identity(left) @ right)[0, 0]
        return total

    return lambda: run(left, right).numpy()


def gemm_rate(times: Mapping[Product, Times], together: int = 8) -> float:
    """Operations a second of products at their measured times: the rate that a model of these products could reach."""
    return sum(each.flops * together for each in times) / sum(time.median for time in times.values())
