"""The command `sggnn`: each command is a call into the package, and imports what it needs when it runs."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.markup import escape

from sggnn_tf.cli import bench, check, dataset, experiments, reach, serving, train

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)
for command in (
    check.doctor,
    check.models,
    dataset.dataset,
    train.train,
    train.evaluate,
    experiments.tables,
    experiments.search,
    experiments.report,
    reach.reach,
    serving.export,
    serving.verify,
    serving.serve,
    serving.predict,
    bench.bench,
):
    app.command()(command)


@app.callback()
def sggnn() -> None:
    """Long-range graph neural networks on TF-GNN's GraphTensor, with Keras 3."""


def main() -> None:
    """The entry point of the command."""
    try:
        app()
    except ValueError as error:  # Bad input, said in a sentence that needs no traceback.
        Console(stderr=True).print(f"[red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
