"""Whether an export will run on a server: checked in TensorFlow's C++ runtime, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

START = Path(__file__).parent / "runtime" / "start.py"


def verify(*folders: str | Path) -> list[str]:
    """Loads versions as TF Serving does, without Python's TensorFlow and with XLA off, and runs every signature.

    It is compared with the answers that the live model gave when it was exported; see `runtime.check` for all that is
    looked at.

    Args:
      *folders: versions.

    Returns:
      What is wrong, in sentences; nothing, if all is well.
    """
    process = subprocess.run(
        runtime_command("sggnn_tf.serving.runtime.check", *map(str, folders)),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = process.stdout.splitlines()
    if process.returncode or not lines:
        return [f"The C++ runtime ended with the code {process.returncode}: {process.stderr.strip()[-2000:]}"]
    return json.loads(lines[-1])


def runtime_command(module: str, *arguments: str) -> Sequence[str]:
    """The command of a process that has the C++ runtime and no Python TensorFlow."""
    return [sys.executable, str(START), module, *arguments]
