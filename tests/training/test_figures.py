import numpy as np

from sggnn_tf import data, tasks
from sggnn_tf.training.figures import figures, labels_by_graph


def examples(task, graphs):
    return data.Examples.from_graphs(graphs, data.task_schema(task))


def test_strings_by_rule_and_by_hops():
    task = tasks.ConditionalRecall()
    split = examples(task, [task.graph(text) for text in ("abc", "aBc", "a1c", "Abc")])
    train = examples(task, [task.graph(text) for text in ("abc", "abd", "Xyz")])
    right = [task.alphabet.index(letter) for letter in "aB1A"]
    found = figures(split, "_readout/label", np.array([right[0], right[1], 0, 0]), train, task)
    assert (found["questions"], found["graphs"], found["accuracy"], found["graph_accuracy"]) == (4, 4, 0.5, 0.5)
    assert {rule: each["accuracy"] for rule, each in found["by_rule"].items()} == {"digit": 0, "lower": 1, "upper": 0.5}
    assert {hops: each["accuracy"] for hops, each in found["by_hops"].items()} == {"1": 0.5, "2": 0.5}
    assert found["by_hops"]["1"]["questions"] == 2
    assert found["floors"] == {"most common answer": 0.25, "own value": 0.0}


def test_a_tree_counts_if_all_its_nodes_are_right():
    task = tasks.TreeMax()
    graphs = [task.graph([-1, 0, 0], [1, 5, 3]), task.graph([-1, 0, 0], [9, 2, 2])]
    split = examples(task, graphs)
    found = figures(split, "_readout/label", np.array([5, 5, 3, 9, 2, 7]), split, task)
    assert (found["questions"], found["graphs"], found["graph_accuracy"]) == (6, 2, 0.5)
    assert found["accuracy"] == 5 / 6
    assert found["by_hops"] == {"0": {"questions": 5, "accuracy": 0.8}, "1": {"questions": 1, "accuracy": 1.0}}
    assert found["floors"]["own value"] == 5 / 6
    assert "by_rule" not in found
    assert [labels.tolist() for labels in labels_by_graph(split, "node/value")] == [[1, 5, 3], [9, 2, 2]]
