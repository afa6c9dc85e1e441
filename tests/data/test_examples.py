"""Examples: their sizes, their graphs in order, and those of a task."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import tasks, tfgnn
from sggnn_tf.data import Examples, generate, task_schema
from sggnn_tf.data.codec import Codec
from tests.data.records import GRAPHS, RECALL, RECORDS, SOURCES
from tests.data.schemas import library, library_graph


@pytest.fixture(autouse=True)
def _same_start():
    """Without a seed, after which TensorFlow would build its functions anew: nothing here is random."""


def test_good_records_have_the_sizes_that_one_counts():
    examples = Examples(library(), RECORDS, SOURCES)
    assert examples.sets.names == ["author", "paper", "topic", "about", "cites", "writes"]
    expected = [
        [2 + n % 2, 3, 1 + n % 2, *(len(graph.edges[name][0]) for name in ("about", "cites", "writes"))]
        for n, graph in enumerate(GRAPHS)
    ]
    assert examples.sizes.tolist() == expected
    assert examples.sizes.dtype == np.int64


def test_sizes_of_sets_without_items():
    graphs = [library_graph(*sizes) for sizes in [(0, 0, 1), (0, 2, 0), (3, 0, 0), (1, 1, 1)]]
    examples = Examples.from_graphs(graphs, library())
    assert examples.sizes.tolist() == [
        [0, 0, 1, 0, 0, 0],
        [0, 2, 0, 0, 2, 0],
        [3, 0, 0, 0, 0, 0],
        [1, 1, 1, 3, 2, 4],
    ]


def test_graphs_are_those_that_tfgnn_parses_in_order():
    examples = Examples(library(), RECORDS, SOURCES)
    spec = tfgnn.create_graph_spec_from_schema_pb(library())
    graphs = list(examples.graphs())
    assert len(graphs) == len(RECORDS)
    for graph, record in zip(graphs, RECORDS, strict=True):
        assert graph.spec.is_compatible_with(spec)
        parsed = tfgnn.parse_single_example(spec, tf.constant(record))
        assert tfgnn.write_example(graph) == tfgnn.write_example(parsed) == tf.train.Example.FromString(record)


def test_graphs_that_take_longer_to_parse_keep_their_place():
    lengths = [50_000, 1, 2, 3, 50_001, 4, 5, 6]
    examples = Examples.from_graphs([RECALL.graph("a" * length) for length in lengths], task_schema(RECALL))
    assert [int(graph.node_sets["char"].total_size) for graph in examples.graphs()] == lengths


def test_graphs_of_arrays_are_records_and_a_bad_one_is_named():
    examples = Examples.from_graphs(iter(GRAPHS), library(), "my graphs")
    assert examples.records.tolist() == RECORDS
    assert examples.name_of(6) == "my graphs, record 6"
    bad = dataclasses.replace(GRAPHS[0], context={"label": 3, "season": [0, 0]})
    with pytest.raises(ValueError, match=r"Graph 2 of my graphs: .*'label' of the context"):
        Examples.from_graphs([*GRAPHS[:2], bad], library(), "my graphs")
    with pytest.raises(ValueError, match="no graphs in my graphs"):
        Examples.from_graphs([], library(), "my graphs")


@pytest.mark.parametrize(
    "task",
    [
        tasks.ConditionalRecall(length=4, examples_per_class=1, seed=3),
        tasks.TreeMax(trees=9, min_depth=2, max_depth=5, branching=(0.3, 0.3, 0.2, 0.1, 0.1), max_value=7),
    ],
    ids=["recall", "tree"],
)
def test_a_task_is_generated_as_by_hand(task):
    made = []
    splits = generate(task, made.append)
    assert made == list(range(1, task.num_examples + 1))
    assert list(splits) == ["train", "valid", "test"]
    codec = Codec(task_schema(task))
    for split, numbers in task.splits.items():
        assert splits[split].schema == task_schema(task)
        assert splits[split].records.tolist() == [codec.encode(task.example(number)) for number in numbers]
        assert splits[split].name_of(1) == f"{split} of {task.name}, record 1"
    assert splits["valid"].sizes.shape == (len(task.splits["valid"]), len(splits["valid"].sets.names))
