"""Batches: every example once an epoch, in an order that can be repeated, with weights that tell what is padding."""

import dataclasses
import functools
import gc
import json
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import data
from sggnn_tf.data import Batches
from sggnn_tf.data.pad import EMPTY
from sggnn_tf.models.static_shapes import is_static
from sggnn_tf.tasks import ConditionalRecall, TreeMax
from tests.data.examples_to_batch import chain_graphs, chains, libraries, library_graphs, listed, shuffled

TREES = TreeMax(trees=60, max_depth=7)
RECALL = ConditionalRecall(length=6, examples_per_class=1)


@functools.cache
def trees():
    return data.generate(TREES)["train"]


@functools.cache
def recall():
    return data.generate(RECALL)["train"]


@functools.cache
def in_order():
    """Batches in order, and two epochs of them."""
    batches = Batches(chains(), 4, max_shapes=3)
    dataset = batches.dataset()
    return batches, [list(dataset) for _ in range(2)]


def plain(graph, edge_sets):
    """A graph of arrays as lists."""
    nodes = {name: {key: listed(values) for key, values in each.items()} for name, each in graph.nodes.items()}
    edges = {name: [listed(end) for end in graph.edges.get(name, ([], []))] for name in edge_sets}
    return {"nodes": nodes, "edges": edges}


@functools.cache
def expected():
    return [plain(graph, chains().schema.edge_sets) for graph in chain_graphs()]


def lengths():
    return np.array([len(graph["nodes"]["char"]["symbol"]) for graph in expected()])


def split(values, sizes):
    return [listed(part) for part in np.split(np.asarray(values), np.cumsum(sizes)[:-1])]


def components(graph):
    """The components of a batch as lists; those of padding too."""
    count = int(graph.total_num_components)
    found = [{"nodes": {}, "edges": {}} for _ in range(count)]
    first = {name: np.cumsum([0, *piece.sizes.numpy()]) for name, piece in graph.node_sets.items()}
    for name, piece in graph.node_sets.items():
        parts = {key: split(values, piece.sizes) for key, values in piece.features.items() if key != EMPTY}
        for place in range(count):
            found[place]["nodes"][name] = {key: parts[key][place] for key in parts}
    for name, piece in graph.edge_sets.items():
        ends = piece.adjacency
        for node_set, nodes in ((ends.source_name, ends.source), (ends.target_name, ends.target)):
            for place, part in enumerate(split(nodes, piece.sizes)):
                found[place]["edges"].setdefault(name, []).append(listed(part - first[node_set][place]))
    return found


def real(element, set_name="_readout", feature="label"):
    """The graphs of a batch as lists, with their labels put back; weights are checked on the way."""
    graph, labels, weights = element
    sizes = graph.node_sets[set_name].sizes
    found = []
    for each, its_labels, its_weights in zip(
        components(graph), split(labels, sizes), split(weights, sizes), strict=True
    ):
        assert feature not in each["nodes"][set_name]
        assert len(set(its_weights)) <= 1
        if 1.0 in its_weights:
            each["nodes"][set_name][feature] = its_labels
            found.append(each)
        else:
            assert not any(its_labels)
    return found


def graphs_of(dataset, *label):
    return [graph for element in dataset for graph in real(element, *label)]


def tensors_of(dataset):
    return [[listed(t) for t in tf.nest.flatten(each, expand_composites=True)] for each in dataset]


def as_multiset(graphs):
    return sorted(json.dumps(graph, sort_keys=True) for graph in graphs)


def test_without_a_seed_every_example_comes_once_in_order():
    for epoch in in_order()[1]:
        assert graphs_of(epoch) == expected()


def test_with_a_seed_every_example_comes_once_an_epoch():
    epochs = [graphs_of(epoch) for epoch in shuffled()[1]]
    for epoch in epochs:
        assert as_multiset(epoch) == as_multiset(expected())
    orders = [*epochs, expected()]
    assert all(one != other for place, one in enumerate(orders) for other in orders[:place])


@pytest.mark.parametrize("batch_size", [1, 7, 30, 100])
def test_batch_sizes(batch_size):
    batches = Batches(chains(), batch_size, max_shapes=3)
    dataset = batches.dataset()
    elements = list(dataset)
    counts = [min(batch_size, 30 - start) for start in range(0, 30, batch_size)]
    assert [len(real(element)) for element in elements] == counts
    assert graphs_of(elements) == expected()
    assert len(batches) == int(dataset.cardinality()) == len(counts)
    for graph, *_ in elements:
        assert int(graph.total_num_components) == batches.padding.graphs == min(batch_size, 30) + 1


def test_every_batch_has_one_of_the_shapes():
    for batches, epochs in (in_order(), shuffled()):
        shapes, found = batches.padding.shapes.tolist(), set()
        for graph, labels, weights in (element for epoch in epochs for element in epoch):
            pieces = {**graph.node_sets, **graph.edge_sets}
            found.add(shapes.index([int(pieces[name].total_size) for name in batches.padding.sets.names]))
            assert labels.shape == weights.shape == graph.node_sets["_readout"][EMPTY].shape[:1]
        assert len(found) > 1


def test_batches_are_padded_to_the_first_shape_that_holds_them():
    batches, epochs = in_order()
    totals = [batches.sizes[start : start + 4].sum(axis=0) for start in range(0, 30, 4)]
    capacities, shapes = batches.padding.capacities, batches.padding.shapes
    places = [next(i for i, row in enumerate(capacities) if (total <= row).all()) for total in totals]
    column = batches.padding.sets.names.index("next")
    sizes = [shapes[place][column] for place in places]
    assert [int(graph.edge_sets["next"].total_size) for graph, *_ in epochs[0]] == sizes
    assert batches.efficiency() == pytest.approx(sum(total[column] for total in totals) / sum(sizes))


def test_labels_of_nodes():
    dataset = Batches(trees(), 4, label="node/value").dataset()
    graphs = [plain(TREES.example(n), trees().schema.edge_sets) for n in TREES.splits["train"]]
    elements = list(dataset)
    assert graphs_of(elements, "node", "value") == graphs
    for graph, labels, weights in elements:
        assert set(graph.node_sets["node"].features) == {EMPTY}
        assert set(graph.node_sets["_readout"].features) == {"label"}
        assert labels.shape == weights.shape == graph.node_sets["node"][EMPTY].shape[:1]


def test_labels_of_nodes_that_have_other_features():
    found = []
    for graph, labels, weights in Batches(libraries(), 3, label="author/country").dataset():
        assert set(graph.node_sets["author"].features) == {"age", "position"}
        np.testing.assert_array_equal(weights == 1, graph.node_sets["author"]["age"] > 0)
        found += listed(labels[weights == 1])
        assert not any(listed(labels[weights == 0]))
    assert found == [country for graph in library_graphs() for country in listed(graph.nodes["author"]["country"])]


def test_labels_of_the_context():
    found = []
    for number, (graph, labels, weights) in enumerate(Batches(libraries(), 4, label="context/label").dataset()):
        assert set(graph.context.features) == {"season"}
        count = min(4, 10 - 4 * number)
        assert listed(weights) == [1.0] * count + [0.0] * (5 - count)
        assert listed(labels[count:]) == [0] * (5 - count)
        found += listed(labels[:count])
    assert found == [int(graph.context["label"]) for graph in library_graphs()]


def test_without_a_label_batches_are_graphs():
    dataset = Batches(chains(), 4, label=None).dataset()
    found = [components(graph) for graph in dataset]
    assert [each for batch in found for each in batch[:4]][:30] == expected()


@pytest.mark.parametrize("endless", [False, True])
def test_no_tuner_holds_up_the_end_of_an_iterator(endless):
    examples = data.generate(ConditionalRecall(length=3))["valid"]
    for made in (Batches(examples, 8, label="_readout/label").dataset(endless=endless), examples.graphs()):
        assert made.options().autotune.enabled is False


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    batches, epochs = shuffled()
    epochs = [tensors_of(epoch) for epoch in epochs]
    keras.utils.set_random_seed(123)
    same = Batches(chains(), 4, shuffle_seed=5, max_shapes=4).dataset()
    assert [tensors_of(same) for _ in range(3)] == epochs
    assert tensors_of(batches.dataset(first_epoch=2)) == epochs[2]
    assert tensors_of(Batches(chains(), 4, shuffle_seed=6, max_shapes=4).dataset()) != epochs[0]


def test_the_order_is_that_of_the_batches():
    batches, epochs = shuffled()
    for number, epoch in enumerate(epochs):
        assert graphs_of(epoch) == [expected()[place] for place in batches.order(number)]
    assert listed(in_order()[0].order(9)) == list(range(30))


def test_the_order_does_not_depend_on_the_size_of_batches():
    first, second = (Batches(chains(), size, shuffle_seed=5) for size in (4, 7))
    for epoch in range(5):
        assert listed(first.order(epoch)) == listed(second.order(epoch))
        assert sorted(first.order(epoch)) == list(range(30))


def test_a_data_set_made_of_another_lives_on_its_own():
    batches, epochs = shuffled()
    derived = batches.dataset().map(lambda graph, labels, weights: labels).take(100)
    iterator = iter(batches.dataset())
    gc.collect()
    first = [listed(labels) for _, labels, _ in epochs[0]]
    assert [listed(labels) for labels in derived] == first
    assert [listed(labels) for _, labels, _ in iterator] == first


def test_with_one_shape_all_sizes_are_static():
    assert is_static(Batches(chains(), 4, shuffle_seed=0, max_shapes=1).dataset().element_spec)
    assert is_static(Batches(recall(), 4, shuffle_seed=0).dataset().element_spec)
    assert not is_static(shuffled()[0].dataset().element_spec)


def test_graphs_of_one_size_are_padded_by_whole_graphs_only():
    batches = Batches(recall(), 4)
    dataset = list(batches.dataset())
    assert len(recall()) % 4 == 1
    for graph, *_ in dataset:
        assert int(graph.total_num_components) == 4
        assert graph.node_sets["char"].total_size == 4 * 6
    assert [float(tf.reduce_sum(weights)) for _, _, weights in dataset] == [4.0] * (len(dataset) - 1) + [1.0]


def test_a_graph_over_a_limit_is_an_error_that_names_it():
    nodes = lengths()
    limit = int(np.sort(nodes)[-9])
    place = int(np.flatnonzero(nodes > limit)[0])
    message = rf"chains, record {place} is too large: {nodes[place]} in 'char' \(limit {limit}\)"
    with pytest.raises(ValueError, match=message):
        Batches(chains(), 4, limits={"char": limit})
    assert len(Batches(chains(), 4, limits={"char": int(nodes.max())}).records) == 30


@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_graphs_over_a_limit_are_skipped_counted_and_logged(shuffle_seed, caplog):
    limits = {"char": 9, "next": 7}
    keep = (lengths() <= 9) & (lengths() - 1 <= 7)
    with caplog.at_level(logging.WARNING, "sggnn_tf"):
        batches = Batches(chains(), 4, limits=limits, too_large="skip", shuffle_seed=shuffle_seed)
    assert 0 < batches.skipped == 30 - keep.sum()
    assert f"{batches.skipped} of 30 graphs are skipped as too large" in caplog.text
    assert f"record {np.flatnonzero(~keep)[0]} " in caplog.text
    assert f"{batches.skipped} graphs skipped" in str(batches)
    within = [graph for graph, kept in zip(expected(), keep, strict=True) if kept]
    found = graphs_of(batches.dataset())
    assert as_multiset(found) == as_multiset(within)
    assert shuffle_seed is not None or found == within


def test_nothing_is_skipped_or_logged_below_the_limits(caplog):
    batches = Batches(chains(), 4, limits={"char": 10**6}, too_large="skip")
    assert batches.skipped == 0
    assert not caplog.records
    assert "skipped" not in str(batches)


def test_a_limit_of_no_set_is_refused():
    with pytest.raises(ValueError, match=r"limit for 'chars'.*_readout, char, _readout/target, next"):
        Batches(chains(), 4, limits={"chars": 3})


@pytest.mark.parametrize("too_large", ["error", "skip"])
def test_limits_that_leave_nothing_are_refused(too_large):
    with pytest.raises(ValueError, match="too large"):
        Batches(chains(), 4, limits={"char": 1}, too_large=too_large)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("chars/symbol", "'chars/symbol' is of no node set.*context, _readout, char"),
        ("next/symbol", "'next/symbol' is of no node set"),
        ("symbol", "'symbol' is of no node set"),
        ("char/symbols", r"'char/symbols' is no feature; 'char' has \['symbol'\]"),
        ("context/symbol", r"'context/symbol' is no feature; 'context' has \[\]"),
        ("char/", "A feature is named NODE_SET/FEATURE"),
    ],
)
def test_a_label_that_is_not_there_is_refused(label, message):
    with pytest.raises(ValueError, match=message):
        Batches(chains(), 4, label=label)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_empty_batches_are_refused(batch_size):
    with pytest.raises(ValueError, match=f"batch_size is {batch_size}.*at least 1"):
        Batches(chains(), batch_size)


@pytest.mark.parametrize("max_shapes", [1, 3])
def test_a_batch_larger_than_every_shape_is_an_error(max_shapes):
    batches = Batches(chains(), 4, max_shapes=max_shapes)
    batches.padding = dataclasses.replace(batches.padding, capacities=batches.padding.capacities // 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than every shape"):
        list(batches.dataset())


def test_batches_in_words():
    text = str(Batches(chains(), 4, max_shapes=1))
    assert text.startswith("30 graphs in 8 batches of 4, of 1 shape at most; ")
    assert text.endswith("% of the padded edges are real")
    assert "of 2 shapes" in str(Batches(chains(), 4, max_shapes=2))


def test_an_endless_data_set_has_the_same_epochs_one_after_the_other():
    batches = Batches(chains(), 4, shuffle_seed=3, max_shapes=1)
    endless = batches.dataset(first_epoch=1, endless=True)
    assert endless.cardinality() == tf.data.INFINITE_CARDINALITY
    expected = batches.dataset(first_epoch=1)
    iterator = iter(endless)
    for _ in range(2):
        for _, labels, weights in expected:
            _, found, found_weights = next(iterator)
            np.testing.assert_array_equal(found, labels)
            np.testing.assert_array_equal(found_weights, weights)
