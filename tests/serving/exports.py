"""Small models that are not trained, and their exports."""

import numpy as np

from sggnn_tf import data, tasks
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
    return data.generate(TREES)["train"]


def library_examples():
    graphs = [schemas.library_graph(1 + n % 4, 1 + n % 7, n % 3, seed=n) for n in range(40)]
    return data.Examples.from_graphs(graphs, schemas.library())


def export_recall(path, model="sggnn-rv-gat"):
    examples = recall_examples()
    return export(small(examples.schema, model), path, examples, task=RECALL)


def export_trees(path, model="rgcn"):
    examples = tree_examples()
    return export(small(examples.schema, model), path, examples, task=TREES)


def records(*strings):
    """Strings as records with their answers, as a data set has them."""
    codec = Codec(task_schema(RECALL))
    return [codec.encode(RECALL.graph(text)) for text in strings]


def arrays(*strings):
    """Strings as the inputs of `graph_tensors`."""
    schema = task_schema(RECALL)
    del schema.node_sets["_readout"].features["label"]
    return as_arrays(schema, [RECALL.graph(text) for text in strings])
