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

from sggnn_tf import data, models
from sggnn_tf.data import Batches, Examples
from sggnn_tf.data.pad import EMPTY
from sggnn_tf.models.static_shapes import is_static
from sggnn_tf.tasks import ConditionalRecall, TreeMax
from tests.data import schemas

TREES = TreeMax(trees=60, max_depth=7)
RECALL = ConditionalRecall(length=6, examples_per_class=1)
READOUT, NODE, CONTEXT = "_readout/label", "node/value", "context/label"


@functools.cache
def trees():
    return data.generate(TREES)["train"]


@functools.cache
def recall():
    return data.generate(RECALL)["train"]


@functools.cache
def libraries():
    graphs = [schemas.library_graph(2 + n % 3, 1 + n % 4, n % 2, seed=n) for n in range(10)]
    return Examples.from_graphs(graphs, schemas.library())


@functools.cache
def strings():
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abcXY01"), length)) for length in random.integers(2, 12, 30)]
    return Examples.from_graphs(map(RECALL.graph, texts), data.task_schema(RECALL))


def listed(values):
    return np.asarray(values).tolist()


def plain(graph, edge_sets):
    """A graph of arrays as lists."""
    nodes = {name: {key: listed(values) for key, values in each.items()} for name, each in graph.nodes.items()}
    edges = {name: [listed(end) for end in graph.edges.get(name, ([], []))] for name in edge_sets}
    return {"nodes": nodes, "edges": edges}


def expected_trees():
    return [plain(TREES.example(n), trees().schema.edge_sets) for n in TREES.splits["train"]]


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
    dataset = Batches(trees(), 4).dataset()
    for _ in range(2):
        assert graphs_of(dataset) == expected_trees()


def test_with_a_seed_every_example_comes_once_an_epoch():
    dataset = Batches(trees(), 4, shuffle_seed=0).dataset()
    epochs = [graphs_of(dataset) for _ in range(3)]
    for epoch in epochs:
        assert as_multiset(epoch) == as_multiset(expected_trees())
    orders = [[json.dumps(graph) for graph in epoch] for epoch in (*epochs, expected_trees())]
    assert all(one != other for place, one in enumerate(orders) for other in orders[:place])


@pytest.mark.parametrize("batch_size", [1, 7, 30, 100])
def test_batch_sizes(batch_size):
    batches = Batches(trees(), batch_size, max_shapes=3)
    elements = list(batches.dataset())
    assert [len(real(element)) for element in elements] == [
        min(batch_size, 30 - start) for start in range(0, 30, batch_size)
    ]
    assert [graph for element in elements for graph in real(element)] == expected_trees()
    for graph, *_ in elements:
        assert int(graph.total_num_components) == batches.padding.graphs == min(batch_size, 30) + 1


def test_every_batch_has_one_of_the_shapes():
    batches = Batches(trees(), 4, shuffle_seed=0)
    shapes, dataset = batches.padding.shapes.tolist(), batches.dataset()
    found = set()
    for graph, labels, weights in (element for _ in range(3) for element in dataset):
        pieces = {**graph.node_sets, **graph.edge_sets}
        sizes = [int(pieces[name].total_size) for name in batches.padding.sets.names]
        found.add(shapes.index(sizes))
        assert labels.shape == weights.shape == graph.node_sets["_readout"][EMPTY].shape[:1]
    assert len(found) > 1


def test_batches_are_padded_to_the_first_shape_that_holds_them():
    batches = Batches(trees(), 4, max_shapes=3)
    totals = [batches.sizes[start : start + 4].sum(axis=0) for start in range(0, 30, 4)]
    padding = batches.padding
    places = [next(i for i, row in enumerate(padding.capacities) if (total <= row).all()) for total in totals]
    names = batches.padding.sets.names
    found = [int(graph.edge_sets["self"].total_size) for graph, *_ in batches.dataset()]
    assert found == [padding.shapes[place][names.index("self")] for place in places]
    real_edges = sum(total[-7:].sum() for total in totals)
    assert batches.efficiency() == pytest.approx(real_edges / sum(padding.shapes[p][-7:].sum() for p in places))


def test_labels_of_nodes():
    dataset = Batches(trees(), 4, label=NODE).dataset()
    assert graphs_of(dataset, "node", "value") == expected_trees()
    for graph, labels, weights in dataset:
        assert set(graph.node_sets["node"].features) == {EMPTY}
        assert set(graph.node_sets["_readout"].features) == {"label"}
        assert labels.shape == weights.shape == graph.node_sets["node"][EMPTY].shape[:1]


def test_labels_of_nodes_that_have_other_features():
    graphs = [schemas.library_graph(2 + n % 3, seed=n) for n in range(10)]
    authors = [{**graph.nodes["author"]} for graph in graphs]
    found = []
    for graph, labels, weights in Batches(libraries(), 3, label="author/country").dataset():
        assert set(graph.node_sets["author"].features) == {"age", "position"}
        found += labels[weights == 1].numpy().tolist()
        np.testing.assert_array_equal(weights == 1, graph.node_sets["author"]["age"] > 0)
    assert found == [int(country) for each in authors for country in each["country"]]


def test_labels_of_the_context():
    graphs = [schemas.library_graph(2 + n % 3, 1 + n % 4, n % 2, seed=n) for n in range(10)]
    labels = []
    for number, element in enumerate(Batches(libraries(), 4, label=CONTEXT).dataset()):
        assert set(element[0].context.features) == {"season"}
        count = min(4, 10 - 4 * number)
        assert element[2].numpy().tolist() == [1.0] * count + [0.0] * (5 - count)
        assert element[1].numpy().tolist()[count:] == [0] * (5 - count)
        labels += element[1].numpy().tolist()[:count]
    assert labels == [int(graph.context["label"]) for graph in graphs]


def test_without_a_label_batches_are_graphs():
    batches = Batches(trees(), 4, label=None)
    found = [graph for batch in batches.dataset() for graph in components(batch) if any(graph["nodes"]["node"]["value"])]
    assert found == expected_trees()


def test_the_order_depends_on_the_seed_and_the_epoch_alone():
    first = Batches(trees(), 4, shuffle_seed=5).dataset()
    epochs = [tensors_of(first) for _ in range(3)]
    keras.utils.set_random_seed(123)
    np.random.seed(7)
    second = Batches(trees(), 4, shuffle_seed=5).dataset()
    assert [tensors_of(second) for _ in range(3)] == epochs
    assert tensors_of(Batches(trees(), 4, shuffle_seed=5).dataset(first_epoch=2)) == epochs[2]
    assert tensors_of(Batches(trees(), 4, shuffle_seed=6).dataset()) != epochs[0]


def test_the_order_does_not_depend_on_the_size_of_batches():
    first, second = (Batches(trees(), size, shuffle_seed=5) for size in (4, 7))
    assert graphs_of(first.dataset()) == graphs_of(second.dataset())
    for epoch in range(3):
        assert listed(first.order(epoch)) == listed(second.order(epoch))
        assert sorted(first.order(epoch)) == list(range(30))


def test_the_order_is_that_of_the_batches():
    batches = Batches(trees(), 4, shuffle_seed=5)
    dataset, expected = batches.dataset(first_epoch=3), expected_trees()
    for epoch in (3, 4):
        assert graphs_of(dataset) == [expected[place] for place in batches.order(epoch)]
    assert listed(Batches(trees(), 4).order(9)) == list(range(30))


def test_data_sets_have_epochs_of_their_own():
    batches = Batches(trees(), 4, shuffle_seed=5)
    one, other = batches.dataset(), batches.dataset()
    first = tensors_of(one)
    assert tensors_of(one) != first
    assert tensors_of(other) == first


def test_a_data_set_made_of_another_lives_on_its_own():
    batches = Batches(trees(), 4, shuffle_seed=5)
    expected = [listed(labels) for _, labels, _ in batches.dataset()]
    derived = batches.dataset().map(lambda graph, labels, weights: labels).take(100)
    iterator = iter(batches.dataset())
    gc.collect()
    assert [listed(labels) for labels in derived] == expected
    assert [listed(labels) for _, labels, _ in iterator] == expected


@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_the_number_of_batches_is_known(shuffle_seed):
    for size in (1, 4, 29, 30, 31):
        batches = Batches(trees(), size, shuffle_seed=shuffle_seed, max_shapes=2)
        assert len(batches) == -(-30 // size)
        assert int(batches.dataset().cardinality()) == len(batches)


def test_with_one_shape_all_sizes_are_static():
    assert is_static(Batches(trees(), 4, shuffle_seed=0, max_shapes=1).dataset().element_spec)
    assert is_static(Batches(recall(), 4, shuffle_seed=0).dataset().element_spec)
    assert not is_static(Batches(trees(), 4, shuffle_seed=0, max_shapes=2).dataset().element_spec)


def test_graphs_of_one_size_are_padded_by_whole_graphs_only():
    batches = Batches(recall(), 4)
    dataset = list(batches.dataset())
    assert len(recall()) % 4 == 1
    for graph, _, weights in dataset:
        assert int(graph.total_num_components) == 4
        assert graph.node_sets["char"].total_size == 4 * 6
    assert [float(tf.reduce_sum(weights)) for _, _, weights in dataset] == [4.0] * (len(dataset) - 1) + [1.0]


def test_a_graph_over_a_limit_is_an_error_that_names_it():
    nodes = trees().sizes[:, trees().sets.names.index("node")]
    limit = int(np.sort(nodes)[-3])
    place = int(np.flatnonzero(nodes > limit)[0])
    message = rf"train of tree_max, record {place} is too large: {nodes[place]} in 'node' \(limit {limit}\)"
    with pytest.raises(ValueError, match=message):
        Batches(trees(), 4, limits={"node": limit})
    assert len(Batches(trees(), 4, limits={"node": int(nodes.max())}).records) == 30


@pytest.mark.parametrize("shuffle_seed", [None, 0])
def test_graphs_over_a_limit_are_skipped_counted_and_logged(shuffle_seed, caplog):
    sizes, names = trees().sizes, trees().sets.names
    nodes, children = sizes[:, names.index("node")], sizes[:, names.index("child_3")]
    limits = {"node": int(np.sort(nodes)[-4]), "child_3": int(np.sort(children)[-8])}
    keep = (nodes <= limits["node"]) & (children <= limits["child_3"])
    with caplog.at_level(logging.WARNING, "sggnn_tf"):
        batches = Batches(trees(), 4, limits=limits, too_large="skip", shuffle_seed=shuffle_seed)
    assert 0 < batches.skipped == 30 - keep.sum()
    assert f"{batches.skipped} of 30 graphs are skipped as too large" in caplog.text
    assert f"record {np.flatnonzero(~keep)[0]} " in caplog.text
    assert f"{batches.skipped} graphs skipped" in str(batches)
    expected = [graph for graph, kept in zip(expected_trees(), keep, strict=True) if kept]
    found = graphs_of(batches.dataset())
    assert as_multiset(found) == as_multiset(expected)
    assert shuffle_seed is not None or found == expected


def test_nothing_is_skipped_or_logged_below_the_limits(caplog):
    batches = Batches(trees(), 4, limits={"node": 10**6}, too_large="skip")
    assert batches.skipped == 0
    assert not caplog.records
    assert "skipped" not in str(batches)


def test_a_limit_of_no_set_is_refused():
    with pytest.raises(ValueError, match="limit for 'nodes'.*_readout, node, _readout/target, child_1"):
        Batches(trees(), 4, limits={"nodes": 3})


@pytest.mark.parametrize("too_large", ["error", "skip"])
def test_limits_that_leave_nothing_are_refused(too_large):
    with pytest.raises(ValueError, match="too large"):
        Batches(trees(), 4, limits={"node": 1}, too_large=too_large)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("nodes/value", "'nodes/value' is of no node set.*context, _readout, node"),
        ("child_1/value", "'child_1/value' is of no node set"),
        ("value", "'value' is of no node set"),
        ("node/values", r"'node/values' is no feature; 'node' has \['value'\]"),
        ("context/value", r"'context/value' is no feature; 'context' has \[\]"),
        ("node/", "'node/' is no feature"),
    ],
)
def test_a_label_that_is_not_there_is_refused(label, message):
    with pytest.raises(ValueError, match=message):
        Batches(trees(), 4, label=label)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_empty_batches_are_refused(batch_size):
    with pytest.raises(ValueError, match=f"batch_size is {batch_size}.*at least 1"):
        Batches(trees(), batch_size)


@pytest.mark.parametrize("max_shapes", [1, 3])
def test_a_batch_larger_than_every_shape_is_an_error(max_shapes):
    batches = Batches(trees(), 4, max_shapes=max_shapes)
    batches.padding = dataclasses.replace(batches.padding, capacities=batches.padding.capacities // 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="larger than every shape"):
        list(batches.dataset())


def test_batches_in_words():
    text = str(Batches(trees(), 4, max_shapes=1))
    assert text.startswith("30 graphs in 8 batches of 4, of 1 shape at most; ")
    assert text.endswith("% of the padded edges are real")
    assert "of 2 shapes" in str(Batches(trees(), 4, max_shapes=2))


def batches_of_two_shapes():
    return Batches(strings(), 4, shuffle_seed=2, max_shapes=2)


def compiled_model(**kwargs):
    keras.utils.set_random_seed(0)
    model = models.build_model("sggnn-rv-gat", strings().schema, units=8, steps=2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **kwargs)
    return model


class Run:
    """Three epochs of training and an evaluation."""

    def __init__(self, jit_compile):
        self.model = compiled_model(jit_compile=jit_compile)
        self.data = batches_of_two_shapes().dataset()
        self.traces, self.traces_by_epoch = 0, []
        step = self.model.train_step

        def counted(data):
            self.traces += 1
            return step(data)

        self.model.train_step = counted
        count = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: self.traces_by_epoch.append(self.traces))
        self.history = self.model.fit(self.data, epochs=3, verbose=0, callbacks=[count]).history
        self.epochs = int(self.data.epoch)
        self.results = self.model.evaluate(self.data, verbose=0, return_dict=True)


@pytest.fixture(scope="module")
def with_xla():
    return Run(jit_compile=True)


@pytest.fixture(scope="module")
def without_xla():
    return Run(jit_compile=False)


def shapes_by_epoch(epochs):
    batches, found = batches_of_two_shapes(), []
    dataset = batches.dataset()
    for _ in range(epochs):
        found.append({int(graph.edge_sets["self"].total_size) for graph, *_ in dataset})
    return found


def test_xla_on_several_shapes_gives_the_same_losses(with_xla, without_xla):
    assert with_xla.history.keys() == without_xla.history.keys()
    for name, values in with_xla.history.items():
        np.testing.assert_allclose(values, without_xla.history[name], atol=1e-5, err_msg=name)
    assert with_xla.history["loss"][-1] < with_xla.history["loss"][0]


def test_xla_on_several_shapes_gives_the_same_weights(with_xla, without_xla):
    for one, other in zip(with_xla.model.get_weights(), without_xla.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_xla_on_several_shapes_evaluates_the_same(with_xla, without_xla):
    assert with_xla.results == pytest.approx(without_xla.results, abs=1e-5)


def test_each_shape_is_compiled_once(with_xla):
    shapes = shapes_by_epoch(3)
    assert all(len(epoch) == 2 for epoch in shapes)
    assert with_xla.traces_by_epoch == [len(set.union(*shapes[:number])) for number in (1, 2, 3)]


def test_an_epoch_of_training_is_an_epoch_of_data(with_xla, without_xla):
    assert with_xla.epochs == without_xla.epochs == 3
    seen = []

    class Seen(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(logs["loss"])

    model, batches = compiled_model(jit_compile=False), batches_of_two_shapes()
    model.optimizer.learning_rate = 0.0
    model.fit(batches.dataset(first_epoch=1), epochs=2, verbose=0, callbacks=[Seen()])
    expected = []
    for epoch in (1, 2):
        model.reset_metrics()
        expected += [model.test_on_batch(*each, return_dict=True)["loss"] for each in batches.dataset(epoch)]
    np.testing.assert_allclose(seen, expected, atol=1e-5)


def test_several_steps_at_once_on_several_shapes():
    models = [compiled_model(jit_compile=True, steps_per_execution=2), compiled_model(jit_compile=False)]
    histories = []
    for model in models:
        dataset = batches_of_two_shapes().dataset()
        assert int(dataset.cardinality()) % 2 == 0
        even = model.fit(dataset, epochs=1, verbose=0).history
        odd = model.fit(dataset.take(7), epochs=2, verbose=0).history
        histories.append([*even["loss"], *odd["loss"]])
        assert int(model.optimizer.iterations) == 8 + 2 * 7
    np.testing.assert_allclose(*histories, atol=1e-5)


def test_predict_gives_a_row_for_each_readout(with_xla, without_xla):
    dataset = batches_of_two_shapes().dataset(first_epoch=1).take(3)
    found = with_xla.model.predict(dataset, verbose=0)
    expected = [with_xla.model(graph) for graph, *_ in batches_of_two_shapes().dataset(first_epoch=1).take(3)]
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-5)
    np.testing.assert_allclose(
        without_xla.model.predict(batches_of_two_shapes().dataset(first_epoch=1).take(3), verbose=0), found, atol=1e-3
    )


@pytest.mark.parametrize("examples", [strings, trees])
def test_a_graph_has_the_same_scores_alone_and_in_a_batch(examples):
    model = models.build_model("sggnn-rv-gat", examples().schema, units=8, steps=2)
    scores = []
    for batch_size, max_shapes in ((1, 8), (1, 1), (4, 2), (30, 1)):
        dataset = Batches(examples(), batch_size, max_shapes=max_shapes).dataset()
        scores.append(np.concatenate([model(graph)[weights == 1] for graph, _, weights in dataset]))
    for other in scores[1:]:
        np.testing.assert_allclose(scores[0], other, atol=1e-5)
