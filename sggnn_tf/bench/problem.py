"""A batch of a task as plain arrays: the same for every side of a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from sggnn_tf import schema as schemas
from sggnn_tf.data import Examples
from sggnn_tf.data.codec import Codec
from sggnn_tf.tfgnn_bridge import is_auxiliary
from sggnn_tf.training import Config


@dataclasses.dataclass(frozen=True)
class Problem:
    """A batch without padding, and what is to be learnt of it.

    Attributes:
      values: `[nodes]`, the category of each node.
      senders, receivers, relation: `[edges]`, relation after relation.
      asked, labels: the nodes that are asked, and the right answers.
      num_values, num_relations, classes: how many there are.
      units, steps, embedding_units, dropout, learning_rate, clip_norm, label_smoothing: see `Config`.
    """

    values: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray
    relation: np.ndarray
    asked: np.ndarray
    labels: np.ndarray
    num_values: int
    num_relations: int
    classes: int
    units: int
    steps: int
    embedding_units: int
    dropout: float
    learning_rate: float
    clip_norm: float
    label_smoothing: float

    @classmethod
    def of_batch(cls, config: Config, examples: Examples, places: Iterable[int]) -> Problem:
        """The graphs at these places, one beside the other: of one node set with one categorical feature."""
        schema = examples.schema
        (node_set,) = (name for name in schema.node_sets if not is_auxiliary(name))
        (feature,) = schema.node_sets[node_set].features
        relations = [name for name in sorted(schema.edge_sets) if not is_auxiliary(name)]
        (asking,) = (name for name in schema.edge_sets if is_auxiliary(name))
        readout, label = schemas.split_label(config.label)
        codec = Codec(schema)
        values, labels, asked = [], [], []
        ends: dict[str, list[np.ndarray]] = {name: [] for name in relations}
        first = 0
        for place in places:
            graph: Any = codec.decode(examples.records[place])
            values.append(graph.nodes[node_set][feature])
            sources, targets = graph.edges[asking]
            asked.append(np.asarray(sources) + first)
            labels.append(graph.nodes[readout][label][targets])
            for name in relations:
                ends[name].append(np.stack(graph.edges[name]) + first)
            first += len(values[-1])
        by_relation = [np.concatenate(ends[name], axis=1) for name in relations]
        senders, receivers = np.concatenate(by_relation, axis=1)
        return cls(
            values=np.concatenate(values),
            senders=senders,
            receivers=receivers,
            relation=np.repeat(np.arange(len(relations)), [each.shape[1] for each in by_relation]),
            asked=np.concatenate(asked),
            labels=np.concatenate(labels),
            num_values=schemas.num_values(schema, node_set, feature) or 0,
            num_relations=len(relations),
            classes=schemas.num_values(schema, readout, label) or 0,
            units=config.units,
            steps=config.steps,
            embedding_units=config.embedding_units,
            dropout=config.switches.get("dropout", 0.0),
            learning_rate=config.learning_rate,
            clip_norm=config.clip_norm,
            label_smoothing=config.label_smoothing,
        )
