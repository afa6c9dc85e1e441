"""Every model on every kind of graph: the C++ runtime gives the answers of the live model."""

import numpy as np
import pytest

from sggnn_tf import data, tasks
from sggnn_tf.data.examples import task_schema
from sggnn_tf.models import MODELS, build_model
from sggnn_tf.serving.saved_model import write_version
from sggnn_tf.serving.verify import verify
from tests.data import schemas

IGNORE = ["paper/grades", "paper/title", "paper/year", "writes/share", "writes/weeks"]


def library():
    graphs = [schemas.library_graph(1 + n % 4, 1 + n % 7, n % 3, seed=n) for n in range(40)]
    return data.Examples.from_graphs(graphs, schemas.library())


@pytest.fixture(scope="module")
def sources():
    """The graphs, the task and the settings of each kind."""
    recall, trees = tasks.ConditionalRecall(length=5), tasks.TreeMax(trees=140)
    unequal = [recall.graph(recall.text(n)[: 2 + n % 4]) for n in range(40)]
    return {
        "recall": (data.Examples.from_graphs(unequal, task_schema(recall)), recall, {}),
        "trees": (data.generate(trees)["valid"], trees, {}),
        "library": (library(), None, {"label": "context/label", "ignore": IGNORE}),
    }


@pytest.mark.parametrize("kind", ["recall", "trees", "library"])
def test_the_runtime_agrees_with_the_live_model(kind, sources, tmp_path):
    examples, task, options = sources[kind]
    for model in MODELS:
        made = build_model(model, examples.schema, units=8, steps=3, **options)
        for weight in made.weights:  # So that an input that is lost would show.
            weight.assign(weight + 0.05 * np.random.default_rng(0).normal(size=weight.shape))
        write_version(made, tmp_path / model, examples, name=kind, task=task, graphs=32)
    assert verify(*(tmp_path / model for model in MODELS)) == []
