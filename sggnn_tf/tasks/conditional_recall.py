"""Conditional Recall: a string, whose last node is asked for a character that a rule picks.

The rules, from the strongest: the first digit, else the first upper-case letter, else the first character.
"""

from __future__ import annotations

import dataclasses
import functools
import string
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sggnn_tf.graph import Graph
from sggnn_tf.tasks.shuffle import shuffled
from sggnn_tf.tasks.task import Task

# The paper's; and where it is silent or its value does not carry far, what does: docs/results.md has the evidence.
RECIPE = {
    "embedding_units": 20,
    "embedding_stddev": 0.1,
    "embedding_gain": 12.0,
    "learning_rate": 3e-3,
    "weight_decay": 1.0,
    "schedule": "cosine",
    "warmup": 2,
    "clip_norm": 0.5,
    "label_smoothing": 0.1,
    "loss": "items",
    "epochs": 30,
    "patience": 15,
    "dropout": 0.3,
    "node_dropout": 0.05,
    "num_heads": 4,
    "head_bias": 2.0,
    "gate_bias": 3.0,
    "neighbour_bias": 2.0,
    "candidate_bias": True,
    "normaliser": "softmax",
}
LONG = {"epochs": 80, "patience": 30}  # From 20 characters on, it takes longer until the first one is carried.
VERY_LONG = {**LONG, "head_bias": 3.0, "neighbour_bias": 3.0}  # Of 30, the first is not carried from a weaker start.
RECIPE_OF_MODEL: dict[str, dict[str, Any]] = {  # The best of each model's trials.
    "rgcn": {"dropout": 0.0, "node_dropout": 0.0, "epochs": 100, "patience": 30},  # Long, as in the paper.
    "ggnn": {"dropout": 0.0, "node_dropout": 0.0, "epochs": 100, "patience": 30},
    "rgat": {"dropout": 0.2, "node_dropout": 0.0, "embedding_gain": 1.0, "weight_decay": 0.0, "epochs": 40},
    "ggnn-rv-gat": {"dropout": 0.2, "node_dropout": 0.0, "embedding_gain": 1.0, "weight_decay": 0.0, "epochs": 40},
    "sggnn-rv-mean": {"dropout": 0.2, "node_dropout": 0.0, "epochs": 40},
    "sggnn-rm-gat": {"dropout": 0.2, "node_dropout": 0.0, "epochs": 40},
}
RANGES: dict[str, Sequence[Any]] = {
    "dropout": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),  # The paper's, in steps.
    "node_dropout": (0.0, 0.05),
    "learning_rate": (1e-3, 3e-3),
    "embedding_stddev": (0.1, 1.0),
}

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits


def answer(text: str) -> int:
    """The place of the character that is the answer to a string."""
    for rule in (str.isdigit, str.isupper):
        for place, character in enumerate(text):
            if rule(character):
                return place
    return 0


def rule(text: str) -> str:
    """Which rule decides a string: `digit`, `upper` or `lower`."""
    character = text[answer(text)]
    return "digit" if character.isdigit() else "upper" if character.isupper() else "lower"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionalRecall(Task):
    """Strings of one length, as many for each answer.

    A string whose answer is lower case is the answer and then lower-case letters. Otherwise the answer stands anywhere
    but last; before a digit there are letters, after it anything; before an upper-case letter there are lower-case
    letters, after it letters.

    Args:
      length: the number T of characters of a string.
      examples_per_class: the number of strings for each answer.
      letters: 61, without the letter Z (with which 20 strings an answer are the paper's 1220), or 62.
    """

    name: ClassVar[str] = "conditional_recall"
    held_out: ClassVar[int] = 10
    size_argument: ClassVar[str] = "examples_per_class"

    length: int = 10
    examples_per_class: int = 20
    letters: int = 61

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("length", self.length >= 2, "at least 2, so that there is something to remember")
        self.require("examples_per_class", self.examples_per_class >= 1, "at least 1")
        self.require("letters", self.letters in (61, 62), "61 (without the letter Z) or 62")

    @functools.cached_property
    def alphabet(self) -> str:
        """The characters by id: lower case, upper case, digits, so that what may stand at a place is a prefix."""
        return LOWER + UPPER[: self.letters - 36] + DIGITS

    @property
    def values(self) -> dict[str, list[str]]:
        return {"char/symbol": list(self.alphabet), "_readout/label": list(self.alphabet)}

    @property
    def num_examples(self) -> int:
        return self.letters * self.examples_per_class

    def make_example(self, number: int) -> Graph:
        return self.graph(self.text(number))

    def text(self, number: int) -> str:
        """The string of an example."""
        random = self.random(number)
        label = shuffled(number, self.num_examples, self.seed) // self.examples_per_class
        lower, letters, anything = len(LOWER), self.letters - len(DIGITS), self.letters
        if label < lower:
            place, before, after = 0, lower, lower
        elif label < letters:
            place, before, after = int(random.integers(self.length - 1)), lower, letters
        else:
            place, before, after = int(random.integers(self.length - 1)), letters, anything
        sizes = np.full(self.length, after)
        sizes[:place] = before
        symbols = (random.random(self.length) * sizes).astype(np.int64)
        symbols[place] = label
        return "".join(self.alphabet[symbol] for symbol in symbols)

    def graph(self, text: str) -> Graph:
        """The graph of a string of any length, with its answer."""
        unknown = [character for character in text if character not in self.alphabet]
        if unknown or not text:
            problem = f"the character {unknown[0]!r}" if unknown else "no character"
            raise ValueError(f"The string {text!r} has {problem}; it has to be of {self.alphabet}.")
        symbols = np.array([self.alphabet.index(character) for character in text])
        return Graph(
            nodes={"char": {"symbol": symbols}, "_readout": {"label": symbols[answer(text)][None]}},
            edges=dict(_chain(len(text))),
        )

    def from_text(self, text: str) -> Graph:
        return self.graph(text)

    def read(self, graph: Graph) -> str:
        """The string of a graph."""
        return "".join(self.alphabet[symbol] for symbol in _symbols(graph))

    def hops(self, graph: Graph) -> np.ndarray:
        text = self.read(graph)
        return np.array([len(text) - 1 - answer(text)])

    def groups(self, graph: Graph) -> list[str]:
        return [rule(self.read(graph))]

    def recipe(self, model: str) -> dict[str, Any]:
        return {
            **RECIPE,
            "units": 100 if self.length < 10 else 120,
            **(VERY_LONG if self.length >= 30 else LONG if self.length >= 20 else {}),
            "steps": self.length + 1,
            "batch_size": 20 if self.examples_per_class < 50 else 50,
            **RECIPE_OF_MODEL.get(model, {}),
        }

    def ranges(self, model: str) -> dict[str, Sequence[Any]]:
        return RANGES

    def signatures(self, vocabularies: Mapping[str, Sequence[str]], steps: int) -> Sequence[Any]:
        from sggnn_tf.tasks.conditional_recall_signature import TextSignature  # It needs TensorFlow.

        return (TextSignature(vocabularies["char/symbol"], steps),)

    def positions(self, graph: Graph) -> np.ndarray:
        places = np.arange(len(_symbols(graph)))
        return np.stack([places, np.zeros_like(places)], axis=1).astype(float)


def _symbols(graph: Graph) -> np.ndarray:
    nodes: Any = graph.nodes["char"]
    return nodes["symbol"]


@functools.lru_cache
def _chain(length: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    nodes = np.arange(length)
    nodes.setflags(write=False)  # All strings of a length share it.
    return {
        "next": (nodes[:-1], nodes[1:]),
        "previous": (nodes[1:], nodes[:-1]),
        "self": (nodes, nodes),
        "_readout/target": (nodes[-1:], nodes[:1]),
    }
