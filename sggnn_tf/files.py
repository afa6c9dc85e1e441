"""Files that are there whole, or not at all."""

from __future__ import annotations

import uuid
from pathlib import Path

import tensorflow as tf


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Writes a file under a temporary name and renames it; an error leaves what was there before."""
    partial = f"{path}.partial-{uuid.uuid4().hex[:8]}"
    try:
        with tf.io.gfile.GFile(partial, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        tf.io.gfile.rename(partial, str(path), overwrite=True)
    except (tf.errors.OpError, OSError) as error:
        raise ValueError(f"{path} cannot be written: {error}") from None
    finally:
        if tf.io.gfile.exists(partial):
            tf.io.gfile.remove(partial)
