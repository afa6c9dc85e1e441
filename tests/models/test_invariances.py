"""What must not change a model's outputs: numbering, order, batching and padding. And what dropout does change."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf import tfgnn
from sggnn_tf.layers import Repeat
from sggnn_tf.models import MODELS, build_model, registry
from tests import chains
from tests.layers import oracle
from tests.layers.oracle import STATE, UNITS, Piece

CELLS = [name for name, parts in MODELS.items() if parts.update and parts.update.__name__.endswith("GRUUpdate")]
SWITCHES = {"rgat": {"normaliser": "softmax"}}
RATE = 0.3

USER_ENDS = {
    "follows": ("user", "user"),
    "likes": ("user", "item"),
    "liked_by": ("item", "user"),
}
CHAIN_ENDS = {**oracle.chain()[0], "_readout/target": ("char", "_readout")}
# The relations, the label, the node set whose rows are predicted (a row a graph without), and categorical features.
TASKS = {
    "node": (USER_ENDS, "user/label", "user", {"user/age": 5, "user/label": 3}),
    "graph": (USER_ENDS, "context/label", None, {"user/age": 5, "context/label": 4}),
    "readout": (CHAIN_ENDS, "_readout/label", "_readout", {"char/letter": 6, "_readout/label": 6}),
}
MODELS_AND_TASKS = [*((name, task) for name in MODELS for task in ("node", "readout")), ("rgcn", "graph")]


def users(random, num_users, num_items, num_edges, label):
    sizes = {"user": num_users, "item": num_items}
    pairs = {
        name: [(random.integers(sizes[source]), random.integers(sizes[target])) for _ in range(num_edges)]
        for name, (source, target) in USER_ENDS.items()
    }
    features = {
        "user": {"age": random.integers(5, size=num_users), "profile": random.normal(size=(num_users, 3))},
        "item": {},
        "context": {"season": random.normal(size=(1, 2))},
    }
    features[label]["label"] = np.zeros(num_users if label == "user" else 1, np.int64)
    return Piece(sizes, pairs, features)


def characters(random, length):
    """A chain that is read at both ends."""
    _, (chain,) = oracle.chain(length)
    ends = [0, length - 1] if length else []
    return Piece(
        {**chain.sizes, "_readout": len(ends)},
        {**chain.pairs, "_readout/target": [(node, row) for row, node in enumerate(ends)]},
        {"char": {"letter": random.integers(6, size=length)}, "_readout": {"label": np.zeros(len(ends), np.int64)}},
    )


@functools.cache
def pieces_of(task):
    random = np.random.default_rng(0)
    if task == "readout":
        return [characters(random, length) for length in (3, 0, 5, 1)]
    sizes = [(4, 2, 5), (0, 0, 0), (3, 4, 6), (2, 1, 0)]
    return [users(random, *size, {"node": "user", "graph": "context"}[task]) for size in sizes]


@functools.cache
def model_and_outputs(name, task):
    _, label, _, categorical = TASKS[task]
    keras.utils.set_random_seed(0)
    schema = tfgnn.create_schema_pb_from_graph_spec(batch(task, pieces_of(task)[:1]))
    for feature, size in categorical.items():
        schemas.set_num_values(schema, *feature.split("/"), size)
    model = build_model(
        name, schema, units=UNITS, steps=2, label=label, embedding_units=4, dropout=RATE, **SWITCHES.get(name, {})
    )
    return model, outputs(model, [batch(task, pieces_of(task))])


def outputs(model, graphs, training=False):
    return np.concatenate([model(graph, training=training).numpy() for graph in graphs])


def batch(task, pieces):
    return oracle.graph_tensor(TASKS[task][0], pieces, "float32")


def rows_of(task, pieces):
    """The numbers of the rows that are predicted for each graph of a batch."""
    node_set = TASKS[task][2]
    last = np.cumsum([each.sizes[node_set] if node_set else 1 for each in pieces])
    return np.split(np.arange(last[-1]), last[:-1])


def renumbered(task):
    random = np.random.default_rng(1)
    ends, _, node_set, _ = TASKS[task]
    pieces, rows = [], []
    for each, old_rows in zip(pieces_of(task), rows_of(task, pieces_of(task)), strict=True):
        order = {s: np.arange(n) if s == "_readout" else random.permutation(n) for s, n in each.sizes.items()}
        number = {s: np.argsort(old) for s, old in order.items()}  # The new number of each old node.
        pairs = {r: [(number[ends[r][0]][s], number[ends[r][1]][t]) for s, t in ps] for r, ps in each.pairs.items()}
        features = {
            s: {key: value[order[s]] if s in order else value for key, value in values.items()}
            for s, values in each.features.items()
        }
        pieces.append(Piece(each.sizes, pairs, features))
        rows.append(old_rows[number[node_set]] if node_set else old_rows)
    return [batch(task, pieces)], np.concatenate(rows)


def reordered(task):
    """Another order of the edges of each graph, and of the graphs in the batch."""
    random = np.random.default_rng(2)

    def shuffled(relation, pairs):
        return pairs if relation.startswith("_") else [pairs[i] for i in random.permutation(len(pairs))]

    pieces = [each._replace(pairs={r: shuffled(r, p) for r, p in each.pairs.items()}) for each in pieces_of(task)]
    return [batch(task, pieces[::-1])], np.concatenate(rows_of(task, pieces[::-1])[::-1])


def two_batches(task):
    return [batch(task, pieces_of(task)[:1]), batch(task, pieces_of(task)[1:])], ...


def padded(task):
    graph = batch(task, pieces_of(task))
    sizes = tfgnn.SizeConstraints(
        total_num_components=graph.num_components + 2,
        total_num_nodes={name: nodes.total_size + 3 for name, nodes in graph.node_sets.items()},
        total_num_edges={name: edges.total_size + 3 for name, edges in graph.edge_sets.items()},
    )
    return [tfgnn.pad_to_total_sizes(graph, sizes)[0]], np.concatenate(rows_of(task, pieces_of(task)))


@functools.cache
def changed(change, task):
    """The same graphs in other batches, and the rows of their outputs that are those of `pieces_of(task)`."""
    return change(task)


@pytest.mark.parametrize(("name", "task"), MODELS_AND_TASKS)
@pytest.mark.parametrize("change", [renumbered, reordered, two_batches, padded])
def test_outputs_stay_the_same(name, task, change):
    model, expected = model_and_outputs(name, task)
    graphs, rows = changed(change, task)
    got = outputs(model, graphs)[rows]
    assert got.shape == expected.shape
    assert np.isfinite(got).all()
    assert np.abs(got - expected).max() <= 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_dropout_in_training_only(name):
    """Of three equal graphs: a cell's mask is one for all nodes, other dropout has a mask a node."""
    model, _ = model_and_outputs(name, "node")
    graph = batch("node", pieces_of("node")[:1] * 3)
    once, twice = outputs(model, [graph]), outputs(model, [graph])
    assert np.array_equal(once, twice)
    first, second, third = np.split(outputs(model, [graph], training=True), 3)
    assert (np.abs(first - second).max() <= 1e-5) == (np.abs(first - third).max() <= 1e-5) == (name in CELLS)
    assert np.abs(first - once[: len(first)]).max() > 1e-3
    assert np.abs(first - np.split(outputs(model, [graph], training=True), 3)[0]).max() > 1e-3


@pytest.mark.parametrize(("layer_norm", "recompute"), [(False, False), (True, True)])
@pytest.mark.parametrize("name", CELLS)
def test_one_mask_for_all_nodes_and_steps(name, layer_norm, recompute):
    keras.config.set_dtype_policy("float64")
    switches = {"dropout": RATE, "seed": 7, "layer_norm": layer_norm}
    ends, pieces = oracle.multigraph()
    graph = oracle.graph_tensor(ends, pieces)
    update = oracle.graph_update(ends, lambda relations: registry.node_set_update(name, UNITS, relations, switches))
    oracle.build([update])
    mask = keras.random.dropout(tf.ones([2 * UNITS, 1], "float64"), RATE, seed=keras.random.SeedGenerator(7))
    assert 0 < np.count_nonzero(mask) < 2 * UNITS
    expected = oracle.run([update] * 3, ends, pieces, oracle.states_of(graph), dict.fromkeys("ab", mask[:, 0].numpy()))
    got = oracle.states_of(Repeat(update, 3, recompute=recompute)(graph, training=True))
    for node_set, states in expected.items():
        assert np.abs(got[node_set] - states).max() <= 1e-10


@pytest.mark.parametrize("name", ["ggnn", "sggnn-rv-gat"])
def test_masks_of_cells(name):
    """Both linear maps have the same mask, of zeros and 1 / (1 - rate), whose mean is 1."""
    cell = registry.node_set_update(name, UNITS, ["r"], {"dropout": RATE}).update
    cell.build()
    masks = []
    for _ in range(50):
        weights = cell.prepare(training=True)
        masks.append((weights["gate"] / cell.gate_kernel.value)[:, :1].numpy())
        for kernel, masked in ((cell.gate_kernel, "gate"), (cell.candidate_kernel, "candidate")):
            np.testing.assert_allclose(weights[masked], masks[-1] * kernel.numpy(), rtol=1e-5)
    values = np.ravel(masks)
    assert (np.isclose(values, 0.0) | np.isclose(values, 1 / (1 - RATE))).all()
    assert abs(values.mean() - 1.0) <= 4 * (RATE / (1 - RATE) / values.size) ** 0.5  # Four standard deviations.


@pytest.mark.parametrize("name", ["rgcn", "rgat"])
def test_masks_of_nodes(name):
    """Dropout of the result: of each node, unit and step by itself."""
    ends, pieces = oracle.chain(*[3] * 40)
    graph = oracle.graph_tensor(ends, pieces, "float32")
    switches = {"dropout": RATE, "activation": "softplus"}
    update = oracle.graph_update(ends, lambda relations: registry.node_set_update(name, UNITS, relations, switches))
    plain, dropped = (update(graph, training=training).node_sets["char"][STATE].numpy() for training in (False, True))
    kept = dropped != 0.0
    np.testing.assert_allclose(dropped[kept], plain[kept] / (1 - RATE), rtol=1e-5)
    assert abs(kept.mean() - (1 - RATE)) <= 4 * (RATE * (1 - RATE) / kept.size) ** 0.5
    assert 0 < kept.mean(axis=0).min() < kept.mean(axis=0).max() < 1
    assert len(np.unique(kept, axis=0)) > 40


@pytest.mark.parametrize("name", ["rgcn", "rgat"])
def test_masks_of_steps_and_passes_differ(name):
    ends, pieces = oracle.chain(4)
    graph = oracle.graph_tensor(ends, pieces, "float32")
    layer = registry.node_set_update(name, UNITS, sorted(ends), {"dropout": 0.5, "activation": "softplus"})
    layer.build()
    masks = []
    for _ in range(3):
        prepared = layer.prepare(graph, "char", training=True)
        states = layer.states(graph, "char")
        masks += [layer.step(states, "char", step, prepared).numpy() != 0.0 for step in range(3)]
    assert len(np.unique(masks, axis=0)) == 9


@pytest.mark.parametrize("name", ["sggnn-rv-gat", "rgat"])
def test_precision_of_a_model_is_that_of_its_parts(name):
    model = build_model(name, chains.SCHEMA, units=UNITS, steps=2, dtype="float64")
    assert {weight.dtype for weight in model.weights} == {"float64"}
