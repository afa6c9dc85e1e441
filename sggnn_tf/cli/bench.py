"""`sggnn bench`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sggnn_tf.cli.experiments import model_names
from sggnn_tf.cli.options import whole_numbers


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="The paper's two sizes only, in a few minutes.")] = False,
    tasks: Annotated[str, typer.Option(help="Names with commas between them.")] = "conditional_recall,tree_max",
    models: Annotated[str | None, typer.Option(help="Names with commas between them. Default: all seven.")] = None,
    units: Annotated[str, typer.Option(help="Widths.")] = "100,150,300",
    steps: Annotated[str, typer.Option(help="Numbers of steps.")] = "5,11,17,31",
    batch_sizes: Annotated[str, typer.Option(help="Graphs of a batch.")] = "20,200",
    repetitions: Annotated[int, typer.Option(help="How often each is timed.")] = 7,
    out: Annotated[Path, typer.Option(help="Where the figures go; a picture goes beside it.")] = Path("bench.json"),
) -> None:
    """Time the models: a training step and a forward pass, with and without XLA, in turn.

    Beside times it tells the rate of floating point operations, as a part of the rate of the model's own matrix
    products alone, which are timed in the same turns; so figures of a noisy machine can be compared.

    Example: sggnn bench --quick

    Example: sggnn bench --models sggnn-rv-gat --units 150 --steps 17 --batch-sizes 20
    """
    from sggnn_tf import tasks as all_tasks
    from sggnn_tf.analysis.bench_picture import draw_bench
    from sggnn_tf.bench import cases, run
    from sggnn_tf.files import write_whole
    from sggnn_tf.tfgnn_bridge import without_log_noise

    if repetitions < 1:
        raise ValueError(f"--repetitions is {repetitions}; it has to be at least 1.")
    chosen = list(
        cases.quick()
        if quick
        else cases.grid(
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
        result = run.run(chosen, repetitions, lambda done, total: progress.update(bar, completed=done, total=total))
    write_whole(out, json.dumps(result, indent=1) + "\n")
    draw_bench(result["rows"], out.with_suffix(".png"))
    table = Table(
        "task", "model", "D", "K", "batch", "xla", "what", "ms", "±", "graphs/s", "GFLOP/s", "of GEMM", "compile s"
    )
    for row in result["rows"]:
        table.add_row(
            row["task"],
            row["model"],
            *(str(row[name]) for name in ("units", "steps", "batch_size")),
            "yes" if row["jit"] else "no",
            row["mode"],
            f"{1000 * row['seconds']:.1f}",
            f"{1000 * row['spread']:.1f}",
            f"{row['graphs_per_second']:,.0f}",
            f"{row['gflops']:.1f}",
            f"{row['of_gemm']:.0%}",
            f"{row['compile_seconds']:.1f}",
        )
    console = Console()
    console.print(table)
    console.print(f"Figures in {out}, drawn in {out.with_suffix('.png')}")
