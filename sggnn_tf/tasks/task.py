"""What a task is: numbered examples, each a pure function of the seed and its number."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sggnn_tf.graph import Graph

SPLITS = ("train", "valid", "test")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """A data set that is generated: its arguments are the fields, its examples are numbered.

    An example depends on the seed and its number only, so any part of the data set can be made anywhere.

    Args:
      seed: a whole number from 0 on.
    """

    name: ClassVar[str]  # Also the name of its schema.
    held_out: ClassVar[int]  # One in this many examples goes to `valid`, and as many to `test`.
    size_argument: ClassVar[str]  # The argument that says how many examples there are.

    seed: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.type == "int":
                value = getattr(self, field.name)
                self.require(field.name, isinstance(value, int) and not isinstance(value, bool), "a whole number")
        self.require("seed", self.seed >= 0, "a whole number from 0 on")

    def require(self, argument: str, is_fine: bool, expected: str) -> None:
        """Refuses an argument, by name."""
        if not is_fine:
            raise ValueError(f"{self.name}: {argument} is {getattr(self, argument)!r}; it has to be {expected}.")

    @classmethod
    def argument_names(cls) -> list[str]:
        return [field.name for field in dataclasses.fields(cls)]

    def arguments(self) -> dict[str, Any]:
        """All arguments, the defaults too."""
        return dataclasses.asdict(self)

    @property
    @abc.abstractmethod
    def num_examples(self) -> int:
        """The number of examples of all splits."""

    def example(self, number: int) -> Graph:
        """The example of a number from 0 to `num_examples - 1`."""
        if not 0 <= number < self.num_examples:
            raise ValueError(f"{self.name}: there is no example {number}; there are {self.num_examples}, from 0 on.")
        return self.make_example(number)

    @abc.abstractmethod
    def make_example(self, number: int) -> Graph:
        """The example of a number that there is."""

    @abc.abstractmethod
    def hops(self, graph: Graph) -> np.ndarray:
        """For each readout, the distance from the node that answers to the (nearest) node that holds the answer."""

    @abc.abstractmethod
    def positions(self, graph: Graph) -> np.ndarray:
        """Where to draw each node, `[nodes, 2]`."""

    @abc.abstractmethod
    def recipe(self, model: str) -> dict[str, Any]:
        """How a model is trained on this task: settings of a run, and switches for the models that have them."""

    @abc.abstractmethod
    def ranges(self, model: str) -> Mapping[str, Sequence[Any]]:
        """The settings to search for a recipe in, each with the values to choose from."""

    def depths(self, model: str) -> Sequence[int]:
        """The numbers of steps to choose from, if a model is not best with those that reach farthest."""
        return ()

    def groups(self, graph: Graph) -> list[str]:
        """For each readout, the kind of question it is, if there are kinds."""
        return []

    def signatures(self, vocabularies: Mapping[str, Sequence[str]], steps: int) -> Sequence[Any]:
        """What a SavedModel takes beside graphs, if a person has something simpler.

        Each is an object with `name`, `inputs` (a `tf.TensorSpec` each), `arrays(**inputs)` (the inputs of the
        signature `graph_tensors`), `extras(**inputs)` (further outputs), and in NumPy `request(graphs)` and
        `expected_extras(graphs)`, for its check.

        Args:
          vocabularies: those of the schema, by `SET/FEATURE`.
          steps: the number of steps of the model.
        """
        return ()

    @abc.abstractmethod
    def from_text(self, text: str) -> Graph:
        """The graph that a person writes in one line."""

    def answer_text(self, graph: Graph, answers: Sequence[str]) -> str:
        """The answers to a graph's questions, as a person reads them."""
        return ", ".join(answers)

    @property
    @abc.abstractmethod
    def values(self) -> Mapping[str, int | Sequence[str]]:
        """The number of values, or the vocabulary, of the features whose values depend on the arguments."""

    @property
    def relations_like(self) -> Mapping[str, str]:
        """Relations that these arguments need beyond those of the schema, each with one that it is like."""
        return {}

    @property
    def splits(self) -> dict[str, range]:
        """The numbers of the examples of each split."""
        total, held_out = self.num_examples, self.num_examples // self.held_out
        if held_out == 0:
            raise ValueError(
                f"{self.name}: {total} examples are too few for three splits; one in {self.held_out} goes to valid "
                f"and to test, so make at least {self.held_out}, by {self.size_argument}."
            )
        return {
            "train": range(total - 2 * held_out),
            "valid": range(total - 2 * held_out, total - held_out),
            "test": range(total - held_out, total),
        }

    def random(self, number: int) -> np.random.Generator:
        """The random numbers of one example."""
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=(number,))))
