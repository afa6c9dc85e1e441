"""`sggnn export`, `sggnn verify`, `sggnn serve` and `sggnn predict`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape


def export(
    workdir: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="The folder of the served model; its last part is the model's name.")],
) -> None:
    """Write the model of a run as a SavedModel for TF Serving, as the next version in a folder.

    It is loaded and asked in TensorFlow's C++ runtime first, as by `sggnn verify`; a version that does not pass is not
    published.

    Example: sggnn export runs/conditional_recall-sggnn-rv-gat-seed0 --out saved_models/conditional_recall
    """
    from sggnn_tf import serving
    from sggnn_tf.tfgnn_bridge import without_log_noise

    with without_log_noise():
        version = serving.export_run(workdir, out)
    Console().print(f"Exported and checked: {version}")


def verify(
    folder: Annotated[Path, typer.Argument(help="A served model, of which the newest version; or a version.")],
) -> None:
    """Check an exported model as a server would run it.

    It is loaded in a process without Python's TensorFlow, by the C++ runtime that TF Serving is made of, with XLA off:
    every signature has to give the answers that the live model gave when it was exported, to each graph alone and with
    others.

    Example: sggnn verify saved_models/conditional_recall
    """
    from sggnn_tf import serving
    from sggnn_tf.serving.saved_model import latest_version

    version = latest_version(folder)
    problems = serving.verify(version)
    if problems:
        raise ValueError(f"{version} does not pass:\n" + "\n".join(problems))
    Console().print(f"{version} passes: TF Serving's runtime gives the answers of the live model.")


def serve(
    folder: Annotated[Path, typer.Argument(help="A served model, of which the newest version; or a version.")],
    grpc_port: Annotated[int, typer.Option(help="0: any that is free.")] = 8500,
    rest_port: Annotated[int, typer.Option(help="0: any that is free.")] = 8501,
) -> None:
    """Serve an exported model on this machine, by TF Serving's protocol, for development and tests.

    It speaks gRPC (Predict, GetModelMetadata, GetModelStatus) and REST on the loopback address, on the C++ runtime of
    the installed TensorFlow. Production is TF Serving: its command is printed.

    Example: sggnn serve saved_models/conditional_recall
    """
    from sggnn_tf.serving.local import serve as serve_locally

    console = Console()
    with serve_locally(folder, grpc_port=grpc_port, rest_port=rest_port) as server:
        base = folder.resolve() if not folder.name.isdecimal() else folder.resolve().parent
        console.print(f"{server.name}, version {server.version}, for development and tests:")
        console.print(f"  gRPC  {server.grpc}\n  REST  {server.rest}/v1/models/{server.name}")
        console.print("In production, with TF Serving:")
        console.print(
            f"  docker run -p 8500:8500 -p 8501:8501 -v {base}:/models/{server.name} -e MODEL_NAME={server.name} "
            "tensorflow/serving",
            soft_wrap=True,
        )
        console.print("Ctrl-C ends it.")
        try:
            code = server.process.wait()
        except KeyboardInterrupt:  # It goes to the server too, which may be the first to end, with the code 0.
            code = 0
        if code:
            raise ValueError(f"The server has ended by itself, with the code {code}.")
        console.print("Ended.")


def predict(
    target: Annotated[
        str, typer.Argument(help="A folder of an exported model, http://HOST:PORT, or HOST:PORT (gRPC).")
    ],
    inputs: Annotated[
        list[str] | None, typer.Argument(help="Strings, trees as (1 (2 ) (3 )), or .tfrecord files.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The model, if the target is an address.")] = None,
    task: Annotated[
        str | None, typer.Option(help="How to read inputs. Default: strings are text, (...) is a tree.")
    ] = None,
    records: Annotated[str | None, typer.Option(help="Files of many records, such as 'data/test-*.tfrecord'.")] = None,
    out: Annotated[Path | None, typer.Option(help="With --records: the folder for the answers.")] = None,
    runner: Annotated[str, typer.Option(help="With --records: Beam's runner.")] = "DirectRunner",
    as_json: Annotated[bool, typer.Option("--json", help="Print answers as JSON, a line each, for programs.")] = False,
) -> None:
    """Ask an exported or served model.

    Example: sggnn predict saved_models/conditional_recall a8cDe xyzabc

    Example: sggnn predict http://localhost:8501/v1/models/tree_max "(1 (2 (3 ) (4 )) (5 ))"

    Example: sggnn predict saved_models/tree_max --records 'trees/test-*.tfrecord' --out answers
    """
    from sggnn_tf.serving import client as clients
    from sggnn_tf.tfgnn_bridge import without_log_noise

    console = Console()
    if (records is None) == (not inputs):
        raise ValueError("Give inputs, or files of records by --records, and not both.")
    if records is not None:
        from sggnn_tf.serving.batch import predict_records

        if out is None:
            raise ValueError("--records needs --out: the folder for the answers.")
        with without_log_noise():
            number = predict_records(target, records, out, runner=runner)
        console.print(f"{number} files of answers in {out}")
        return
    with without_log_noise(), clients.connect(target, name) as client:
        found = list(_answers(client, inputs or [], task))
    for text, answer, all_of_it in found:
        if as_json:
            typer.echo(json.dumps({"input": text, **all_of_it.to_dict()}))
            continue
        sure = f"{min(all_of_it.confidences):.1%}" if all_of_it.confidences else "no question"
        least = "at least " if len(all_of_it.confidences) > 1 else ""
        note = "" if all_of_it.extras.get("within_reach", True) else "  (longer than the model's steps can carry)"
        console.print(
            f"{escape(text)} → [bold]{escape(answer)}[/]  {least}{sure}{note}", highlight=False, soft_wrap=True
        )


def _answers(client: Any, inputs: list[str], task_name: str | None) -> Any:
    """`(input, answer, all of it)` for each input, or each record of a file."""
    import tensorflow as tf

    from sggnn_tf import tasks
    from sggnn_tf.data.codec import Codec
    from sggnn_tf.data.examples import task_schema
    from sggnn_tf.serving import client as clients

    for text in inputs:
        if Path(text).is_file():
            dataset = tf.data.TFRecordDataset(text, "GZIP" if text.endswith(".gz") else "")
            for number, found in enumerate(clients.ask_records(client, list(dataset.as_numpy_iterator()))):
                yield f"{text}:{number}", ", ".join(found.labels), found
        elif task_name is None and not text.startswith("(") and "text" in client.signatures():
            (found,) = clients.ask_texts(client, [text])
            yield text, ", ".join(found.labels), found
        else:
            task = tasks.make(task_name or ("tree_max" if text.startswith("(") else "conditional_recall"))
            graph = task.from_text(text)
            (found,) = clients.ask_records(client, [Codec(task_schema(task)).encode(graph)])
            yield text, task.answer_text(graph, found.labels), found
