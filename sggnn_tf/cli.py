"""The command `sggnn`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from rich.table import Table

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
    from sggnn_tf.tfgnn_bridge import without_log_noise

    console = Console(quiet=as_json)
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


@app.command()
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


@app.command()
def dataset(
    task: Annotated[str, typer.Argument(help="conditional_recall or tree_max.")],
    out: Annotated[Path | None, typer.Option(help="Write the data set to this folder.")] = None,
    shards: Annotated[int, typer.Option(help="The number of files of each split.")] = 1,
    gzip: Annotated[bool, typer.Option(help="Compress the records.")] = False,
    saved: Annotated[bool, typer.Option(help="Write for tf.data.Dataset.load, not records.")] = False,
    force: Annotated[bool, typer.Option(help="Replace the folder if it is there.")] = False,
    runner: Annotated[str, typer.Option(help="The Apache Beam runner that writes the records.")] = "DirectRunner",
    beam: Annotated[
        list[str] | None, typer.Option(help="An option of the Beam runner, for example direct_num_workers=4.")
    ] = None,
    show: Annotated[int, typer.Option(help="Draw so many examples to TASK.png, or to --picture.")] = 0,
    picture: Annotated[Path | None, typer.Option(help="The file for --show.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same data set. Default: 0.")] = None,
    length: Annotated[int | None, typer.Option(help="conditional_recall: characters of a string.")] = None,
    examples_per_class: Annotated[int | None, typer.Option(help="conditional_recall: strings an answer.")] = None,
    letters: Annotated[int | None, typer.Option(help="conditional_recall: 61 (no Z) or 62.")] = None,
    trees: Annotated[int | None, typer.Option(help="tree_max: the number of trees.")] = None,
    min_depth: Annotated[int | None, typer.Option(help="tree_max: the fewest levels of a tree.")] = None,
    max_depth: Annotated[int | None, typer.Option(help="tree_max: the most levels of a tree.")] = None,
    branching: Annotated[
        str | None, typer.Option(help="tree_max: probabilities of 0, 1, 2, ... children, such as 0.6,0,0.3,0.1.")
    ] = None,
    max_value: Annotated[int | None, typer.Option(help="tree_max: values are 1 to this.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON, for programs.")] = False,
) -> None:
    """Generate a data set: as records that anyone with TF-GNN can read, or as a picture.

    Example: sggnn dataset tree_max --out trees --shards 4 --gzip

    Example: sggnn dataset conditional_recall --length 7 --show 3
    """
    from sggnn_tf import data, tasks

    given = {
        "seed": seed,
        "length": length,
        "examples_per_class": examples_per_class,
        "letters": letters,
        "trees": trees,
        "min_depth": min_depth,
        "max_depth": max_depth,
        "branching": None if branching is None else _numbers("branching", branching),
        "max_value": max_value,
    }
    chosen = tasks.make(task, **{name: value for name, value in given.items() if value is not None})
    if out is None and not show:
        raise ValueError("There is nothing to do: give a folder with --out, or a number of pictures with --show.")
    console = Console(quiet=as_json)
    if show:
        from sggnn_tf.analysis.pictures import draw_examples

        path = picture or Path(f"{chosen.name}.png")
        draw_examples(chosen, data.task_schema(chosen), range(min(show, chosen.num_examples)), path)
        console.print(f"Drew {show} examples: {path}")
    if out is None:
        return
    form: Literal["records", "saved"] = "saved" if saved else "records"
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=Console(stderr=True)) as bar:
        running = bar.add_task(f"{chosen.name}, {chosen.num_examples} examples", total=chosen.num_examples)
        card = data.export(
            chosen,
            str(out),
            shards=shards,
            gzip=gzip,
            form=form,
            force=force,
            runner=runner,
            beam_options=[f"--{option.removeprefix('--')}" for option in beam or ()],
            progress=lambda done, total: bar.update(running, completed=done),
        )
    if as_json:
        typer.echo(json.dumps(card, indent=2))
        return
    table = Table(title=f"{out}: {chosen.name}, {_described(chosen.arguments())}")
    for column in ("split", "examples", "files", "hops to the answer: mean", "most"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for split, facts in card["splits"].items():
        hops = {int(distance): count for distance, count in facts.get("hops", {}).items()}
        mean = sum(distance * count for distance, count in hops.items()) / max(sum(hops.values()), 1)
        row = [f"{mean:.2f}", str(max(hops))] if hops else ["", ""]
        table.add_row(split, f"{facts['examples']:,}", str(len(facts.get("shards", [1]))), *row)
    console.print(table)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; it has to be numbers with commas between them.") from None


def _described(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in arguments.items())


def main() -> None:
    """The entry point of the command."""
    try:
        app()
    except ValueError as error:  # Bad input, said in a sentence that needs no traceback.
        Console(stderr=True).print(f"[red]Error:[/] {error}", highlight=False)
        sys.exit(2)
