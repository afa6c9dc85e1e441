"""`sggnn dataset`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn
from rich.table import Table

from sggnn_tf.cli.options import numbers


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
        "branching": None if branching is None else numbers("branching", branching),
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


def _described(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in arguments.items())
