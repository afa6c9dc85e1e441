"""Small models that are not trained, and their exports."""

import dataclasses
import functools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from sggnn_tf import data, tasks
from sggnn_tf import schema as schema_sizes
from sggnn_tf.data.codec import Codec
from sggnn_tf.data.examples import task_schema
from sggnn_tf.models import build_model
from sggnn_tf.serving.answers import as_arrays
from sggnn_tf.serving.saved_model import export
from tests.data import schemas

STEPS = 3
RECALL = tasks.ConditionalRecall(length=5)
TREES = tasks.TreeMax(trees=30, min_depth=2, max_depth=5)
IGNORE = ["paper/grades", "paper/title", "paper/year", "writes/share", "writes/weeks"]


def small(schema, model="sggnn-rv-gat", **options):
    """A built model with weights that make different inputs give different answers."""
    made = build_model(model, schema, units=8, steps=STEPS, **options)
    random = np.random.default_rng(0)
    for weight in made.weights:
        weight.assign(weight + 0.3 * random.normal(size=weight.shape))
    return made


def texts(number=40):
    """Strings of 2 to 5 characters."""
    return [RECALL.text(place)[: 2 + place % 4] for place in range(number)]


def recall_examples():
    return data.Examples.from_graphs([RECALL.graph(text) for text in texts()], task_schema(RECALL))


def tree_examples():
    """Trees whose classes have names."""
    examples = data.generate(TREES)["train"]
    schema_sizes.set_num_values(examples.schema, "_readout", "label", [str(number) for number in range(101)])
    return examples


def library_examples():
    graphs = [schemas.library_graph(1 + n % 4, 1 + n % 7, n % 3, seed=n) for n in range(40)]
    return data.Examples.from_graphs(graphs, schemas.library())


class Exported(NamedTuple):
    """A version, and the model that it is of."""

    version: Path
    model: Any


@functools.cache
def folder():
    """Where exports are that several files of tests ask and none changes; it goes with the process."""
    return tempfile.TemporaryDirectory()


@functools.cache
def recall():
    examples = recall_examples()
    model = small(examples.schema)
    return Exported(export(model, Path(folder().name) / "recall", examples, task=RECALL), model)


@functools.cache
def trees():
    examples = tree_examples()
    model = small(examples.schema, "rgcn")
    card = {"metrics": {"valid": 0.5}}
    return Exported(export(model, Path(folder().name) / "trees", examples, task=TREES, card=card), model)


def tiny(path):
    """A version of almost nothing, which is loaded at once."""
    function = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    tf.saved_model.save(tf.Module(), str(path / "1"), {"serving_default": function})
    return path / "1"


@functools.cache
def served_schema():
    """What a client of Conditional Recall sends: no label."""
    schema = task_schema(RECALL)
    del schema.node_sets["_readout"].features["label"]
    return schema


@functools.cache
def codec():
    return Codec(served_schema())


def records(*strings):
    """Strings as the inputs of `serving_default`."""
    return [codec().encode(unlabelled(text)) for text in strings]


def arrays(*strings):
    """Strings as the inputs of `graph_tensors`."""
    return as_arrays(served_schema(), [unlabelled(text) for text in strings])


def unlabelled(text):
    graph = RECALL.graph(text)
    return dataclasses.replace(graph, nodes={**graph.nodes, "_readout": 1})


def changed(record, key, values=None, kind="int64_list"):
    """A record with another field; without values, without the field."""
    example = tf.train.Example.FromString(record)
    example.features.feature.pop(key, None)
    if values is not None:
        getattr(example.features.feature[key], kind).value.extend(values)
    return example.SerializeToString()
