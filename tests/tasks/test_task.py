"""What all tasks have in common: examples that depend on the seed and a number only, splits, and arguments by name."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sggnn_tf.tasks import SPLITS, TASKS, ConditionalRecall, TreeMax, make
from sggnn_tf.tasks.shuffle import shuffled
from tests.tasks import brute_force

NAMES = ["conditional_recall", "tree_max"]
NUMBERS = range(40)


def examples(task, numbers=NUMBERS):
    return {number: brute_force.plain(task.example(number)) for number in numbers}


def test_the_tasks():
    assert list(TASKS) == NAMES
    assert make("conditional_recall") == ConditionalRecall()
    assert make("tree_max", trees=8) == TreeMax(trees=8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", [0, 7, 12345678, 2**70])
def test_an_example_is_the_same_whatever_was_made_before(name, seed):
    first = examples(make(name, seed=seed))
    task = make(name, seed=seed)
    mixed = random.Random(seed).sample(NUMBERS, len(NUMBERS))
    assert examples(task, mixed) == first
    assert examples(task, reversed(NUMBERS)) == first
    examples(make(name, seed=seed + 1))
    assert examples(make(name, seed=seed), [39]) == {39: first[39]}
    with ThreadPoolExecutor(4) as pool:
        assert dict(zip(NUMBERS, pool.map(lambda n: brute_force.plain(task.example(n)), NUMBERS), strict=True)) == first


@pytest.mark.parametrize("name", NAMES)
def test_what_is_done_to_an_example_changes_no_other(name):
    task = make(name)
    before = examples(task)
    graph = task.example(0)
    arrays = [array for features in graph.nodes.values() for array in features.values()]
    arrays += [end for ends in graph.edges.values() for end in ends]
    for array in arrays:
        if array.flags.writeable:
            array += 1
    assert examples(task) == before


@pytest.mark.parametrize("name", NAMES)
def test_other_seeds_and_numbers_are_other_examples(name):
    graphs = [repr(each) for seed in range(12) for each in examples(make(name, seed=seed)).values()]
    assert len(set(graphs)) == len(graphs)


@pytest.mark.parametrize("name", NAMES)
def test_global_random_numbers_are_neither_used_nor_changed(name):
    np.random.seed(1)
    random.seed(1)
    before = np.random.get_state(), random.getstate()
    first = examples(make(name))
    after = np.random.get_state(), random.getstate()
    np.testing.assert_equal(after, before)
    np.random.seed(2)
    random.seed(2)
    assert examples(make(name)) == first


@pytest.mark.parametrize(
    "task",
    [
        ConditionalRecall(),
        ConditionalRecall(length=4, examples_per_class=3, letters=62, seed=5),
        TreeMax(),
        TreeMax(trees=9, min_depth=2, max_depth=3, branching=(0.5, 0.25, 0.25), max_value=7, seed=5),
    ],
)
def test_arguments_make_the_task_again(task):
    arguments = task.arguments()
    assert list(arguments) == task.argument_names()
    for again in (make(task.name, **arguments), make(task.name, **json.loads(json.dumps(arguments)))):
        assert again == task
        assert again.arguments() == arguments
        assert examples(again, range(5)) == examples(task, range(5))


@pytest.mark.parametrize(
    "task",
    [ConditionalRecall(), ConditionalRecall(examples_per_class=1), *(TreeMax(trees=n) for n in (4, 5, 7, 8, 801))],
)
def test_the_splits_are_all_examples_once(task):
    splits = task.splits
    assert tuple(splits) == SPLITS == ("train", "valid", "test")
    assert sorted(number for numbers in splits.values() for number in numbers) == list(range(task.num_examples))
    assert len(splits["valid"]) == len(splits["test"]) == task.num_examples // task.held_out >= 1


def test_three_splits_need_enough_examples():
    with pytest.raises(ValueError, match=r"too few.*\btrees\b"):
        TreeMax(trees=3).splits  # noqa: B018 - It is computed.


@pytest.mark.parametrize("seed", [0, 1, 2**70])
def test_a_shuffle_takes_every_number_to_a_place_of_its_own(seed):
    for size in (*range(1, 201), 1220):
        assert sorted(shuffled(number, size, seed) for number in range(size)) == list(range(size))


def test_a_shuffle_depends_on_the_seed():
    orders = {tuple(shuffled(number, 50, seed) for number in range(50)) for seed in range(100)}
    assert len(orders) == 100
    assert tuple(range(50)) not in orders


def test_a_shuffle_takes_a_number_anywhere_equally_often():
    for size, number in [(10, 0), (10, 9), (16, 5), (33, 32)]:
        counts = np.bincount([shuffled(number, size, seed) for seed in range(2000)], minlength=size)
        assert brute_force.surprise(counts) < 4


def test_a_shuffle_takes_two_numbers_to_any_two_places():
    counts = np.zeros((61, 61))
    for seed in range(15000):
        counts[shuffled(0, 61, seed), shuffled(1, 61, seed)] += 1
    assert np.diag(counts).sum() == 0
    assert brute_force.surprise(counts[~np.eye(61, dtype=bool)]) < 4


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("conditional_recall", "length", 1),
        ("conditional_recall", "length", -3),
        ("conditional_recall", "examples_per_class", 0),
        ("conditional_recall", "letters", 60),
        ("conditional_recall", "letters", 63),
        ("conditional_recall", "seed", -1),
        ("tree_max", "seed", -1),
        ("tree_max", "trees", 0),
        ("tree_max", "min_depth", 0),
        ("tree_max", "max_depth", 4),
        ("tree_max", "branching", (0.6, 0.0, 0.3)),
        ("tree_max", "branching", (0.6, 0.0, 0.3, 0.2)),
        ("tree_max", "branching", (0.8, -0.2, 0.4)),
        ("tree_max", "branching", (0.6, float("nan"), 0.4)),
        ("tree_max", "branching", (1.0,)),
        ("tree_max", "branching", (1.0, 0.0)),
        ("tree_max", "branching", ()),
        ("tree_max", "max_value", 0),
    ],
)
def test_bad_arguments_are_refused_by_name(name, argument, value):
    with pytest.raises(ValueError, match=rf"{name}.*\b{argument}\b"):
        make(name, **{argument: value})


@pytest.mark.parametrize("name", NAMES)
def test_numbers_beyond_the_examples_are_refused(name):
    task = make(name)
    for number in (-1, task.num_examples):
        with pytest.raises((ValueError, IndexError)):
            task.example(number)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("conditional_recal", NAMES[0]), ("recall", NAMES[0]), ("treemax", NAMES[1]), ("Tree_Max", NAMES[1])],
)
def test_an_unknown_task_is_refused_and_the_nearest_offered(name, meant):
    with pytest.raises(ValueError, match=rf"{name}.*Did you mean {meant}\?"):
        make(name)
    with pytest.raises(ValueError, match="conditional_recall, tree_max"):
        make("xyz")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_argument_is_refused_and_the_known_named(name):
    with pytest.raises(ValueError, match=r"'depth'.*\bseed\b"):
        make(name, depth=3)
