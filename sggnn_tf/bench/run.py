"""Runs a benchmark: cases in turn, beside the matrix products that they are made of."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sggnn_tf.bench import cases as all_cases
from sggnn_tf.bench.flops import products
from sggnn_tf.bench.timing import gemm_rate, in_turn, product_action
from sggnn_tf.training.config import for_task, versions


def run(
    cases: Sequence[all_cases.Case], repetitions: int, report: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Any]:
    """Times cases, those on the same batch side by side.

    Args:
      cases: what to time.
      repetitions: how often.
      report: called with the number of cases that are done, and of all.

    Returns:
      The machine, and a row for each case. `of_gemm` is the score: the rate of the operations of the cheapest form,
      over the rate of the model's own matrix products alone, measured in turn with it.
    """
    rows: list[dict[str, Any]] = []
    groups: dict[Any, list[all_cases.Case]] = {}
    for case in cases:
        groups.setdefault((case.task, case.units, case.steps, case.batch_size), []).append(case)
    for group in groups.values():
        rows += _run_group(group, repetitions)
        report(len(rows), len(cases))
    machine = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "devices": [device.device_type for device in tf.config.list_physical_devices()],
        "versions": versions(),
    }
    return {**machine, "repetitions": repetitions, "rows": rows}


def _run_group(group: Sequence[all_cases.Case], repetitions: int) -> list[dict[str, Any]]:
    made = {case: all_cases.make(case) for case in group}
    actions: dict[Any, Callable[[], object]] = {case: each.action for case, each in made.items()}
    needed = {case: _products(case, each) for case, each in made.items()}
    for wanted in needed.values():
        actions |= {product: product_action(product) for product in wanted if product not in actions}
    times = in_turn(actions, repetitions)
    rows = []
    for case, each in made.items():
        time = times[case]
        rate = gemm_rate({product: times[product] for product in needed[case]})
        rows.append(
            {
                **case._asdict(),
                "seconds": time.median,
                "spread": time.spread,
                "compile_seconds": time.first,
                "graphs_per_second": each.graphs / time.median,
                "nodes_per_second": each.size.nodes / time.median,
                "edges_per_second": each.size.edges / time.median,
                "padding": each.padding,
                "gflops": each.flops / time.median / 1e9,
                "gflops_computed": each.computed / time.median / 1e9,
                "gemm_gflops": rate / 1e9,
                "of_gemm": each.flops / time.median / rate,
            }
        )
    return rows


def _products(case: all_cases.Case, made: all_cases.Made) -> list[Any]:
    """The products of a step, of the sizes that they have in it."""
    config = for_task(case.task, case.model, units=case.units, steps=case.steps)
    return [each._replace(times=1) for each in products(case.model, made.size, case.units, config.switches)]
