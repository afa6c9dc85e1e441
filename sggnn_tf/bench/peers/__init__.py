"""Other ways to do the same: what `sggnn bench --peers` is timed against. They need the extra `bench`."""

from __future__ import annotations

from collections.abc import Callable

from sggnn_tf.bench.problem import Problem


def make(library: str, model: str, problem: Problem, mode: str, jit: bool) -> tuple[Callable[[], object], int]:
    """A step of training or use by another library, and its operations in matrix products, forward."""
    try:
        if library == "tfgnn-keras2":
            from sggnn_tf.bench.peers import tfgnn_keras2

            return tfgnn_keras2.make(problem, mode)
        from sggnn_tf.bench.peers import pytorch

        if library == "pytorch":
            return pytorch.make(problem, model, mode, jit)
        from sggnn_tf.bench.peers import pyg

        return pyg.make(problem, model, mode)
    except ImportError as error:
        raise ValueError(f"{library} is not here ({error}). Install the extra: pip install 'sggnn-tf[bench]'") from None
