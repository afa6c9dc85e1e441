"""TFRecord files, without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path


def read_records(path: Path) -> Iterator[bytes]:
    """The records of a file that is not compressed."""
    content = path.read_bytes()
    place = 0
    while place < len(content):
        head = content[place : place + 12]
        length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else len(content)
        record = content[place + 12 : place + 12 + length]
        if len(record) != length or place + 16 + length > len(content):
            raise ValueError(f"{path} is damaged: its record at byte {place} is cut off.")
        yield record
        place += 16 + length
