"""A progress bar for a run."""

from __future__ import annotations

from typing import Any

import keras
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressBar(keras.callbacks.Callback):
    """Shows epoch, loss, accuracy, graphs per second and the time left.

    Args:
      console: where to draw.
      title: what stands before it.
    """

    def __init__(self, console: Console, title: str = "") -> None:
        super().__init__()
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=console)
        self.task = self.bar.add_task("starting")
        self.title = f"{title}  " if title else ""
        self.epoch, self.known = 0, ""

    def on_train_begin(self, logs: Any = None) -> None:
        self.bar.update(self.task, total=self.params["epochs"])
        self.bar.start()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        steps = self.params.get("steps") or batch + 1
        text = f"{self.title}epoch {self.epoch + 1}/{self.params['epochs']}  loss {float(logs['loss']):.3f}  accuracy "
        text += f"{float(logs['accuracy']):.1%}{self.known}"
        self.bar.update(self.task, completed=self.epoch + (batch + 1) / steps, description=text)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.known = f"  valid {float(logs['val_accuracy']):.1%}  {logs['graphs_per_second']:,.0f} graphs/s"

    def on_train_end(self, logs: Any = None) -> None:
        self.stop()

    def stop(self) -> None:
        """Takes the bar away; also after an error."""
        self.bar.stop()
