"""Runs a benchmark: cases in turn, each in a process of its own, beside the matrix products that they are made of."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sggnn_tf.bench.cases import OURS, Case
from sggnn_tf.bench.flops import Product
from sggnn_tf.bench.timing import Times, gemm_rate, in_turn, product_action, seconds
from sggnn_tf.bench.worker import Worker
from sggnn_tf.training.config import versions

AT_ONCE = 16
"""Processes side by side; more than that would not fit into memory."""


def run(cases: Sequence[Case], repetitions: int, report: Callable[[int], None] = lambda done: None) -> dict[str, Any]:
    """Times cases, those on the same problem side by side.

    Args:
      cases: what to time.
      repetitions: how often.
      report: called with the number of cases that are done.

    Returns:
      The machine, and a row for each case. `of_gemm` is the score of our models: the rate of the operations of the
      cheapest form, over the rate of the model's own matrix products alone, measured in turn with it.
    """
    rows: list[dict[str, Any]] = []
    for _, group in itertools.groupby(cases, lambda case: (case.task, case.units, case.batch_size)):
        for part in _parts(list(group), AT_ONCE):
            rows += _run_group(part, repetitions)
            report(len(rows))
    return {**machine(), "repetitions": repetitions, "rows": rows}


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": [device.device_type for device in tf.config.list_physical_devices()],
        "versions": versions(),
    }


def _run_group(group: Sequence[Case], repetitions: int) -> list[dict[str, Any]]:
    with contextlib.ExitStack() as stack:
        workers = {}
        for pair in _parts(group, os.cpu_count() or 1):  # They start side by side, one on each core.
            started = {case: Worker(case._asdict()) for case in pair}
            for case, worker in started.items():
                stack.callback(worker.stop)
                workers[case] = (worker, worker.answer())
        timed: dict[Any, Callable[[], float]] = {case: worker.seconds for case, (worker, _) in workers.items()}
        for _, about in workers.values():
            for product in map(_product, about["products"]):
                if product not in timed:
                    action = product_action(product)
                    action()
                    timed[product] = lambda action=action: seconds(action)  # type: ignore[misc]
        times = in_turn(timed, repetitions)
        return [_row(case, about, times, worker.end()) for case, (worker, about) in workers.items()]


def _row(case: Case, about: dict[str, Any], times: dict[Any, Times], peak_mib: float) -> dict[str, Any]:
    time, size = times[case], about["size"]
    row = {
        **case._asdict(),
        "seconds": time.median,
        "spread": time.spread,
        "compile_seconds": about["compile_seconds"],
        "peak_mib": peak_mib,
        "graphs_per_second": about["graphs"] / time.median,
        "nodes_per_second": size["nodes"] / time.median,
        "edges_per_second": size["edges"] / time.median,
        "padding": about["padding"],
        "gflop": about["flops"] / 1e9,
        "gflop_computed": about["computed"] / 1e9,
        "gflops": about["flops"] / time.median / 1e9,
        "gflops_computed": about["computed"] / time.median / 1e9,
    }
    if case.library == OURS:
        rate = gemm_rate({product: times[product] for product in map(_product, about["products"])})
        row |= {"gemm_gflops": rate / 1e9, "of_gemm": about["flops"] / time.median / rate}
    return row


def _product(numbers: Sequence[int]) -> Product:
    """A product of the sizes that it has in a step, once."""
    return Product(*numbers)._replace(times=1)


def _parts(cases: Sequence[Case], size: int) -> list[Sequence[Case]]:
    return [cases[first : first + size] for first in range(0, len(cases), size)]
