"""One side of a comparison, in a process of its own: so libraries do not share threads, and memory is its own.

`python -m sggnn_tf.bench.worker '{"task": ..., "model": ..., ...}'` makes the case, tells about it in a line of JSON,
and then runs it once for each line that it reads, and tells how long that took.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TextIO

ENOUGH = 0.2
"""Seconds of a turn: a quick action is run several times in it."""


class Worker:
    """The process of a case, seen from outside.

    Args:
      case: what the process makes: the fields of a `Case`, or of a `scaling.Point`.
    """

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sggnn_tf.bench.worker", json.dumps(case)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def answer(self) -> dict[str, Any]:
        """The next thing that it tells."""
        for line in self.process.stdout or ():
            if line.startswith("{"):
                return json.loads(line)
        _, errors = self.process.communicate()
        lines = [line for line in errors.splitlines() if line.strip()]
        raise ValueError(f"{self.case} could not be timed: {lines[-1] if lines else 'its process ended.'}")

    def seconds(self) -> float:
        """Runs the case; returns how long it took."""
        return self._ask("run")["seconds"]

    def end(self) -> float:
        """Ends the process; returns the peak of its memory in MiB, above what it had before the case was made."""
        peak = self._ask("end")["peak_mib"]
        self.process.communicate()
        return peak

    def stop(self) -> None:
        """Ends the process, whatever it is doing."""
        self.process.kill()
        self.process.communicate()

    def _ask(self, what: str) -> dict[str, Any]:
        if self.process.stdin is not None and self.process.poll() is None:
            print(what, file=self.process.stdin, flush=True)
        return self.answer()


def main(case: dict[str, Any], asked: TextIO, told: TextIO) -> None:
    """Makes a case and runs it as often as it is asked to."""
    from sggnn_tf.bench import timing

    def tell(**values: Any) -> None:
        print(json.dumps(values), file=told, flush=True)

    if case.get("library") in ("pytorch", "pyg"):  # TensorFlow is here already.
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")
    before = peak_mib()
    action, about = _make(case)
    first = timing.seconds(action)
    second = timing.seconds(action)
    times = max(1, round(ENOUGH / second))
    tell(**about, compile_seconds=max(0.0, first - second))
    for line in asked:
        if line.strip() == "end":
            tell(peak_mib=peak_mib() - before)
            return
        tell(seconds=timing.seconds(action, times))


def _make(case: dict[str, Any]) -> tuple[Callable[[], object], dict[str, Any]]:
    if "edges" in case:
        from sggnn_tf.bench import scaling

        return scaling.make(scaling.Point(**case)), {}
    from sggnn_tf.bench import cases

    made = cases.make(cases.Case(**case))
    about = made._asdict()
    return about.pop("action"), {**about, "size": made.size._asdict()}


def peak_mib() -> float:
    """The peak of this process' memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is not for the other side.
    main(json.loads(sys.argv[1]), sys.stdin, output)
