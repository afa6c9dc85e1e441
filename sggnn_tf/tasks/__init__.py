"""The paper's tasks: seeded generators of graphs, in NumPy."""

import difflib
from typing import Any

from sggnn_tf.tasks.conditional_recall import ConditionalRecall
from sggnn_tf.tasks.task import SPLITS, Task
from sggnn_tf.tasks.tree_max import TreeMax

TASKS: dict[str, type[Task]] = {task.name: task for task in (ConditionalRecall, TreeMax)}

__all__ = ["SPLITS", "TASKS", "ConditionalRecall", "Task", "TreeMax", "find", "make"]


def find(name: str) -> type[Task]:
    """The task of this name, or the nearest name."""
    if name not in TASKS:
        close = difflib.get_close_matches(name, TASKS, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ValueError(f"There is no task {name!r}; there are {', '.join(TASKS)}.{hint}")
    return TASKS[name]


def make(name: str, **arguments: Any) -> Task:
    """The task of this name, with these arguments.

    Example: `make("conditional_recall", length=10, seed=3)`.
    """
    known = find(name).argument_names()
    unknown = sorted(arguments.keys() - set(known))
    if unknown:
        raise ValueError(f"The task {name} has no argument {unknown[0]!r}; it has {', '.join(known)}.")
    return TASKS[name](**arguments)
