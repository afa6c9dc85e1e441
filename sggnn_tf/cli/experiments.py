"""`sggnn tables`, `sggnn search` and `sggnn report`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sggnn_tf.cli.options import whole_numbers


def tables(
    task: Annotated[str, typer.Argument(help="conditional_recall (the paper's Table 1) or tree_max (Table 2).")],
    models: Annotated[str | None, typer.Option(help="Names with commas between them. Default: all seven.")] = None,
    lengths: Annotated[str, typer.Option(help="conditional_recall: lengths.")] = "3,5,7,10",
    seeds: Annotated[str | None, typer.Option(help="Default: the author's five.")] = None,
    examples_per_class: Annotated[str, typer.Option(help="conditional_recall: strings an answer.")] = "20",
    out: Annotated[Path, typer.Option(help="Where results are kept, a file a cell.")] = Path("results"),
    workdir: Annotated[Path, typer.Option(help="Where the runs are.")] = Path("runs/tables"),
    from_: Annotated[Path | None, typer.Option("--from", help="Run nothing; the table of the results here.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Where to draw the table. Default: TASK.png, in --out.")] = None,
    into: Annotated[
        list[Path] | None, typer.Option(help="A page in Markdown, whose tables between marks are made anew.")
    ] = None,
    warm_from: Annotated[
        int | None, typer.Option(help="conditional_recall: start from the weights of this length's cells.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="The largest number of epochs, in place of the recipe's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON, for programs.")] = False,
) -> None:
    """Run the grid of one of the paper's tables, cell by cell, print it and draw it.

    A cell that is done is never run again, and one that was stopped goes on: stop at will, and start again. Started
    several times at once, each command takes cells that no other has taken.

    Example: sggnn tables conditional_recall --models sggnn-rv-gat,rgcn --lengths 3,5 --seeds 12345678

    Example: sggnn tables conditional_recall --models sggnn-rv-gat --lengths 15,20 --warm-from 10

    Example: sggnn tables tree_max --from docs/results --into docs/results.md --into README.md
    """
    from sggnn_tf import tasks
    from sggnn_tf.models import MODELS
    from sggnn_tf.training import table_pictures
    from sggnn_tf.training import tables as grids

    task = tasks.find(task).name
    console = Console(quiet=as_json)
    if from_ is None:
        chosen = grids.SEEDS if seeds is None else whole_numbers("seeds", seeds)
        settings = {} if epochs is None else {"epochs": epochs}
        if task == "tree_max":
            cells = list(grids.tree_cells(model_names(models), chosen, settings))
        else:
            of_each = whole_numbers("examples-per-class", examples_per_class)
            numbers = whole_numbers("lengths", lengths)
            if warm_from is not None:
                cells = list(grids.warm_cells(model_names(models), numbers, chosen, warm_from, workdir, settings))
            else:
                cells = list(grids.recall_cells(model_names(models), numbers, chosen, of_each, settings))
        _run(cells, out, workdir, console)
    entries = grids.read_table(task, from_ or out)
    drawn = table_pictures.draw_all(task, from_ or out, picture)
    if not drawn:
        raise ValueError(f"There are no results of {task} in {from_ or out}.")
    for page in into or ():
        _rewrite(page, from_ or out, task)
    if as_json:
        typer.echo(json.dumps([{**entry._asdict(), "mean": entry.mean, "spread": entry.spread} for entry in entries]))
        return
    if entries:
        columns = list(dict.fromkeys(entry.column for entry in entries))
        table = Table("model", *columns, title=f"{task}: % right, mean ± spread over (seeds) | paper")
        for name in MODELS:
            row = {entry.column: entry for entry in entries if entry.model == name}
            table.add_row(name, *(_cell_text(row.get(column)) for column in columns))
        console.print(table)
    console.print(f"Drawn in {', '.join(str(path) for path in drawn)}")


def search(
    task: Annotated[str, typer.Argument(help="conditional_recall or tree_max.")],
    models: Annotated[str | None, typer.Option(help="Names with commas between them. Default: all seven.")] = None,
    trials: Annotated[int, typer.Option(help="The number of trials of each model.")] = 8,
    length: Annotated[int | None, typer.Option(help="conditional_recall: characters of a string.")] = None,
    seed: Annotated[int, typer.Option(help="Of the search and its runs; none that a table uses.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="The largest number of epochs, in place of the recipe's.")] = None,
    out: Annotated[Path, typer.Option(help="Where results are kept, a file a trial.")] = Path("search"),
    workdir: Annotated[Path, typer.Option(help="Where the runs are.")] = Path("runs/search"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the trials as JSON, for programs.")] = False,
) -> None:
    """Search for the settings of models on a task: random ones from the task's ranges, chosen on `valid`.

    Every model gets the same number of trials, of the same values. A trial that is done is never run again: stop at
    will, and start again, also with more trials.

    Example: sggnn search conditional_recall --length 5 --models sggnn-rv-gat,rgcn --trials 4
    """
    from sggnn_tf.training import search as searches

    if trials < 1:
        raise ValueError(f"--trials is {trials}; it has to be at least 1.")
    console = Console(quiet=as_json)
    arguments = {} if length is None else {"length": length}
    settings = {} if epochs is None else {"epochs": epochs}
    names = model_names(models)
    cells = searches.trial_cells(task, names, trials, seed=seed, task_arguments=arguments, settings=settings)
    _run(cells, out, workdir, console)
    found = {name: searches.best_first([cell for cell in cells if cell.model == name], out) for name in names}
    if as_json:
        typer.echo(json.dumps({name: [trial._asdict() for trial in each] for name, each in found.items()}, indent=2))
        return
    for name, each in found.items():
        columns = list(each[0].settings)
        table = Table("valid", "loss", *columns, title=f"{name}: {len(each)} trials, the best first")
        for trial in each:
            table.add_row(f"{trial.accuracy:.1%}", f"{trial.loss:.3f}", *(str(trial.settings[c]) for c in columns))
        console.print(table)


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs, or with runs or results below them.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """Put runs side by side on one page of HTML: figures, learning curves, accuracy by hop, settings.

    Example: sggnn report runs --out report.html
    """
    from sggnn_tf.analysis.report import write_report

    number = write_report(folders, out)
    Console().print(f"{number} run{'s' if number > 1 else ''} in {out}")


def model_names(text: str | None) -> list[str]:
    """The models of an option, all of them if it is not given."""
    from sggnn_tf.models import MODELS, registry

    return list(MODELS) if text is None else [registry.find(name.strip()).name for name in text.split(",")]


def _run(cells: Sequence[Any], out: Path, workdir: Path, console: Console) -> None:
    """Runs cells with a bar each; a stop is no accident."""
    from sggnn_tf import training
    from sggnn_tf.tfgnn_bridge import without_log_noise
    from sggnn_tf.training.cells import run_cells
    from sggnn_tf.training.progress import ProgressBar

    bars: list[ProgressBar] = []
    with os.fdopen(os.dup(2), "w") as file:  # Standard error will be held back.

        def bar(cell: Any) -> list[Any]:
            bars.append(ProgressBar(Console(file=file), f"{cell.model} {cell.variant} seed {cell.seed}"))
            return bars[-1:]

        try:
            with without_log_noise():
                run_cells(cells, out, workdir, callbacks=bar)
        except KeyboardInterrupt:
            console.print("Stopped. All whole epochs are kept; the same command goes on.")
            raise typer.Exit(130) from None
        except training.TrainingStoppedError as error:
            raise ValueError(str(error)) from None
        finally:
            for each in bars:
                each.stop()


def _rewrite(page: Path, folder: Path, task: str) -> None:
    """Makes the tables of a page anew."""
    from sggnn_tf.files import write_whole
    from sggnn_tf.training.table_text import rewrite

    try:
        text = page.read_text()
    except OSError as error:
        raise ValueError(f"--into {page} cannot be read: {error}") from None
    write_whole(page, rewrite(text, folder, task))


def _cell_text(entry: Any) -> str:
    if entry is None:
        return ""
    paper = "" if entry.paper is None else f" | {entry.paper:.1f}"
    return f"{entry.mean:.1f} ± {entry.spread:.1f} ({len(entry.values)}){paper}"
