"""`sggnn reach`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from sggnn_tf.cli.experiments import model_names
from sggnn_tf.cli.options import whole_numbers


def reach(
    task: Annotated[str, typer.Argument(help="conditional_recall or tree_max.")] = "conditional_recall",
    run: Annotated[Path | None, typer.Option(help="Measure the model of a finished run: its folder.")] = None,
    models: Annotated[str | None, typer.Option(help="Names with commas between them. Default: all seven.")] = None,
    length: Annotated[int | None, typer.Option(help="conditional_recall: characters of a string.")] = None,
    seeds: Annotated[str, typer.Option(help="Of data and weights, with commas between them.")] = "1,2,3",
    epochs: Annotated[str, typer.Option(help="After how many epochs to measure; 0 is the start.")] = "0",
    probes: Annotated[int, typer.Option(help="Random probes for a norm; 0: exact, a backward pass for each unit.")] = 0,
    attention: Annotated[
        str | None, typer.Option(help="Draw who listens to whom in this example instead, such as a8cDe.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to keep the figures, as JSON.")] = None,
    picture: Annotated[Path, typer.Option(help="Where to draw.")] = Path("reach.png"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, for programs.")] = False,
) -> None:
    """Measure how far gradients reach: |d h_v(K) / d h_u(0)| by the number of hops between u and v, and draw it.

    v is a node that is asked, one a graph. The radius is the mean distance of all nodes u, weighted by that norm.

    Example: sggnn reach conditional_recall --length 10 --epochs 0,10

    Example: sggnn reach --run runs/conditional_recall-sggnn-rv-gat-seed0

    Example: sggnn reach --run runs/conditional_recall-sggnn-rv-gat-seed0 --attention a8cDe
    """
    from sggnn_tf.tfgnn_bridge import without_log_noise

    console = Console(quiet=as_json)
    if probes < 0:
        raise ValueError(f"--probes is {probes}; it has to be 0 (exact) or the number of random probes.")
    if attention is not None:
        names = model_names(models) if run is None and models is not None else ["sggnn-rv-gat"]
        if len(names) > 1:
            raise ValueError("--attention draws one model; name it with --models.")
        with without_log_noise():
            _draw_attention(task, run, names[0], attention, picture, console)
        return
    arguments = {} if length is None else {"length": length}
    measured = _measured(task, run, models, arguments, seeds, epochs, probes or None, console)
    if out is not None:
        from sggnn_tf.files import write_whole

        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(measured, indent=1) + "\n")
    _draw(measured, picture)
    if as_json:
        typer.echo(json.dumps(measured, indent=2))
    else:
        _print(console, measured)
        console.print(f"Drawn in {picture}")


def _measured(
    task: str,
    run: Path | None,
    models: str | None,
    arguments: dict[str, Any],
    seeds: str,
    epochs: str,
    probes: int | None,
    console: Console,
) -> dict[str, Any]:
    from sggnn_tf import training
    from sggnn_tf.tfgnn_bridge import without_log_noise
    from sggnn_tf.training import reach_study

    if run is not None:
        with without_log_noise():
            config, model, result = training.read_run(run)
            found = reach_study.figures(reach_study.run_reach(config, model, probes))
        return {
            "task": config.task or config.data,
            "task_arguments": config.task_arguments,
            "seeds": [config.seed],
            "probes": probes,
            "reach": {config.model: {str(result["epochs"]): found}},
        }
    chosen, names = whole_numbers("epochs", epochs), model_names(models)
    if min(chosen) < 0:
        raise ValueError(f"--epochs is {epochs!r}; numbers of epochs are 0 (the start) or more.")
    with console.status("measuring") as status, without_log_noise():
        return reach_study.study(
            task,
            names,
            whole_numbers("seeds", seeds),
            chosen,
            probes=probes,
            task_arguments=arguments,
            report=status.update,
        )


def _draw(measured: dict[str, Any], picture: Path) -> None:
    from sggnn_tf.analysis.reach_picture import draw_reach, panels, title_of

    draw_reach(panels(measured["reach"]), picture, title_of(measured))


def _print(console: Console, measured: dict[str, Any]) -> None:
    for epoch in dict.fromkeys(epoch for each in measured["reach"].values() for epoch in each):
        lines = {model: each[epoch] for model, each in measured["reach"].items() if epoch in each}
        hops = sorted({int(hop) for each in lines.values() for hop in each["by_hop"]})
        shown = hops if len(hops) <= 6 else sorted({hops[round(place * (len(hops) - 1) / 5)] for place in range(6)})
        when = "at the start" if epoch == "0" else f"after {epoch} epochs"
        title = f"norm by hops, {when}, mean over pairs of {len(measured['seeds'])} seed(s)"
        table = Table(Column("model", no_wrap=True), *(f"{hop} hops" for hop in shown), "radius", title=title)
        for model, each in lines.items():
            norms = (f"{each['by_hop'][str(hop)]:.1e}" if str(hop) in each["by_hop"] else "" for hop in shown)
            table.add_row(model, *norms, f"{each['radius']:.2f}")
        console.print(table)


def _draw_attention(task: str, run: Path | None, model: str, text: str, picture: Path, console: Console) -> None:
    from sggnn_tf.training.attention import draw_attention_of_run, draw_attention_of_start

    if run is not None:
        draw_attention_of_run(run, text, picture)
    else:
        draw_attention_of_start(task, model, text, picture)
        console.print("This is a model that was not trained; --run draws that of a run.")
    console.print(f"Drawn in {picture}")
