"""Work on many pieces, done by Apache Beam on whatever workers there are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any


def run_on_beam(
    pieces: Sequence[Any], function: Callable[..., None], runner: str, beam_options: Sequence[str], **arguments: Any
) -> None:
    """Calls a function for each piece.

    Args:
      pieces: what there is to do.
      function: does one piece. It is called again if a worker fails.
      runner: Beam's runner.
      beam_options: further options of the runner, as on a command line.
      **arguments: further arguments of the function.
    """
    beam = _beam()
    options = beam.options.pipeline_options.PipelineOptions(list(beam_options), runner=runner)
    try:
        with beam.Pipeline(options=options) as pipeline:
            _ = (
                pipeline
                | beam.Create(pieces)
                | beam.Reshuffle()  # Or one worker would get all of them.
                | beam.Map(function, **arguments)
            )
    except RuntimeError as error:  # Beam's word for whatever happened in a worker.
        if "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from None
        raise OSError(str(error).strip().splitlines()[-1]) from None


def _beam() -> Any:
    """Apache Beam, without what it has to say of packages that it could use; it takes a second to import."""
    root = logging.getLogger()
    handlers, is_disabled = list(root.handlers), root.disabled
    root.disabled = True
    try:
        import apache_beam
        import apache_beam.options.pipeline_options
    finally:
        root.handlers, root.disabled = handlers, is_disabled
    return apache_beam
