import os

if "PYTEST_XDIST_WORKER" in os.environ:  # Workers share the cores: threads of their own would only wait for each other.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

import keras
import pytest

import sggnn_tf  # noqa: F401 - before anything touches tf.keras


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same seed, and leaves no policy of its own behind."""
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
