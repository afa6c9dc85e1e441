import numpy as np
import pytest

from sggnn_tf.tasks import TreeMax
from sggnn_tf.tasks.tree_max_order import answers_ranked, answers_told, order_told, shares


@pytest.fixture
def task():
    return TreeMax(max_value=9)


def test_an_answer_is_larger_than_all_that_is_below_its_node(task):
    tree = task.graph([-1, 0, 0, 1, 1], [2, 5, 7, 1, 3])
    at_least = order_told([tree], 9)
    assert {(i, j) for i, j in zip(*np.nonzero(at_least), strict=True) if i != j} == {
        (7, 1),
        (7, 2),
        (7, 3),
        (7, 5),
        (5, 1),
        (5, 3),
    }


def test_an_order_goes_by_way_of_other_numbers(task):
    trees = [task.graph([-1, 0, 0], values) for values in ([8, 6, 6], [6, 4, 4], [4, 2, 2])]
    at_least = order_told(trees, 9)
    assert at_least[8, 2]
    assert at_least[6, 2]
    assert not at_least[9, 2]
    assert not at_least[5, 4]


def test_an_answer_is_told_if_every_number_below_was_seen_to_be_smaller(task):
    at_least = order_told([task.graph([-1, 0, 0], [8, 6, 4])], 9)
    tree = task.graph([-1, 0, 0, 1, 1], [4, 6, 8, 4, 4])
    assert answers_told(tree, at_least).tolist() == [True, False, True, True, True]  # 6 and 4 were never compared.


def test_what_is_not_told_is_guessed_by_rank(task):
    trees = [task.graph([-1, 0, 0], values) for values in ([8, 6, 4], [5, 1, 2], [9, 8, 8])]
    at_least = order_told(trees, 9)
    tree = task.graph([-1, 0, 0, 1, 1], [8, 8, 5, 6, 4])
    assert answers_told(tree, at_least).tolist() == [False, True, True, True, True]  # 8 is larger than 5: not told.
    assert answers_ranked(tree, at_least).tolist() == [False, True, True, True, True]  # 5 has no larger one, 8 has 9.
    tree = task.graph([-1, 0, 0, 1, 1], [9, 8, 5, 6, 4])
    assert answers_ranked(tree, at_least).all()  # 9 is larger than three others, 5 than two.


def test_a_ranking_has_right_what_is_told():
    task = TreeMax(trees=40, max_value=20, seed=3)
    at_least = order_told(map(task.example, task.splits["train"]), task.max_value)
    for number in task.splits["test"]:
        tree = task.example(number)
        assert not (answers_told(tree, at_least) & ~answers_ranked(tree, at_least)).any()
    told, ranked = shares(task, answers_told, answers_ranked)
    assert ranked > told


def test_the_shares_agree_with_sets_of_pairs():
    task = TreeMax(trees=40, max_value=20, seed=3)

    def subtrees(number):
        graph = task.example(number)
        values = np.asarray(graph.nodes["node"]["value"]).tolist()
        above = {}
        for name, (parents, children) in graph.edges.items():
            if name.startswith("child_") and not name.endswith("_of"):
                above |= dict(zip(children.tolist(), parents.tolist(), strict=True))
        found = [set() for _ in values]
        for node, value in enumerate(values):
            place = node
            while place is not None:
                found[place].add(value)
                place = above.get(place)
        return found

    pairs = {(max(s), x) for n in task.splits["train"] for s in subtrees(n) for x in s if x != max(s)}
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    told = [[all((max(s), x) in pairs for x in s if x != max(s)) for s in subtrees(n)] for n in task.splits["test"]]
    ((nodes, trees),) = shares(task, answers_told)
    assert nodes == pytest.approx(np.mean([each for tree in told for each in tree]))
    assert trees == pytest.approx(np.mean([all(each) for each in told]))
    assert 0 < trees < nodes < 1
