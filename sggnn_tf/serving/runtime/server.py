"""Serves a model on the loopback address: `python start.py sggnn_tf.serving.runtime.server FOLDER NAME GRPC REST`.

Prints the ports, as JSON, when the model is loaded and warm; ends with its standard input, or when it is told to.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

from sggnn_tf.serving.runtime import grpc_service, rest
from sggnn_tf.serving.runtime.model import Model


def main(folder: str, name: str, grpc_port: str, rest_port: str) -> None:
    """Serves until it is told to stop, and then ends what it has begun."""
    is_over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_over.set())
    try:
        model = Model(Path(folder), name)
        by_grpc, grpc_found = grpc_service.start(model, int(grpc_port))
        by_rest, rest_found = rest.start(model, int(rest_port))
    except ValueError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(2)
    print(json.dumps({"version": model.version, "grpc": grpc_found, "rest": rest_found}), flush=True)

    def wait_for_the_end_of_input() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_the_end_of_input, daemon=True).start()
    is_over.wait()
    by_rest.shutdown()
    by_grpc.stop(grace=5).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
