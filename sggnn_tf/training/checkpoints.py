"""Checkpoints that hold all a run needs to go on as if it had never stopped."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np

from sggnn_tf.files import write_whole

log = logging.getLogger(__name__)

KEPT = 2
META = "meta"


class Checkpoints(keras.callbacks.Callback):
    """Saves, at the end of each epoch, all of a run: and brings it back.

    That is: the weights, the random state of dropout, the state of the optimizer, that of early stopping with the best
    weights so far, the number of epochs that are done, and the history. A file is written whole or not at all; its name
    has its checksum, so that one that is damaged is passed over for the one before it.

    Args:
      folder: where the files are.
      early_stopping: the callback whose state is part of the run. It has to stand before this one in the list.
      writes: whether this process is the one that writes the files.
    """

    def __init__(self, folder: Path, early_stopping: keras.callbacks.EarlyStopping, writes: bool = True) -> None:
        super().__init__()
        self.folder = folder
        self.early_stopping = early_stopping
        self.writes = writes
        self.history: list[dict[str, float]] = []
        self.restored: dict[str, np.ndarray] | None = None

    @property
    def epochs_done(self) -> int:
        return len(self.history)

    def load(self) -> bool:
        """Finds the last checkpoint that is whole, and says whether there is one."""
        for path in reversed(_files(self.folder)):
            content = path.read_bytes()
            if _name(int(path.name[:5]), content) != path.name:
                log.warning("%s is damaged; the checkpoint before it is used.", path)
                continue
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                self.restored = dict(file)
            self.history = self._meta()["history"]
            return True
        return False

    def on_train_begin(self, logs: Any = None) -> None:
        """Brings back what `load` found; after Keras has set all callbacks to their beginning."""
        if self.restored is None:
            return
        for name, variable in self._variables().items():
            variable.assign(self.restored[name])
        stopping = self._meta()["early_stopping"]
        count = stopping.pop("best_weights")
        for name, value in stopping.items():
            setattr(self.early_stopping, name, value)
        if count is not None:
            self.early_stopping.best_weights = [self.restored[f"best/{place}"] for place in range(count)]

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.history.append({name: float(value) for name, value in (logs or {}).items()})
        self.save()

    def save(self) -> None:
        """Writes a checkpoint, and deletes old ones."""
        stopping = self.early_stopping
        best = stopping.best_weights
        state = {name: getattr(stopping, name) for name in ("wait", "stopped_epoch", "best", "best_epoch")}
        state = {name: None if value is None else float(value) for name, value in state.items()}
        state = {name: int(value) if value is not None and name != "best" else value for name, value in state.items()}
        meta = {
            "history": self.history,
            "early_stopping": {**state, "best_weights": None if best is None else len(best)},
            "stop_training": bool(self.model.stop_training),
        }
        arrays: dict[str, Any] = {name: np.asarray(variable) for name, variable in self._variables().items()}
        arrays |= {f"best/{place}": np.asarray(value) for place, value in enumerate(best or ())}
        content = io.BytesIO()
        arrays[META] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        np.savez(content, allow_pickle=False, **arrays)
        if not self.writes:  # Reading a variable may need all workers: the others have read with the one that writes.
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _name(self.epochs_done, content.getvalue()), content.getvalue())
        for path in _files(self.folder)[:-KEPT]:
            path.unlink()

    @property
    def is_over(self) -> bool:
        """Whether early stopping had ended the run that was loaded."""
        return self.restored is not None and self._meta()["stop_training"]

    def _meta(self) -> dict[str, Any]:
        assert self.restored is not None
        return json.loads(self.restored[META].tobytes())

    def _variables(self) -> dict[str, Any]:
        model = {f"model/{place}": variable for place, variable in enumerate(self.model.variables)}
        optimizer = {f"optimizer/{place}": variable for place, variable in enumerate(self.model.optimizer.variables)}
        return {**model, **optimizer}


def _name(epochs: int, content: bytes) -> str:
    return f"{epochs:05d}-{hashlib.sha256(content).hexdigest()[:16]}.npz"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.npz") if re.fullmatch(r"\d{5}-[0-9a-f]{16}\.npz", path.name))
