"""The one door to TF-GNN, and to the private Keras names this package relies on.

TF-GNN refuses to be imported unless `tf.keras` is Keras 2, although its core (`GraphTensor`, schemas,
parsing, broadcast and pool, padding) needs no Keras at all. `tf.keras` is resolved at its first touch, so
it is steered to Keras 2 for the time of the import; `import keras` stays Keras 3 and is what every layer
and model here is made of. Every other module gets TF-GNN from here:

    from sggnn_tf.tfgnn_bridge import tfgnn
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# What TensorFlow's C++ libraries print whatever the environment variables for their log level say: INFO lines,
# the line that explains them, and the error that a machine without any NVIDIA driver has none (303). Other warnings and
# errors are passed on.
_NOISE = re.compile(
    rb"I\d{4} \d\d:\d\d:|I\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d [\d:.]+: I |"
    rb"WARNING: All log messages before absl::InitializeLog|To enable the following instructions:|"
    rb"E\d{4} .*failed call to cuInit.*\(303\)"
)


@contextlib.contextmanager
def without_log_noise() -> Iterator[None]:
    """Holds back standard error (the file descriptor: C++ writes there) and lets through what is not noise."""
    try:
        stderr = os.dup(2)
    except OSError:  # A process without standard error has no noise either.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            for line in held:
                if not _NOISE.match(line):
                    os.write(2, line)


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable, and puts it back as it was, for child processes above all."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _import_tfgnn() -> ModuleType:
    with without_log_noise(), _environment("TF_USE_LEGACY_KERAS", "1"):
        import keras
        import tensorflow as tf

        if keras.backend.backend() != "tensorflow":
            raise ImportError(
                f"sggnn_tf needs Keras on TensorFlow, but Keras runs on {keras.backend.backend()!r}: "
                "set the environment variable KERAS_BACKEND=tensorflow before the first `import keras`."
            )
        if hasattr(tf.keras, "version"):  # Only Keras 3 has it. The touch resolves tf.keras, if it was not.
            raise ImportError(
                "`tf.keras` was used as Keras 3 before `import sggnn_tf`, and TF-GNN cannot be imported after "
                "that: move `import sggnn_tf` above the first use of `tf.keras`, or write `keras.` instead of "
                "`tf.keras.`."
            )
        import tensorflow_gnn
    return tensorflow_gnn


class _NotAboutMappings(logging.Filter):
    """Drops a warning of tf.nest about TF-GNN's own feature maps, which no user can act on."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "Mapping types may not work well with tf.nest" not in str(record.msg)


tfgnn: Any = _import_tfgnn()
logging.getLogger("tensorflow").addFilter(_NotAboutMappings())


def is_auxiliary(set_name: str) -> bool:
    """Whether a node or edge set is TF-GNN's bookkeeping, such as `_readout`, and not part of the graph."""
    return tfgnn.get_aux_type_prefix(set_name) is not None


# Private Keras names, each with the reason why no public one does. A test fails when one of them changes.
#
# LossFunctionWrapper: what `compile(loss="mse")` makes of a loss function, with a reduction of its own
#   choice. The public classes (MeanSquaredError, ...) derive from it, but there is none for a user's function.
from keras.src.losses.losses import LossFunctionWrapper  # noqa: E402


class BuildsItself:
    """A model that Keras does not build.

    `_maybe_symbolic_build`: under `tf.distribute`, `fit` builds a model on the mean of the devices' first batches,
    which graphs do not have. No public setting skips it.
    """

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        pass


__all__ = ["BuildsItself", "LossFunctionWrapper", "is_auxiliary", "tfgnn", "without_log_noise"]
