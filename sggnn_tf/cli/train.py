"""`sggnn train` and `sggnn evaluate`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sggnn_tf.cli.options import assignments, whole_numbers


def train(
    task: Annotated[str | None, typer.Argument(help="conditional_recall or tree_max; or none, with --data.")] = None,
    model: Annotated[str, typer.Option(help="The model; `sggnn models` lists them.")] = "sggnn-rv-gat",
    workdir: Annotated[Path | None, typer.Option(help="The folder of the run. Default: runs/TASK-MODEL-seedN.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --workdir.")] = False,
    data: Annotated[Path | None, typer.Option(help="Records to train on instead of a task: a folder.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Their schema, if it is not in the folder.")] = None,
    label: Annotated[str | None, typer.Option(help="What to predict: NODE_SET/FEATURE or context/FEATURE.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A feature that the model is not to see, likewise.")] = None,
    length: Annotated[int | None, typer.Option(help="conditional_recall: characters of a string.")] = None,
    argument: Annotated[list[str] | None, typer.Option(help="Another argument of the task, such as trees=200.")] = None,
    units: Annotated[int | None, typer.Option(help="The width of the states.")] = None,
    steps: Annotated[int | None, typer.Option(help="The number of steps.")] = None,
    dropout: Annotated[float | None, typer.Option(help="The rate of dropout.")] = None,
    embedding_stddev: Annotated[float | None, typer.Option(help="The spread of the initial embeddings.")] = None,
    embedding_gain: Annotated[float | None, typer.Option(help="How many times faster embeddings learn.")] = None,
    node_dropout: Annotated[float | None, typer.Option(help="The share of nodes hidden in training.")] = None,
    switch: Annotated[
        list[str] | None, typer.Option(help="A switch of the model, such as gate_bias=0; `sggnn models --json`.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the data, the weights and the order. Default: 0.")] = None,
    epochs: Annotated[int | None, typer.Option(help="The largest number of epochs.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Epochs without a better valid accuracy before it stops.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Graphs of a batch.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of Adam, times the learning rate.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Of the learning rate: constant or cosine.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Epochs in which the learning rate rises.")] = None,
    clip_norm: Annotated[float | None, typer.Option(help="Gradients are scaled down to this norm.")] = None,
    start_from: Annotated[Path | None, typer.Option(help="A finished run whose weights to start from.")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Batches for one step of the optimizer.")] = None,
    jit: Annotated[bool | None, typer.Option(help="Compile with XLA. Default: on a GPU.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, mixed_bfloat16, mixed_float16 or float64.")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices that share each batch; without XLA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")] = False,
) -> None:
    """Train a model on a task, or on your own records, and measure it.

    What is not given comes from the task's recipe. A run that was stopped goes on with --resume.

    Example: sggnn train conditional_recall --length 5 --epochs 30

    Example: sggnn train --data grid --label station/fails --model rgcn --steps 4

    Example: sggnn train --resume --workdir runs/conditional_recall-sggnn-rv-gat-seed0
    """
    from sggnn_tf import training
    from sggnn_tf.tfgnn_bridge import without_log_noise
    from sggnn_tf.training.progress import ProgressBar

    settings = {
        "label": label,
        "ignore": ignore,
        "units": units,
        "steps": steps,
        "dropout": dropout,
        "embedding_stddev": embedding_stddev,
        "embedding_gain": embedding_gain,
        "node_dropout": node_dropout,
        "seed": seed,
        "epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "schedule": schedule,
        "warmup": warmup,
        "clip_norm": clip_norm,
        "start_from": None if start_from is None else str(start_from),
        "accumulate": accumulate,
        "jit": jit,
        "precision": precision,
        "devices": devices,
    }
    of_task = {"length": length, "argument": argument}
    with without_log_noise():
        switches = _switches(switch, model)
        if resume and task is None and data is None:
            if workdir is None:
                raise ValueError("--resume needs --workdir: the folder of the run to go on with.")
            _refuse({**settings, **of_task, "switch": switch, "schema": schema}, "a run goes on with its own settings")
            config = training.read_config(workdir)
        elif task is not None and data is None:
            _refuse({"schema": schema}, "a task has a schema of its own")
            arguments = {"length": length, **assignments("argument", argument)}
            arguments = {name: value for name, value in arguments.items() if value is not None}
            config = training.for_task(task, model, task_arguments=arguments, **settings, **switches)
        elif data is not None and task is None:
            _refuse(of_task, "records have no arguments of a task")
            config = training.for_data(data, model, schema=schema, **settings, **switches)
        else:
            raise ValueError("Give a task or a folder with --data, and not both.")
    name = config.task or Path(config.data or "").name
    workdir = workdir or Path("runs") / f"{name}-{config.model}-seed{config.seed}"
    console = Console(quiet=as_json)
    console.print(f"{config.model}, {config.units} units, {config.steps} steps, on {name}: {workdir}")
    bar = ProgressBar(Console(file=os.fdopen(os.dup(2), "w")))  # Standard error will be held back.
    try:
        with without_log_noise():
            result = training.train(config, workdir, resume=resume, callbacks=[bar])
    except KeyboardInterrupt:
        bar.stop()
        how = f"sggnn train --resume --workdir {workdir}"
        console.print(f"Stopped. All whole epochs are kept; to go on: {escape(how)}", soft_wrap=True)
        raise typer.Exit(130) from None
    except training.TrainingStoppedError as error:
        bar.stop()
        raise ValueError(str(error)) from None
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        _print_result(console, result)


def evaluate(
    workdir: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    lengths: Annotated[
        str | None, typer.Option(help="conditional_recall: measure on strings of these lengths, with as many steps.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to keep what --lengths measures, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, for programs.")] = False,
) -> None:
    """Measure the model of a run again, from its files; or, without further training, on longer strings.

    Example: sggnn evaluate runs/conditional_recall-sggnn-rv-gat-seed0

    Example: sggnn evaluate runs/conditional_recall-sggnn-rv-gat-seed0 --lengths 10,20,50
    """
    from sggnn_tf import training
    from sggnn_tf.files import write_whole
    from sggnn_tf.tfgnn_bridge import without_log_noise
    from sggnn_tf.training.longer import run_longer

    console = Console(quiet=as_json)
    if lengths is None:
        _refuse({"out": out}, "it is for --lengths")
        with without_log_noise():
            result = training.evaluate(workdir)
    else:
        numbers = whole_numbers("lengths", lengths)
        with console.status("measuring") as status, without_log_noise():
            result = run_longer(workdir, [{"length": number} for number in numbers], status.update)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(result, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    elif lengths is None:
        _print_result(console, result)
    else:
        table = Table("length", "steps", "right")
        for each in result["longer"]:
            table.add_row(str(each["task_arguments"]["length"]), str(each["steps"]), f"{each['test']['accuracy']:.1%}")
        console.print(table)


def _refuse(options: dict[str, Any], reason: str) -> None:
    """Refuses options that would be passed over."""
    given = [name.replace("_", "-") for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"--{given[0]} cannot be given here: {reason}.")


def _switches(texts: list[str] | None, model: str) -> dict[str, Any]:
    """Switches of the model, each of which it has to have."""
    from sggnn_tf.models import registry

    found = assignments("switch", texts)
    known = registry.switch_names(model)
    for name in found:
        if name not in known:
            raise ValueError(f"The model {model} has no switch {name!r}; it has {', '.join(known)}.")
    return found


def _print_result(console: Console, result: dict[str, Any]) -> None:
    """The figures of a run as a table."""
    split = "test" if "test" in result else "valid"
    figures = result[split]
    title = f"{figures['accuracy']:.1%} of {figures['questions']:,} {split} questions right"
    if figures["questions"] != figures["graphs"]:
        title += f", {figures['graph_accuracy']:.1%} of {figures['graphs']:,} graphs all right"
    floors = ", ".join(f"{name} {value:.1%}" for name, value in figures["floors"].items())
    console.print(f"[bold]{title}[/] (without a model: {floors})")
    for key, what in (("by_rule", "rule"), ("by_hops", "hops to the answer")):
        if key in figures:
            table = Table(what, "questions", "right")
            for group, each in figures[key].items():
                table.add_row(group, f"{each['questions']:,}", f"{each['accuracy']:.1%}")
            console.print(table)
