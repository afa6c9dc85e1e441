"""Training runs that resume, and the paper's tables."""

from sggnn_tf.training.config import Config, for_data, for_task
from sggnn_tf.training.run import (
    TrainingStoppedError,
    evaluate,
    learning_rates,
    make_batches,
    make_model,
    read_config,
    read_run,
    train,
)

__all__ = [
    "Config",
    "TrainingStoppedError",
    "evaluate",
    "for_data",
    "for_task",
    "learning_rates",
    "make_batches",
    "make_model",
    "read_config",
    "read_run",
    "train",
]
