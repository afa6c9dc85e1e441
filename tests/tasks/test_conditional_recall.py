"""Conditional Recall: the answers, the graphs, and which strings are drawn how often."""

import collections
import functools
import itertools
import math
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sggnn_tf.tasks import ConditionalRecall
from sggnn_tf.tasks.conditional_recall import answer, rule
from tests.tasks import brute_force

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
PAPER = [("abcdefg", "a", 6), ("abcDefg", "D", 3), ("abcd3Fg", "3", 2), ("abCd3fg", "3", 2), ("a8cDe", "8", 3)]
LENGTHS = (2, 3, 5, 7, 10, 30)


@functools.cache
def texts(**arguments):
    task = ConditionalRecall(**arguments)
    return [task.text(number) for number in range(task.num_examples)]


def label(text):
    return text[brute_force.answer(text)]


def by_rule(texts):
    sets = {"lower": LOWER, "upper": UPPER, "digit": DIGITS}
    return {name: [text for text in texts if label(text) in kind] for name, kind in sets.items()}


def check(task, text, graph):
    vocabulary = task.values["char/symbol"]
    assert [vocabulary[symbol] for symbol in graph.nodes["char"]["symbol"]] == list(text)
    assert [task.values["_readout/label"][each] for each in graph.nodes["_readout"]["label"]] == [label(text)]
    assert brute_force.triples(graph) == brute_force.string_triples(len(text))
    assert graph.nodes.keys() == {"char", "_readout"}
    assert task.read(graph) == text
    assert task.hops(graph).tolist() == [len(text) - 1 - brute_force.answer(text)]


@pytest.mark.parametrize(("text", "expected", "hops"), PAPER)
def test_the_papers_examples(text, expected, hops):
    task = ConditionalRecall()
    graph = task.graph(text)
    assert text[answer(text)] == expected
    assert [task.alphabet[each] for each in graph.nodes["_readout"]["label"]] == [expected]
    assert task.hops(graph).tolist() == [hops]
    check(task, text, graph)


def test_the_papers_figure():
    edges = ConditionalRecall().graph("a8cDe").edges
    assert {name: [end.tolist() for end in ends] for name, ends in edges.items()} == {
        "next": [[0, 1, 2, 3], [1, 2, 3, 4]],
        "previous": [[1, 2, 3, 4], [0, 1, 2, 3]],
        "self": [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]],
        "_readout/target": [[4], [0]],
    }


@pytest.mark.parametrize("length", range(1, 6))
def test_the_answers_of_all_strings_of_six_characters(length):
    for characters in itertools.product("abYX09", repeat=length):
        text = "".join(characters)
        assert answer(text) == brute_force.answer(text)
        assert label(text) in {"lower": LOWER, "upper": UPPER, "digit": DIGITS}[rule(text)]


@settings(deadline=None, max_examples=300)
@given(st.text(LOWER + UPPER + DIGITS, min_size=1, max_size=40))
def test_the_graph_of_any_string(text):
    check(ConditionalRecall(letters=62), text, ConditionalRecall(letters=62).graph(text))


@settings(deadline=None, max_examples=300)
@given(st.text(LOWER + UPPER[:-1] + DIGITS, min_size=1, max_size=40), st.data())
def test_the_answer_is_that_of_the_string_up_to_it(text, data):
    place = answer(text)
    after = data.draw(st.text(LOWER, max_size=10))
    assert answer(text[: place + 1] + after) == place


@pytest.mark.parametrize("length", LENGTHS)
def test_the_graphs_of_the_generated_strings(length):
    task = ConditionalRecall(length=length, seed=length)
    for number, text in enumerate(texts(length=length, seed=length)):
        assert len(text) == length
        check(task, text, task.example(number))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("letters", [61, 62])
def test_what_stands_before_and_after_the_label(length, letters):
    groups = by_rule(texts(length=length, letters=letters, examples_per_class=20, seed=1))
    before_and_after = {"lower": ("", LOWER), "upper": (LOWER, LOWER + UPPER), "digit": (LOWER + UPPER, None)}
    for name, group in groups.items():
        before, after = before_and_after[name]
        for text in group:
            place = brute_force.answer(text)
            assert place < length - 1
            assert set(text[:place]) <= set(before)
            assert after is None or set(text[place + 1 :]) <= set(after)
    assert all(brute_force.answer(text) == 0 for text in groups["lower"])


def test_only_62_letters_have_a_z():
    for letters, upper in [(61, UPPER[:-1]), (62, UPPER)]:
        task = ConditionalRecall(letters=letters)
        assert set("".join(texts(letters=letters))) == set(LOWER + upper + DIGITS)
        assert sorted(task.alphabet) == sorted(LOWER + upper + DIGITS)
        assert task.values == {"char/symbol": list(task.alphabet), "_readout/label": list(task.alphabet)}
    with pytest.raises(ValueError, match="'Z'"):
        ConditionalRecall().graph("aZ")
    check(ConditionalRecall(letters=62), "aZ", ConditionalRecall(letters=62).graph("aZ"))


@pytest.mark.parametrize("length", [3, 5, 10])
@pytest.mark.parametrize("name", ["upper", "digit"])
def test_the_label_stands_anywhere_but_last_equally_often(length, name):
    group = by_rule(texts(length=length, examples_per_class=100))[name]
    counts = collections.Counter(brute_force.answer(text) for text in group)
    assert counts.keys() == set(range(length - 1))
    assert brute_force.surprise([counts[place] for place in range(length - 1)]) < 4


def test_every_label_stands_first_and_just_before_the_last():
    places = collections.defaultdict(set)
    for text in texts(length=5, examples_per_class=100):
        places[label(text)].add(brute_force.answer(text))
    assert {name for name, found in places.items() if found == {0, 1, 2, 3}} == set(UPPER[:-1] + DIGITS)


def test_characters_around_the_label_are_drawn_evenly():
    groups = by_rule(texts(length=10, examples_per_class=100))
    around = {
        "lower": ("", LOWER),
        "upper": (LOWER, LOWER + UPPER[:-1]),
        "digit": (LOWER + UPPER[:-1], LOWER + UPPER[:-1] + DIGITS),
    }
    for name, (before, after) in around.items():
        split = [(text[: brute_force.answer(text)], text[brute_force.answer(text) + 1 :]) for text in groups[name]]
        for side, alphabet in enumerate((before, after)):
            counts = collections.Counter("".join(parts[side] for parts in split))
            assert counts.keys() == set(alphabet)
            assert not alphabet or brute_force.surprise([counts[each] for each in alphabet]) < 4


@pytest.mark.parametrize("arguments", [{}, {"length": 2}, {"length": 3, "examples_per_class": 1}, {"seed": 5}])
@pytest.mark.parametrize("letters", [61, 62])
@pytest.mark.parametrize("examples_per_class", [1, 7, 20])
def test_every_class_has_the_same_number_of_examples(arguments, letters, examples_per_class):
    arguments = {"letters": letters, "examples_per_class": examples_per_class} | arguments
    counts = collections.Counter(map(label, texts(**arguments)))
    assert len(counts) == letters
    assert set(counts.values()) == {arguments["examples_per_class"]}


def test_the_papers_sizes():
    task = ConditionalRecall()
    assert (task.length, task.examples_per_class, task.num_examples) == (10, 20, 1220)
    assert [len(numbers) for numbers in task.splits.values()] == [976, 122, 122]
    larger = ConditionalRecall(examples_per_class=50)
    assert larger.num_examples == 3050
    assert [len(numbers) for numbers in larger.splits.values()] == [2440, 305, 305]
    assert ConditionalRecall(letters=62).num_examples == 1240


@pytest.mark.parametrize("length", [3, 5, 7, 10])
@pytest.mark.parametrize("examples_per_class", [20, 100])
def test_the_share_of_strings_that_need_all_hops(length, examples_per_class):
    task = ConditionalRecall(length=length, examples_per_class=examples_per_class)
    far = [brute_force.answer(text) == 0 for text in texts(length=length, examples_per_class=examples_per_class)]
    share = (26 + 35 / (length - 1)) / 61
    assert abs(np.mean(far) - share) < 3 * math.sqrt(share * (1 - share) / task.num_examples)


def test_the_splits_are_shuffled_and_not_stratified():
    task = ConditionalRecall()
    counts = {name: collections.Counter(label(task.text(n)) for n in numbers) for name, numbers in task.splits.items()}
    assert set(sum(counts.values(), collections.Counter()).values()) == {20}
    for name in ("valid", "test"):
        assert len({counts[name][character] for character in task.alphabet}) > 2


def test_lower_case_answers_in_valid_vary_as_in_a_shuffle():
    found = []
    for seed in range(80):
        task = ConditionalRecall(length=2, seed=seed)
        found.append(sum(label(task.text(number)) in LOWER for number in task.splits["valid"]))
    share = 26 / 61
    variance = 122 * share * (1 - share) * (1220 - 122) / 1219
    assert abs(np.mean(found) - 122 * share) < 4 * math.sqrt(variance / len(found))
    assert variance / 2 < np.var(found) < variance * 2


def test_strings_of_ten_do_not_repeat():
    assert len(set(texts())) == 1220


def test_positions_are_a_line():
    task = ConditionalRecall()
    assert task.positions(task.graph("abcd")).tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]


@pytest.mark.parametrize(
    ("text", "found"), [("a?c", r"'\?'"), ("a b", "' '"), ("é", "'é'"), ("٣", "'٣'"), ("", "no char")]
)
def test_strings_that_are_refused(text, found):
    with pytest.raises(ValueError, match=found):
        ConditionalRecall().graph(text)
