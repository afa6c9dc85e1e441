"""`sggnn doctor` and `sggnn models`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON, for programs.")] = False,
) -> None:
    """Check this installation: train a small graph network, compile it, save it, load it (about half a minute).

    Example: sggnn doctor
    """
    from sggnn_tf import doctor as checkup
    from sggnn_tf.tfgnn_bridge import without_log_noise

    console = Console(quiet=as_json)
    with without_log_noise():
        versions, devices = checkup.versions(), checkup.devices()
    console.print(", ".join(f"{name} {version}" for name, version in versions.items()), f"on {', '.join(devices)}")
    findings = []
    with without_log_noise(), console.status("Training a graph network ..."):
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


def models(
    units: Annotated[int, typer.Option(help="The width of the states.")] = 100,
    relations: Annotated[int, typer.Option(help="The number of relations.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON, for programs.")] = False,
) -> None:
    """List the models, their parts and the number of parameters of one update.

    Example: sggnn models --units 150 --relations 7
    """
    from sggnn_tf.models import registry

    rows: list[dict[str, Any]] = [
        {
            "name": parts.name,
            "summary": parts.summary,
            **parts.parts,
            "steps": "shared" if parts.shared else "separate",
            "parameters": registry.update_parameters(parts.name, units, relations),
            "switches": registry.switch_names(parts.name),
        }
        for parts in registry.MODELS.values()
    ]
    if as_json:
        typer.echo(json.dumps({"units": units, "relations": relations, "models": rows}, indent=2))
        return
    table = Table(title=f"One update at {units} units and {relations} relations (separate steps: that many each)")
    for column in ("model", "message", "aggregation", "update", "steps"):
        table.add_column(column, overflow="fold")
    table.add_column("parameters", justify="right")
    for row in rows:
        parts = [row.get(part, "RGAT") for part in ("message", "aggregation", "update")]
        table.add_row(row["name"], *parts, row["steps"], f"{row['parameters']:,}")
    Console().print(table)
