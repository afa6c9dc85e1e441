"""The command `sggnn`."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def sggnn() -> None:
    """Long-range graph neural networks on TF-GNN's GraphTensor, with Keras 3."""


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, for programs.")] = False,
) -> None:
    """Check this installation: train a small graph network, compile it, save it, load it (about half a minute).

    Example: sggnn doctor
    """
    from sggnn_tf import doctor as checkup  # TensorFlow takes seconds to import: not for `--help`.

    console = Console(stderr=as_json)
    versions, devices = checkup.versions(), checkup.devices()
    console.print(", ".join(f"{name} {version}" for name, version in versions.items()), f"on {', '.join(devices)}")
    findings = []
    with console.status("Training a graph network ..."):
        for finding in checkup.checks():
            findings.append(finding)
            mark = "[green]ok[/]    " if finding.is_fine else "[red]failed[/]"
            console.print(f"{mark} [bold]{finding.what}[/]: {finding.result}")
    if as_json:
        result = {
            "versions": versions,
            "devices": devices,
            "checks": [finding._asdict() for finding in findings],
        }
        typer.echo(json.dumps(result, indent=2))
    if not all(finding.is_fine for finding in findings):
        raise typer.Exit(1)


def main() -> None:
    """The entry point of the command."""
    # What fails is raised as an exception: the C++ libraries' own log only gets in the way of what is printed.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    app()
