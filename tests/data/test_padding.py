"""The shapes to which batches are padded: few, large enough for every batch, and little larger than the batches."""

import itertools
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sggnn_tf import data, schema
from sggnn_tf.data import Batches, padding
from sggnn_tf.data.padding import Padding, Sets, find_padding, in_order
from sggnn_tf.tasks import ConditionalRecall, TreeMax

SETS = Sets(("_readout", "a", "b"), ("_readout/target", "aa", "ab"), ((1, 0), (1, 1), (1, 2)))
READOUTS, A, B, TARGETS, AA, AB = range(6)


@st.composite
def graph_sizes(draw, min_graphs=1, max_graphs=25):
    """Sizes of graphs as records have them: edges have nodes at both ends, and each readout has its edge."""
    count = draw(st.integers(min_graphs, max_graphs))
    seed, largest = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([1, 2, 30]))
    sizes = np.random.default_rng(seed).integers(0, largest + 1, [count, 6])
    sizes[:, A] += 1
    sizes[:, AB] *= sizes[:, B] > 0
    sizes[:, TARGETS] = sizes[:, READOUTS]
    return sizes


def few_samples():
    return mock.patch.object(padding, "SAMPLED_BATCHES", 40)


def random_sizes(count=60, seed=0):
    random = np.random.default_rng(seed)
    nodes = random.integers(1, 40, count)
    ones = np.ones_like(nodes)
    return np.stack([ones, nodes, nodes // 3, ones, 2 * nodes, nodes // 3 * random.integers(0, 3, count)], axis=1)


def fits(found, sizes):
    return (sizes.sum(axis=0) <= found.capacities).all(axis=1)


def check(found):
    assert (np.diff(found.capacities, axis=0) >= 0).all()
    assert (found.room >= 0).all()
    np.testing.assert_array_equal(found.shapes, found.capacities + found.room)


def cost_of_ends(costs, ends):
    starts = [0, *(end + 1 for end in ends[:-1])]
    return sum((end + 1 - start) * costs[end] for start, end in zip(starts, ends, strict=True))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=9).map(sorted), st.integers(1, 6))
def test_the_best_cuts_are_those_of_brute_force(costs, groups):
    ends = padding._best_ends(np.array(costs), groups)
    last = len(costs) - 1
    cuts = [(*c, last) for n in range(groups) for c in itertools.combinations(range(last), n)]
    assert cost_of_ends(costs, ends) == min(cost_of_ends(costs, cut) for cut in cuts)
    assert len(ends) <= groups
    assert ends[-1] == last
    assert (np.diff(ends) > 0).all()
    assert ends[0] >= 0


def test_no_groups_have_no_ends():
    assert padding._best_ends(np.array([1, 2]), 0) == []


@settings(deadline=None, max_examples=100)
@given(graph_sizes(), st.integers(1, 30), st.integers(1, 8), st.data())
def test_every_batch_that_can_occur_fits(sizes, batch_size, max_shapes, data):
    with few_samples():
        found = find_padding(sizes, SETS, batch_size, shuffled=True, max_shapes=max_shapes)
    check(found)
    assert len(found.shapes) <= max_shapes
    largest = [np.argsort(-sizes[:, place])[:batch_size] for place in range(6)]
    some = [data.draw(st.permutations(range(len(sizes))))[:batch_size] for _ in range(5)]
    for batch in (*largest, *some):
        assert fits(found, sizes[batch]).any()


@settings(deadline=None, max_examples=100)
@given(graph_sizes(), st.integers(1, 30), st.integers(1, 8))
def test_every_batch_in_order_fits(sizes, batch_size, max_shapes):
    found = find_padding(sizes, SETS, batch_size, shuffled=False, max_shapes=max_shapes)
    check(found)
    assert len(found.shapes) <= max_shapes
    for batch in in_order(sizes, batch_size):
        assert fits(found, batch).any()


@settings(deadline=None, max_examples=100)
@given(graph_sizes(min_graphs=2), st.integers(1, 30), st.booleans())
def test_edges_of_padding_have_nodes_of_padding_to_end_at(sizes, batch_size, shuffled):
    with few_samples():
        found = find_padding(sizes, SETS, batch_size, shuffled=shuffled)
    for batch in in_order(sizes, batch_size):
        missing = found.shapes[fits(found, batch).argmax()] - batch.sum(axis=0)
        assert (missing >= 0).all()
        for edges, ends in zip(missing[3:], SETS.ends, strict=True):
            assert edges == 0 or all(missing[end] > 0 for end in ends)
        assert missing[READOUTS] == missing[TARGETS]
        assert len(batch) < found.graphs or not missing.any()


@pytest.mark.parametrize("max_shapes", range(1, 9))
@pytest.mark.parametrize("shuffled", [False, True])
def test_there_are_no_more_shapes_than_asked_for(max_shapes, shuffled):
    with few_samples():
        found = find_padding(random_sizes(), SETS, 3, shuffled=shuffled, max_shapes=max_shapes)
    check(found)
    assert 1 <= len(found.shapes) <= max_shapes


@pytest.mark.parametrize("shuffled", [False, True])
def test_more_shapes_waste_less(shuffled):
    sizes = random_sizes()
    with few_samples(), mock.patch.object(padding, "ENOUGH", 2):
        found = [find_padding(sizes, SETS, 3, shuffled=shuffled, max_shapes=number) for number in (1, 2, 4, 8)]
    efficiencies = [each.efficiency(in_order(sizes, 3)) for each in found]
    assert efficiencies == sorted(efficiencies)
    assert efficiencies[-1] > efficiencies[0] + 0.1


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("batch_size", "graphs"), [(1, 1), (4, 4), (10, 10), (25, 10)])
def test_graphs_of_one_size_need_one_shape_and_no_room(shuffled, batch_size, graphs):
    sizes = np.tile([1, 5, 2, 1, 8, 3], [10, 1])
    found = find_padding(sizes, SETS, batch_size, shuffled=shuffled)
    assert found.graphs == graphs
    assert found.shapes.tolist() == [[graphs * size for size in (1, 5, 2, 1, 8, 3)]]
    assert not found.room.any()


def test_efficiency_by_hand():
    capacities = np.array([[1, 4, 4, 1, 5, 0], [2, 8, 8, 2, 10, 2]])
    found = Padding(SETS, 3, capacities, np.array([1, 1, 1, 1, 0, 0]))
    small, odd = np.array([[1, 3, 1, 1, 3, 0], [0, 1, 1, 0, 1, 0]]), np.array([[1, 1, 1, 1, 2, 1]])
    assert found.efficiency([small]) == pytest.approx(4 / 5)
    assert found.efficiency([odd]) == pytest.approx(3 / 12)
    assert found.efficiency([small, odd, odd]) == pytest.approx(10 / 29)


def test_room_is_a_node_of_each_set_and_an_edge_of_each_readout():
    found = find_padding(random_sizes(), SETS, 3, shuffled=False)
    assert found.room.tolist() == [1, 1, 1, 1, 0, 0]
    assert found.graphs == 4


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_batch_larger_than_the_data_set_is_the_data_set(shuffled):
    sizes = random_sizes(5)
    found = find_padding(sizes, SETS, 100, shuffled=shuffled)
    assert found.graphs == 6
    assert found.capacities.tolist() == [sizes.sum(axis=0).tolist()]


@pytest.mark.parametrize("shuffled", [False, True])
def test_batches_of_one_graph(shuffled):
    sizes = random_sizes()
    found = find_padding(sizes, SETS, 1, shuffled=shuffled)
    check(found)
    assert found.graphs == 2
    assert found.capacities[-1].tolist() == sizes.max(axis=0).tolist()
    assert found.efficiency(in_order(sizes, 1)) > 0.8


@pytest.mark.parametrize("max_shapes", [0, -1])
def test_no_shapes_are_refused(max_shapes):
    with pytest.raises(ValueError, match=f"max_shapes is {max_shapes}.*at least 1"):
        find_padding(random_sizes(), SETS, 3, shuffled=True, max_shapes=max_shapes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shuffled", [False, True])
def test_graphs_without_edges(shuffled):
    sizes = random_sizes()
    sizes[:, [AA, AB]] = 0
    with few_samples():
        found = find_padding(sizes, SETS, 3, shuffled=shuffled)
    check(found)
    assert all(fits(found, batch).any() for batch in in_order(sizes, 3))


def test_the_sets_of_a_schema():
    sets = Sets.of(schema.shipped("conditional_recall"))
    assert sets.nodes == ("_readout", "char")
    assert sets.edges == ("_readout/target", "next", "previous", "self")
    assert sets.ends == ((1, 0), (1, 1), (1, 1), (1, 1))
    assert sets.names == [*sets.nodes, *sets.edges]
    assert sets.cost(np.array([[1, 5, 1, 4, 4, 5]])).tolist() == [13]


def test_batches_of_tree_max_are_padded_by_little():
    train = data.generate(TreeMax())["train"]
    batches = Batches(train, 20, shuffle_seed=0)
    assert len(batches.padding.shapes) <= 8
    assert min(batches.efficiency(epoch) for epoch in range(10)) >= 0.85


def test_batches_of_conditional_recall_have_one_shape():
    batches = Batches(data.generate(ConditionalRecall(length=10))["train"], 20, shuffle_seed=0)
    assert len(batches.padding.shapes) == 1
    assert min(batches.efficiency(epoch) for epoch in range(3)) >= 0.95
