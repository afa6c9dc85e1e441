"""Strings as requests: a SavedModel makes the graphs of Conditional Recall from text. The task's only TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sggnn_tf.graph import Graph


class TextSignature:
    """The signature `text`: strings of any length, in UTF-8.

    Beside the answers it tells whether a string is `within_reach`: whether the model has steps enough to carry its
    first character to its last.

    Args:
      vocabulary: the characters, in the order of their ids.
      steps: the number of steps of the model.
    """

    name = "text"

    def __init__(self, vocabulary: Sequence[str], steps: int) -> None:
        self.vocabulary = list(vocabulary)
        self.steps = steps
        self.inputs = {"text": tf.TensorSpec([None], tf.string)}

    def arrays(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The graphs of strings, as the inputs of the signature `graph_tensors`."""
        characters = tf.strings.unicode_split(text, "UTF-8", errors="strict")
        lengths = characters.row_lengths()
        is_equal = characters.values[:, None] == tf.constant(self.vocabulary)[None]
        _require_known(tf.reduce_any(is_equal, axis=1), characters)
        symbols = characters.with_values(tf.argmax(tf.cast(is_equal, tf.int32), axis=1)).to_tensor()
        places = tf.range(tf.shape(symbols, tf.int64)[1])
        places = tf.tile(places[None], [tf.shape(symbols)[0], 1])
        last = tf.maximum(lengths - 1, 0)
        asked = tf.minimum(lengths, 1)  # A string without characters is refused as an empty graph.
        return {
            "char.symbol": symbols,
            "char.#size": lengths,
            "next.#edges": tf.stack([places[:, :-1], places[:, 1:]], axis=2),
            "next.#size": last,
            "previous.#edges": tf.stack([places[:, 1:], places[:, :-1]], axis=2),
            "previous.#size": last,
            "self.#edges": tf.stack([places, places], axis=2),
            "self.#size": lengths,
            "_readout/target.#edges": tf.stack([last[:, None], tf.zeros_like(last)[:, None]], axis=2),
            "_readout/target.#size": asked,
            "_readout.#size": asked,
        }

    def extras(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """What is answered beside what the model says."""
        return {"within_reach": tf.strings.length(text, "UTF8_CHAR") - 1 <= self.steps}

    def request(self, graphs: Sequence[Graph]) -> dict[str, np.ndarray]:
        """The request for graphs."""
        texts = ["".join(self.vocabulary[symbol] for symbol in _symbols(graph)) for graph in graphs]
        return {"text": np.array([text.encode() for text in texts], object)}

    def expected_extras(self, graphs: Sequence[Graph]) -> dict[str, np.ndarray]:
        """What `extras` has to be for graphs."""
        return {"within_reach": np.array([len(_symbols(graph)) - 1 <= self.steps for graph in graphs])}


def _symbols(graph: Graph) -> np.ndarray:
    nodes: Any = graph.nodes["char"]
    return nodes["symbol"]


def _require_known(is_known: tf.Tensor, characters: tf.RaggedTensor) -> None:
    def message() -> tf.Tensor:
        item = tf.argmax(tf.logical_not(is_known))
        row = characters.value_rowids()[item]
        place = item - characters.row_starts()[row]
        texts = ["Example ", tf.strings.as_string(row), ": the character ", characters.values[item], " at place "]
        return tf.strings.join([*texts, tf.strings.as_string(place), " is not in the vocabulary."])

    fine = tf.reduce_all(is_known)
    tf.debugging.Assert(fine, [tf.cond(fine, lambda: tf.constant(""), message)], summarize=1)
