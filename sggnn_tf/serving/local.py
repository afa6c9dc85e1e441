"""A server for development and tests, in a process of its own with TensorFlow's C++ runtime."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sggnn_tf.serving.saved_model import latest_version
from sggnn_tf.serving.verify import runtime_command


class LocalServer(NamedTuple):
    """A server that runs."""

    process: subprocess.Popen[str]
    name: str
    version: int
    grpc: str  # Addresses.
    rest: str


@contextmanager
def serve(
    folder: str | Path, *, name: str | None = None, grpc_port: int = 0, rest_port: int = 0
) -> Iterator[LocalServer]:
    """Serves the newest version in a folder on the loopback address, for as long as the block lasts.

    Args:
      folder: a served model, or one of its versions.
      name: what clients call the model; by default the name of its folder.
      grpc_port, rest_port: 0: any that is free.
    """
    version = latest_version(folder).resolve()
    name = name or version.parent.name
    command = runtime_command("sggnn_tf.serving.runtime.server", str(version), name, str(grpc_port), str(rest_port))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = process.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"error": "the process ended while it loaded the model"}
        if "error" in told:
            raise ValueError(f"{version} cannot be served: {told['error']}")
        yield LocalServer(
            process, name, told["version"], f"127.0.0.1:{told['grpc']}", f"http://127.0.0.1:{told['rest']}"
        )
    finally:
        process.stdin.close()  # It ends with its input.
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
