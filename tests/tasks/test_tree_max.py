"""Tree Max: the answers, the graphs, and how trees grow."""

import collections
import functools
import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sggnn_tf.tasks import TreeMax
from sggnn_tf.tasks.tree_max import downwards, parents_of, parse, write
from tests.tasks import brute_force

SEEDS = (12345678, 34989987, 76850409, 45739488, 87646464)
PAPER = "(1 (2 (3 ) (4 )) (5 (6 ) (7 (8 ) (9 ) (10 ))))"
PAPER_LABELS = "(10 (4 (3 ) (4 )) (10 (6 ) (10 (8 ) (9 ) (10 ))))"
FIVE = (0.5, 0.2, 0.1, 0.1, 0.1)
WIDE = TreeMax(branching=(0.5, *[0.0] * 39, 0.5))


@functools.cache
def dataset(seed):
    """The graphs of a seed, each with its parents."""
    task = TreeMax(seed=seed)
    graphs = [task.example(number) for number in range(task.num_examples)]
    return [(graph, brute_force.parents(graph)) for graph in graphs]


def mean_over_seeds(of_seed):
    return np.mean([of_seed(dataset(seed)) for seed in SEEDS])


@st.composite
def trees(draw, max_size=25):
    """Parents in any numbering, and values with many ties."""
    size = draw(st.integers(1, max_size))
    parents = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    names = draw(st.permutations(range(size)))
    renamed = [-1] * size
    for node, parent in enumerate(parents):
        renamed[names[node]] = names[parent] if parent >= 0 else -1
    return renamed, draw(st.lists(st.integers(1, 6), min_size=size, max_size=size))


def check(task, graph, parents):
    values, labels = graph.nodes["node"]["value"].tolist(), graph.nodes["_readout"]["label"].tolist()
    assert labels == brute_force.largest(parents, values)
    assert brute_force.triples(graph) == brute_force.tree_triples(parents)
    assert [end.tolist() for end in graph.edges["_readout/target"]] == [list(range(len(parents)))] * 2
    assert graph.nodes.keys() == {"node", "_readout"}
    assert parents_of(graph).tolist() == parents
    assert task.hops(graph).tolist() == brute_force.hops(graph)


def test_the_papers_example():
    task = TreeMax()
    parents, values = parse(PAPER)
    assert values == list(range(1, 11))
    graph = task.graph(parents, values)
    assert write(parents, graph.nodes["_readout"]["label"]) == PAPER_LABELS
    assert task.hops(graph).tolist() == [3, 1, 0, 0, 2, 0, 1, 0, 0, 0]
    assert max(brute_force.levels(parents)) == 3
    check(task, graph, parents)


@settings(deadline=None, max_examples=300)
@given(trees())
def test_the_graph_of_any_tree(tree):
    parents, values = tree
    graph = WIDE.graph(parents, values)
    assert graph.nodes["node"]["value"].tolist() == values
    check(WIDE, graph, parents)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_graphs_of_the_generated_trees(seed):
    for graph, parents in dataset(seed):
        check(TreeMax(), graph, parents)


@settings(deadline=None, max_examples=100)
@given(trees())
def test_nodes_in_order_come_after_their_parents(tree):
    parents, _ = tree
    order = downwards(parents)
    assert sorted(order) == list(range(len(parents)))
    assert all(order.index(parent) < order.index(node) for node, parent in enumerate(parents) if parent >= 0)


@settings(deadline=None, max_examples=200)
@given(trees())
def test_what_is_written_can_be_parsed(tree):
    text = write(*tree)
    assert text == brute_force.text(*tree)
    parents, values = parse(text)
    assert write(parents, values) == text
    assert values == [int(number) for number in re.findall("[0-9]+", text)]
    assert write(*parse(text.replace(" ", ""))) == write(*parse(text.replace(" ", " \n "))) == text


def test_parsing_the_papers_example_gives_it_back():
    assert write(*parse(PAPER)) == PAPER
    assert parse("(1 (2 (3 ) (4 )) (5 ))") == ([-1, 0, 1, 1, 0], [1, 2, 3, 4, 5])
    assert parse("(7 )") == parse("(7)") == ([-1], [7])


@pytest.mark.parametrize(
    "text", ["", " ", "(", ")", "1", "(1", "(1))", "(a)", "(1 2)", "()", "(1 )(2 )", "(1 ) 2", "(-1 )"]
)
def test_what_is_no_tree_cannot_be_parsed(text):
    with pytest.raises(ValueError, match="tree"):
        parse(text)


def test_the_papers_sizes():
    task = TreeMax()
    assert task.num_examples == 800
    assert [len(numbers) for numbers in task.splits.values()] == [400, 200, 200]
    assert task.values == {"node/value": 101, "_readout/label": 101}
    assert task.relations_like == {}


def test_the_papers_shares_of_far_answers():
    hops = {seed: np.concatenate([TreeMax().hops(graph) for graph, _ in dataset(seed)]) for seed in SEEDS}
    for least, expected, spread in [(10, 0.421, 0.035), (5, 5.633, 0.131)]:
        found = np.mean([100 * np.mean(hops[seed] >= least) for seed in SEEDS])
        assert abs(found - expected) < 3 * spread


def test_the_number_of_nodes():
    assert 47 < mean_over_seeds(lambda trees: np.mean([len(parents) for _, parents in trees])) < 52
    assert max(len(parents) for seed in SEEDS for _, parents in dataset(seed)) > 200


def test_the_mean_number_of_nodes_is_the_calculated_one():
    def expected(depth):
        sizes = [1.0]
        for _ in range(depth - 2):
            sizes.append(2.25 + 0.9 * (sizes[-1] - 1))  # One node has children for certain.
        return sum(sizes) + 2.25

    sizes = [len(parents) for seed in SEEDS for _, parents in dataset(seed)]
    mean = np.mean([expected(depth) for depth in range(5, 16)])
    assert abs(np.mean(sizes) - mean) < 4 * np.std(sizes) / np.sqrt(len(sizes))


def test_the_nodes_own_number_is_often_the_answer():
    def share(trees):
        return np.mean(np.concatenate([g.nodes["node"]["value"] == g.nodes["_readout"]["label"] for g, _ in trees]))

    assert 100 * mean_over_seeds(share) == pytest.approx(63.8, abs=0.6)


def test_depths_are_drawn_evenly_from_5_to_15():
    counts = collections.Counter(max(brute_force.levels(tree)) + 1 for seed in SEEDS for _, tree in dataset(seed))
    assert counts.keys() == set(range(5, 16))
    assert brute_force.surprise(list(counts.values())) < 4


def test_numbers_are_drawn_evenly_from_1_to_100():
    values = np.concatenate([graph.nodes["node"]["value"] for seed in SEEDS for graph, _ in dataset(seed)])
    counts = np.bincount(values)
    assert counts[0] == 0
    assert len(counts) == 101
    assert brute_force.surprise(counts[1:]) < 4


@pytest.mark.parametrize("seed", SEEDS)
def test_every_level_goes_on_and_only_one_node_has_children_on_the_last(seed):
    for _, parents in dataset(seed):
        levels = brute_force.levels(parents)
        assert set(collections.Counter(parents[1:]).values()) <= {2, 3}
        having_children = collections.Counter(levels[node] for node in set(parents) - {-1})
        assert having_children.keys() == set(range(max(levels)))
        assert having_children[max(levels) - 1] == 1


def traits(parents, most):
    """Of a tree: the numbers of nodes, levels, children of the root, nodes on the last level and above, and leaves."""
    levels = collections.Counter(brute_force.levels(parents))
    children = collections.Counter(parents)
    numbers = collections.Counter(children[node] for node in range(len(parents)))
    ends = (levels[len(levels) - 1], levels[len(levels) - 2], levels[2])
    return (len(parents), len(levels), children[0], *ends, *(numbers[each] for each in range(most + 1)))


@pytest.mark.parametrize("branching", [TreeMax.branching, FIVE, (0.7, 0.1, 0.2)])
def test_trees_grow_as_in_the_process_word_for_word(branching):
    task = TreeMax(trees=2000, branching=branching, seed=1)
    dice = random.Random(1)
    most = len(branching) - 1
    expected = [traits(brute_force.grow(dice, dice.randint(5, 15), branching), most) for _ in range(task.trees)]
    found = [traits(brute_force.parents(task.example(number)), most) for number in range(task.trees)]
    possible = np.ptp(expected, axis=0) > 0
    assert np.ptp(found, axis=0)[~possible].max(initial=0) == 0
    assert possible.sum() >= 8
    apart = brute_force.errors_apart(np.array(found)[:, possible], np.array(expected)[:, possible])
    assert apart.max() < 4, apart


def test_roots_have_two_or_three_children_as_in_the_process_word_for_word():
    dice = random.Random(2)
    expected = [brute_force.grow(dice, dice.randint(5, 15), TreeMax.branching).count(0) for _ in range(3000)]
    found = [parents.count(0) for seed in SEEDS for _, parents in dataset(seed)]
    assert set(found) == set(expected) == {2, 3}
    assert brute_force.errors_apart(found, expected) < 4
    assert np.mean(np.array(found) == 2) == pytest.approx(0.75, abs=0.03)


def test_the_node_that_goes_on_stands_anywhere_on_its_level():
    places = []
    for _, parents in dataset(SEEDS[0]) + dataset(SEEDS[1]):
        levels = brute_force.levels(parents)
        level = [node for node in range(len(parents)) if levels[node] == max(levels) - 1]
        places.append((level.index(parents[levels.index(max(levels))]) + 0.5) / len(level))
    assert abs(np.mean(places) - 0.5) < 4 * np.std(places) / np.sqrt(len(places))


def test_first_and_second_children_have_as_many_children():
    children = [[parents.count(1), parents.count(2)] for seed in SEEDS for _, parents in dataset(seed)]
    first, second = np.array(children).T
    assert set(first) == set(second) == {0, 2, 3}
    assert brute_force.errors_apart(first, second) < 4


@pytest.mark.parametrize(("least", "most"), [(1, 1), (2, 2), (3, 4), (7, 7), (1, 20)])
def test_other_depths(least, most):
    task = TreeMax(min_depth=least, max_depth=most)
    trees = [task.example(number) for number in range(300)]
    parents = [brute_force.parents(graph) for graph in trees]
    assert {max(brute_force.levels(each)) + 1 for each in parents} == set(range(least, most + 1))
    for graph, each in zip(trees[:50], parents, strict=False):
        check(task, graph, each)


@pytest.mark.parametrize(
    "branching",
    [FIVE, (0.0, 1.0), (0.0, 0.0, 1.0), (0.9, 0.1), (0.7, 0.0, 0.0, 0.0, 0.0, 0.3), (0.6, 0.0, 0.3, 0.1, 0.0)],
)
def test_other_branchings(branching):
    task = TreeMax(branching=branching, max_depth=8)
    numbers = set()
    for example in range(100):
        graph = task.example(example)
        parents = brute_force.parents(graph)
        numbers |= set(collections.Counter(parents[1:]).values())
        check(task, graph, parents)
    assert numbers == {number for number, p in enumerate(branching) if number and p}


def test_relations_for_more_children_are_like_those_of_the_last():
    assert TreeMax(branching=FIVE).relations_like == {"child_4": "child_3", "child_4_of": "child_3_of"}
    assert TreeMax(branching=(0.9, 0.0, 0.0, 0.0, 0.0, 0.1)).relations_like == {
        "child_4": "child_3",
        "child_4_of": "child_3_of",
        "child_5": "child_3",
        "child_5_of": "child_3_of",
    }
    assert TreeMax(branching=(0.6, 0.0, 0.3, 0.1, 0.0)).relations_like == {}
    used = set().union(*(TreeMax(branching=FIVE).example(number).edges for number in range(50)))
    children = {f"child_{number}{end}" for number in range(1, 5) for end in ("", "_of")}
    assert used == children | {"self", "_readout/target"}


@pytest.mark.parametrize("max_value", [1, 2, 7, 1000])
def test_other_numbers(max_value):
    task = TreeMax(max_value=max_value)
    assert set(task.values.values()) == {max_value + 1}
    graphs = [task.example(number) for number in range(100)]
    values = np.concatenate([graph.nodes["node"]["value"] for graph in graphs])
    assert values.min() == 1
    assert values.max() <= max_value
    assert max_value > 7 or set(values) == set(range(1, max_value + 1))
    for graph in graphs:
        check(task, graph, brute_force.parents(graph))


def test_probabilities_may_be_a_list():
    assert TreeMax(branching=[0.6, 0, 0.3, 0.1]) == TreeMax()


def test_a_deep_tree():
    task = TreeMax(min_depth=1500, max_depth=1500, branching=(0.0, 1.0))
    graph = task.example(0)
    parents = list(range(-1, 1499))
    check(task, graph, parents)
    assert parse(write(parents, graph.nodes["node"]["value"]))[0] == parents
    assert task.positions(graph)[:, 1].tolist() == [-node for node in range(1500)]


@settings(deadline=None, max_examples=100)
@given(trees())
def test_positions_are_apart_by_level_and_above_the_middle_of_the_children(tree):
    parents, values = tree
    places = WIDE.positions(WIDE.graph(parents, values))
    assert places.shape == (len(parents), 2)
    assert len(set(map(tuple, places.tolist()))) == len(parents)
    assert (-places[:, 1]).tolist() == brute_force.levels(parents)
    for node in set(parents) - {-1}:
        middle = np.mean([places[child, 0] for child, parent in enumerate(parents) if parent == node])
        assert places[node, 0] == pytest.approx(middle)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([], "one root"),
        ([-1, -1], r"one root.*\b2\b"),
        ([1, 0], r"one root.*\b0\b"),
        ([0], "one root"),
        ([-1, 2, 1], "circle"),
        ([-1, 1], "circle"),
        ([-1, 0, 0, 4, 5, 3], "circle"),
        ([-1, 2], r"node 1 is 2\b"),
        ([-1, 0, -2], "node 2 is -2"),
    ],
)
def test_what_is_no_tree_is_refused(parents, message):
    with pytest.raises(ValueError, match=message):
        TreeMax().graph(parents, [1] * len(parents))


@pytest.mark.parametrize(("parents", "values"), [([-1], [5, 6]), ([-1, 0], [5]), ([-1], [])])
def test_a_number_for_each_node_is_needed(parents, values):
    with pytest.raises(ValueError, match="values"):
        TreeMax().graph(parents, values)


def test_more_children_than_there_are_relations_for_are_refused():
    with pytest.raises(ValueError, match="branching"):
        TreeMax().graph([-1, 0, 0, 0, 0], [1] * 5)
    check(TreeMax(branching=FIVE), TreeMax(branching=FIVE).graph([-1, 0, 0, 0, 0], [1] * 5), [-1, 0, 0, 0, 0])
