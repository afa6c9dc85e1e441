"""`sggnn bench`."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sggnn_tf.cli.experiments import model_names
from sggnn_tf.cli.options import whole_numbers

WIDTH = 120
"""Of the tables: they do not fit into the 80 columns that a file gets."""


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="The paper's two sizes only, in a few minutes.")] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="The paper's two sizes, against PyTorch, PyG and TF-GNN's own layers.")
    ] = False,
    scaling: Annotated[
        bool, typer.Option("--scaling", help="How time and memory grow, up to a graph of a million edges.")
    ] = False,
    tasks: Annotated[str, typer.Option(help="Names with commas between them.")] = "conditional_recall,tree_max",
    models: Annotated[str | None, typer.Option(help="Names with commas between them. Default: all seven.")] = None,
    units: Annotated[str, typer.Option(help="Widths.")] = "100,150,300",
    steps: Annotated[str, typer.Option(help="Numbers of steps.")] = "5,11,17,31",
    batch_sizes: Annotated[str, typer.Option(help="Graphs of a batch.")] = "20,200",
    repetitions: Annotated[int, typer.Option(help="How often each is timed.")] = 7,
    out: Annotated[Path, typer.Option(help="Where the figures go; a picture goes beside it.")] = Path("bench.json"),
) -> None:
    """Time the models: a training step and a forward pass, with and without XLA, in turn.

    Each side runs in a process of its own. Beside times it tells the rate of floating point operations, as a part of
    the rate of the model's own matrix products alone, which are timed in the same turns; so figures of a noisy machine
    can be compared. --peers needs the extra `bench`.

    Example: sggnn bench --quick

    Example: sggnn bench --peers --out docs/results/bench_peers.json

    Example: sggnn bench --models sggnn-rv-gat --units 150 --steps 17 --batch-sizes 20
    """
    from sggnn_tf import tasks as all_tasks
    from sggnn_tf.analysis.bench_picture import draw_bench, draw_scaling
    from sggnn_tf.bench import cases, run
    from sggnn_tf.bench import scaling as growth
    from sggnn_tf.files import write_whole
    from sggnn_tf.tfgnn_bridge import without_log_noise

    if repetitions < 1:
        raise ValueError(f"--repetitions is {repetitions}; it has to be at least 1.")
    if quick + peers + scaling > 1:
        raise ValueError("--quick, --peers and --scaling are different benchmarks: choose one of them.")
    chosen: list[Any]
    if scaling:
        chosen = list(growth.points())
    elif quick or peers:
        chosen = list(cases.quick() if quick else cases.peers())
    else:
        chosen = list(
            cases.grid(
                [all_tasks.find(name.strip()).name for name in tasks.split(",")],
                model_names(models),
                whole_numbers("units", units),
                whole_numbers("steps", steps),
                whole_numbers("batch-sizes", batch_sizes),
            )
        )
    with (
        os.fdopen(os.dup(2), "w") as file,  # Standard error will be held back.
        Progress(console=Console(file=file)) as progress,
        without_log_noise(),
    ):
        bar = progress.add_task("timing", total=len(chosen))

        def report(done: int) -> None:
            progress.update(bar, completed=done)

        if scaling:
            result = {**run.machine(), "repetitions": repetitions, "rows": growth.run(repetitions, report)}
        else:
            result = run.run(chosen, repetitions, report)
    write_whole(out, json.dumps(result, indent=1) + "\n")
    (draw_scaling if scaling else draw_bench)(result["rows"], out.with_suffix(".png"))
    console = Console(width=WIDTH)
    for table in [_scaling_table(result["rows"])] if scaling else _tables(result["rows"]):
        console.print(table)
    console.print(f"Figures in {out}, drawn in {out.with_suffix('.png')}")


def _tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """A table for each problem."""
    problems = itertools.groupby(rows, lambda row: (row["task"], row["units"], row["batch_size"]))
    for (task, units, batch_size), group in problems:
        table = Table(
            "", "K", "", title=f"{task}, {units} units, batch {batch_size}", box=box.SIMPLE, title_justify="left"
        )
        for column in ("ms", "±", "graphs/s", "GFLOP", "GFLOP/s", "of GEMM", "first call", "MiB"):
            table.add_column(column, justify="right")
        for row in group:
            table.add_row(
                row["model"] if row["library"] == "sggnn_tf" else f"{row['library']} {row['model']}",
                str(row["steps"]),
                row["mode"] + (", compiled" if row["jit"] else ""),
                f"{1000 * row['seconds']:.1f}",
                f"{1000 * row['spread']:.1f}",
                f"{row['graphs_per_second']:,.0f}",
                f"{row['gflop']:.2f}",
                f"{row['gflops']:.1f}",
                f"{row['of_gemm']:.0%}" if "of_gemm" in row else "",
                f"{row['compile_seconds']:.1f} s",
                f"{row['peak_mib']:,.0f}",
            )
        yield table


def _scaling_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("", box=box.SIMPLE)
    for column in ("nodes", "edges", "relations", "K", "D", "recompute", "ms", "±", "MiB"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row["axis"],
            *(f"{row[name]:,}" for name in ("nodes", "edges", "relations", "steps", "units")),
            "yes" if row["recompute"] else "no",
            f"{1000 * row['seconds']:.1f}",
            f"{1000 * row['spread']:.1f}",
            f"{row['peak_mib']:,.0f}",
        )
    return table
