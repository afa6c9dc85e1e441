"""Padding of a graph, which is that of TF-GNN: the graph stays, and what is added is apart from it."""

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import schema, tfgnn
from sggnn_tf.data.pad import EMPTY, pad
from sggnn_tf.layers.graph_spec import as_graph_spec
from sggnn_tf.models.static_shapes import is_static
from tests import graphs

SCHEMA = """
context {
  features { key: "season" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "place" value { dtype: DT_STRING } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
}
node_sets {
  key: "paper"
  value {
    features { key: "year" value { dtype: DT_INT64 } }
    features { key: "title" value { dtype: DT_STRING } }
    features { key: "matrix" value { dtype: DT_FLOAT shape { dim { size: 3 } dim { size: 2 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "points" value { dtype: DT_FLOAT shape { dim { size: -1 } dim { size: 2 } } } }
  }
}
node_sets { key: "author" value { features { key: "age" value { dtype: DT_FLOAT } } } }
node_sets { key: "topic" value { } }
edge_sets {
  key: "writes"
  value {
    source: "author" target: "paper"
    features { key: "share" value { dtype: DT_FLOAT } }
    features { key: "notes" value { dtype: DT_INT64 shape { dim { size: -1 } } } }
  }
}
edge_sets { key: "cites" value { source: "paper" target: "paper" } }
edge_sets { key: "about" value { source: "paper" target: "topic" } }
"""
DENSE = """
context { features { key: "season" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } }
node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }
node_sets { key: "topic" value { } }
edge_sets {
  key: "about"
  value { source: "paper" target: "topic" features { key: "share" value { dtype: DT_FLOAT } } }
}
"""


def random_graph(seed, text=SCHEMA, **kwargs):
    tf.random.set_seed(seed)
    spec = as_graph_spec(schema.from_text(text))
    return tfgnn.random_graph_tensor(spec, num_components_range=(1, 4), **kwargs)


def pieces(graph):
    return {**graph.node_sets, **graph.edge_sets}


def sizes_beyond(graph, seed):
    random = np.random.default_rng(seed)
    more = {name: int(random.integers(1, 9)) for name in graph.node_sets}
    more |= {name: int(random.integers(0, 9)) for name in graph.edge_sets}
    return {name: int(piece.total_size) + more[name] for name, piece in pieces(graph).items()}


def padded_by_tfgnn(graph, num_components, sizes):
    constraints = tfgnn.SizeConstraints(
        total_num_components=num_components,
        total_num_nodes={name: sizes[name] for name in graph.node_sets},
        total_num_edges={name: sizes[name] for name in graph.edge_sets},
    )
    return tfgnn.pad_to_total_sizes(graph, constraints)


def as_list(values):
    return values.to_list() if isinstance(values, tf.RaggedTensor) else values.numpy().tolist()


def adjacency(piece):
    return np.stack([piece.adjacency.source, piece.adjacency.target], axis=1)


def check(graph, padded, is_real, num_components, sizes):
    expected, expected_mask = padded_by_tfgnn(graph, num_components, sizes)
    real = int(graph.total_num_components)
    assert is_real.numpy().tolist() == expected_mask.numpy().tolist()
    assert padded.context.sizes.numpy().tolist() == [1] * num_components
    assert padded.context.features.keys() == expected.context.features.keys()
    for name, values in padded.context.features.items():
        assert as_list(values) == as_list(expected.context[name])
        assert as_list(values)[:real] == as_list(graph.context[name])
    for name, piece in pieces(padded).items():
        before = pieces(graph)[name]
        size = int(before.total_size)
        assert int(piece.total_size) == sizes[name]
        assert piece.sizes.numpy().tolist()[:real] == before.sizes.numpy().tolist()
        assert piece.sizes.shape == [num_components]
        assert sum(piece.sizes.numpy()) == sizes[name]
        assert piece.features.keys() - {EMPTY} == before.features.keys()
        for key, values in before.features.items():
            assert piece[key].dtype == values.dtype
            assert as_list(piece[key]) == as_list(pieces(expected)[name][key])
            assert as_list(piece[key])[:size] == as_list(values)
    for name, piece in padded.edge_sets.items():
        before, ends = graph.edge_sets[name], piece.adjacency
        size = int(before.total_size)
        np.testing.assert_array_equal(adjacency(piece)[:size], adjacency(before))
        for place, node_set in enumerate((ends.source_name, ends.target_name)):
            assert node_set == (before.adjacency.source_name, before.adjacency.target_name)[place]
            assert (adjacency(piece)[size:, place] >= int(graph.node_sets[node_set].total_size)).all()
            assert (adjacency(piece)[size:, place] < sizes[node_set]).all()


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_it_pads_as_tfgnn_does(seed, as_tensors):
    graph = random_graph(seed)
    sizes = sizes_beyond(graph, seed)
    num_components = int(graph.total_num_components) + 1 + seed % 3
    given = {name: tf.constant(size, tf.int64) for name, size in sizes.items()} if as_tensors else sizes
    check(graph, *pad(graph, num_components, given), num_components, sizes)


@pytest.mark.parametrize("seed", range(4))
def test_sets_may_be_empty(seed):
    graph = random_graph(seed, row_lengths_range=(0, 2))
    sizes = sizes_beyond(graph, seed)
    num_components = int(graph.total_num_components) + 2
    check(graph, *pad(graph, num_components, sizes), num_components, sizes)


def test_a_graph_that_is_as_large_as_asked_stays_as_it_is():
    graph = random_graph(0)
    sizes = {name: int(piece.total_size) for name, piece in pieces(graph).items()}
    num_components = int(graph.total_num_components)
    padded, is_real = pad(graph, num_components, sizes)
    check(graph, padded, is_real, num_components, sizes)
    assert is_real.numpy().all()


def test_padding_of_ragged_features_is_empty_rows():
    graph = random_graph(1)
    sizes = sizes_beyond(graph, 1)
    padded, _ = pad(graph, 9, sizes)
    paper, real = padded.node_sets["paper"], int(graph.node_sets["paper"].total_size)
    assert as_list(paper["words"])[real:] == [[]] * (sizes["paper"] - real)
    assert as_list(paper["points"])[real:] == [[]] * (sizes["paper"] - real)
    assert as_list(padded.context["tags"])[int(graph.total_num_components) :] == [[]] * (
        9 - int(graph.total_num_components)
    )


def test_ragged_features_with_a_fixed_size_inside():
    rows = tf.ragged.constant([[1], [2, 3], [], [4], [5], [6]], dtype=tf.int64)
    features = {
        "fixed_first": tf.RaggedTensor.from_uniform_row_length(rows, 3),
        "fixed_later": tf.RaggedTensor.from_row_lengths(
            tf.RaggedTensor.from_uniform_row_length(rows, 2), tf.constant([1, 2], tf.int64)
        ),
    }
    graph = tfgnn.GraphTensor.from_pieces(
        node_sets={"a": tfgnn.NodeSet.from_fields(sizes=tf.constant([2]), features=features)}
    )
    check(graph, *pad(graph, 3, {"a": 4}), 3, {"a": 4})


def test_indices_may_be_of_64_bits():
    graph = graphs.merged([0, 1])
    assert graph.spec.indices_dtype == tf.int64
    sizes = sizes_beyond(graph, 0)
    check(graph, *pad(graph, 3, sizes), 3, sizes)


def test_padding_is_zeros_and_empty_strings():
    graph = random_graph(2)
    sizes = sizes_beyond(graph, 2)
    padded, _ = pad(graph, 9, sizes)
    paper, real = padded.node_sets["paper"], int(graph.node_sets["paper"].total_size)
    assert set(as_list(paper["title"])[real:]) == {b""}
    assert set(as_list(paper["year"])[real:]) == {0}
    assert not paper["matrix"].numpy()[real:].any()
    assert set(as_list(padded.context["place"])[int(graph.total_num_components) :]) == {b""}


def test_integers_become_static_sizes():
    graph = random_graph(3, DENSE)
    sizes = {"paper": 40, "topic": 41, "about": 42}

    @tf.function(input_signature=[as_graph_spec(graph)])
    def static(graph):
        padded, is_real = pad(graph, 7, sizes)
        assert is_static(padded.spec)
        assert is_real.shape == [7]
        assert padded.node_sets["paper"]["year"].shape == [40]
        assert padded.node_sets["topic"].spec.total_size == 41
        assert padded.edge_sets["about"].adjacency.source.shape == [42]
        return padded, is_real

    check(graph, *static(graph), 7, sizes)


def test_tensors_do_not():
    graph = random_graph(3, DENSE)
    names = ("paper", "topic", "about")

    @tf.function(input_signature=[as_graph_spec(graph), tf.TensorSpec([3], tf.int64)])
    def dynamic(graph, sizes):
        padded, is_real = pad(graph, 7, dict(zip(names, tf.unstack(sizes), strict=True)))
        assert padded.node_sets["paper"]["year"].shape == [None]
        assert padded.context["season"].shape == [7, 2]
        return padded, is_real

    for sizes in ([40, 41, 42], [60, 61, 62]):
        check(graph, *dynamic(graph, tf.constant(sizes, tf.int64)), 7, dict(zip(names, sizes, strict=True)))


def test_a_node_set_without_features_gets_an_empty_one():
    graph = random_graph(4, DENSE)
    padded, _ = pad(graph, 7, {"paper": 40, "topic": 41, "about": 42})
    assert padded.node_sets["topic"][EMPTY].shape == [41, 0]
    assert EMPTY not in padded.node_sets["paper"].features
    assert padded.edge_sets["about"].features.keys() == {"share"}
