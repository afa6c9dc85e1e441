"""Small runs for the tests of training."""

import json

import keras
import numpy as np

from sggnn_tf import training

SMALL = {"units": 8, "steps": 2, "epochs": 4, "batch_size": 16, "dropout": 0.3}


def recall(model="rgcn", **settings):
    arguments = {"length": 3, "examples_per_class": 2}
    return training.for_task(
        "conditional_recall", model, task_arguments=arguments, **{**SMALL, "patience": 2, **settings}
    )


def trees(**settings):
    arguments = {"trees": 40, "min_depth": 2, "max_depth": 5}
    return training.for_task("tree_max", "rgcn", task_arguments=arguments, **{**SMALL, "min_epochs": 0, **settings})


def weights(workdir):
    return keras.saving.load_model(workdir / "model.keras").get_weights()


def assert_same_run(first, second):
    for a, b in zip(weights(first), weights(second), strict=True):
        np.testing.assert_array_equal(a, b)
    histories = [json.loads((folder / "result.json").read_text())["history"] for folder in (first, second)]
    for a, b in zip(*histories, strict=True):
        timeless = set(a) - {"seconds", "graphs_per_second"}
        assert {name: a[name] for name in timeless} == {name: b[name] for name in timeless}


class StopAt(keras.callbacks.Callback):
    """Raises an error at a step, as if the process had ended there."""

    def __init__(self, epoch, batch, error=KeyboardInterrupt):
        super().__init__()
        self.place, self.error, self.epoch = (epoch, batch), error, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            raise self.error
