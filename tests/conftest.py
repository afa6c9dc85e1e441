import keras
import pytest

import sggnn_tf  # noqa: F401 - before anything touches tf.keras


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same seed, and leaves no policy of its own behind."""
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
