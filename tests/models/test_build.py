"""Building without data, and what a built model refuses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import GraphModel, GraphSequential, tfgnn
from sggnn_tf.layers import Readout
from tests import graphs

SCHEMA = """
  context { features { key: "season" value { dtype: DT_FLOAT shape { dim { size: 3 } } } } }
  node_sets { key: "user" value {
    features { key: "profile" value { dtype: DT_FLOAT shape { dim { size: 4 } } } }
    features { key: "age" value { dtype: DT_INT64 } } } }
  node_sets { key: "group" value { } }
  edge_sets { key: "follows" value { source: "user" target: "user" } }
  edge_sets { key: "member" value { source: "user" target: "group"
    features { key: "since" value { dtype: DT_FLOAT shape { dim { size: 1 } } } } } }
"""


@pytest.mark.parametrize("describe", [lambda: tfgnn.parse_schema(SCHEMA), graphs.spec, lambda: graphs.graph(3)])
def test_a_model_is_built_from_a_description(describe, capsys):
    model = graphs.model()
    model.build(describe())
    assert model.built
    # Embedding, user, context; the conv over follows and its state; over member; the group; the context; the head.
    sizes = [7 * 3, 7 * 8 + 8, 3 * 8 + 8, 16 * 8 + 8, 24 * 8 + 8, 9 * 8 + 8, 8 * 8 + 8, 24 * 8 + 8, 8 * 2 + 2]
    assert model.count_params() == sum(sizes)
    weights = model.get_weights()
    assert model(graphs.merged([0, 1, 2])).shape == (3, 2)
    assert all((a == b).all() for a, b in zip(weights, model.get_weights(), strict=True))
    model.summary()
    assert "graph_update" in capsys.readouterr().out


def test_building_leaves_no_trace_of_losses():
    class WithLoss(GraphModel):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2, activity_regularizer="l2")

        def call(self, graph):
            return self.dense(graph.context["season"])

    model = WithLoss()
    model.build(graphs.spec())
    model(graphs.merged([0, 1]))
    assert len(model.losses) == 1
    assert float(model.losses[0]) > 0


def test_a_model_that_merges_batches_itself():
    class Merging(GraphModel):
        def call(self, graph):
            return graph.merge_batch_to_components().context["season"]

    batch = tf.data.Dataset.from_tensors(graphs.graph(0)).repeat(2).batch(2).get_single_element()
    model = Merging()
    assert model(batch).shape == (2, 3)
    with pytest.raises(ValueError, match=r"built for graphs of shape \(2,\) and got \(\)"):
        model(graphs.graph(0))


def test_an_empty_graph_in_a_batch_is_harmless():
    model, empty = graphs.model(), graphs.graph(5, num_nodes=0)
    spec = empty.spec.relax(num_nodes=True, num_edges=True)
    batch = tf.data.Dataset.from_generator(lambda: [empty, graphs.graph(1)], output_signature=spec).batch(2)
    graph = batch.get_single_element().merge_batch_to_components()
    with tf.GradientTape() as tape:
        scores = model(graph)
    assert np.isfinite(scores).all()
    gradients = map(tf.convert_to_tensor, tape.gradient(scores, model.trainable_variables))
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    np.testing.assert_allclose(scores[1:], model(graphs.graph(1)), rtol=1e-5)


def without(graph, **pieces):
    parts = {"context": graph.context, "node_sets": dict(graph.node_sets), "edge_sets": dict(graph.edge_sets)}
    return tfgnn.GraphTensor.from_pieces(**{**parts, **pieces})


def with_features(graph, set_name, features):
    return graph.replace_features(node_sets={set_name: features})


def wrong_graphs():
    graph = graphs.graph(1)
    user = graph.node_sets["user"].get_features_dict()
    edges = dict(graph.edge_sets)
    reversed_edges = tfgnn.EdgeSet.from_fields(
        sizes=[1], features={"since": [[0.0]]}, adjacency=tfgnn.Adjacency.from_indices(("group", [0]), ("user", [0]))
    )
    yield with_features(graph, "user", {"age": user["age"]}), "feature 'profile' of the node set 'user', which has"
    yield with_features(graph, "user", {**user, "profile": user["profile"][:, :3]}), r"shape \(4,\) .* shape \(3,\)"
    yield with_features(graph, "user", {**user, "age": tf.cast(user["age"], tf.int32)}), "int64 .* got int32"
    yield graph.remove_features(context=["season"]), "feature 'season' of the context, which has no features"
    yield without(graph, edge_sets={"member": edges["member"]}), r"\['follows'\] missing, none never seen"
    yield without(graph, edge_sets={**edges, "likes": edges["follows"]}), r"none missing, \['likes'\] never seen"
    yield without(graph, edge_sets={**edges, "member": reversed_edges}), "'member' that starts in .*'user'.* in 'group'"
    yield without(graph, node_sets={**graph.node_sets, "bot": graph.node_sets["user"]}), r"\['bot'\] never seen"


@pytest.mark.parametrize(("graph", "message"), list(wrong_graphs()), ids=lambda value: str(value)[:20])
def test_a_graph_of_another_kind_is_refused(graph, message):
    model = GraphSequential([Readout(from_context=True, feature_name="season")], name="my_model")
    model.build(graphs.spec())
    with pytest.raises(ValueError, match=message) as error:
        model(graph)
    assert "my_model" in str(error.value)


def test_harmless_differences_are_accepted():
    model = GraphSequential([Readout(from_context=True, feature_name="season")])
    model.build(graphs.spec())
    graph = graphs.graph(1)
    more = {**graph.node_sets["user"].get_features_dict(), "nickname": tf.zeros([4, 2])}
    model(with_features(graph, "user", more))
    model(tfgnn.add_readout_from_first_node(graph, "seed", node_set_name="user"))


def test_fit_refuses_before_it_starts():
    model = graphs.model()
    model.compile("adam", graphs.loss())
    batched = tf.data.Dataset.from_tensors((graphs.graph(0), tf.constant(0))).batch(1)
    with pytest.raises(ValueError, match=r"not merged.*merge_batch_to_components"):
        model.fit(batched, verbose=0)
    mislabelled = graphs.dataset().map(lambda graph, labels, weights: (graph, labels[:-1], weights))
    model = graphs.model()
    model.compile("adam", graphs.loss())
    with pytest.raises(ValueError, match="shape"):
        model.fit(mislabelled, verbose=0)
    assert int(model.optimizer.iterations) == 0


def test_an_edge_set_to_an_unknown_node_set_is_refused():
    schema = tfgnn.parse_schema(SCHEMA)
    schema.edge_sets["member"].target = "club"
    with pytest.raises(ValueError, match=r"edge set 'member' ends in the node set 'club'.*\['group', 'user'\]"):
        graphs.model().build(schema)


@pytest.mark.parametrize("description", [None, {"user": 4}, "schema.pbtxt"])
def test_something_that_describes_no_graph_is_refused(description):
    with pytest.raises(ValueError, match=r"described by a tfgnn\.GraphSchema"):
        graphs.model().build(description)


def test_layers_of_keras_2_are_refused():
    with pytest.raises(ValueError, match="Keras 3 layers, but got a Dense"):
        GraphSequential([tf.keras.layers.Dense(2)])
