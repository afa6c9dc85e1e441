import os
import sys

if "PYTEST_XDIST_WORKER" in os.environ:  # Workers share the cores: threads of their own would only wait for each other.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import pytest

import sggnn_tf  # noqa: F401 - before anything touches tf.keras
from sggnn_tf.cli import main


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same seed, and leaves no policy of its own behind."""
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command as a shell does; returns its exit code, and what it says, each as one line."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["sggnn", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return stopped.value.code, " ".join(said.out.split()), " ".join(said.err.replace("│", " ").split())

    return run
