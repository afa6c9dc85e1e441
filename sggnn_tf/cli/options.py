"""Options that hold more than one value."""

from __future__ import annotations

import json
from typing import Any


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; it has to be numbers with commas between them.") from None


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; it has to be whole numbers with commas between them.") from None


def assignments(option: str, texts: list[str] | None) -> dict[str, Any]:
    """`name=value` options; a value is a number, true, false or a word."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--{option} is {text!r}; it has to be NAME=VALUE.")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found
