"""The seven models, from training to saving; what they refuse; other schemas than chains."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import schema as schemas
from sggnn_tf import tfgnn
from sggnn_tf.models import MODELS, RelationalModel, build_model, registry
from tests import chains

OURS = "sggnn-rv-gat"
SOFTMAX = {"rgat": {"normaliser": "softmax"}}  # The plain ratio of the paper need not train at all.


def build(name, units=8, steps=3, schema=chains.SCHEMA, **options):
    keras.utils.set_random_seed(3)
    return build_model(name, schema, units=units, steps=steps, embedding_units=6, **SOFTMAX.get(name, {}), **options)


def train(model, epochs=2, **kwargs):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **kwargs)
    return model.fit(chains.dataset(), epochs=epochs, verbose=0).history["loss"]


@pytest.mark.parametrize("name", MODELS)
def test_xla_agrees_and_the_file_is_exact(name, tmp_path):
    without = build(name)
    losses = train(without, jit_compile=False)
    np.testing.assert_allclose(train(build(name), jit_compile=True), losses, atol=1e-4)
    assert losses[-1] < losses[0]
    without.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    graph = chains.batches()[0][0]
    assert np.abs(without(graph) - loaded(graph)).max() == 0.0
    assert int(loaded.optimizer.iterations) == 2 * len(chains.batches())


@pytest.mark.parametrize(
    ("name", "policy"), [*((name, "mixed_bfloat16") for name in (OURS, "ggnn", "rgat")), (OURS, "mixed_float16")]
)
def test_mixed_precision_trains(name, policy):
    keras.config.set_dtype_policy(policy)
    model = build(name, dropout=0.1)
    losses = train(model, epochs=4)
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    assert model(chains.batches()[0][0]).dtype == tf.float32


@pytest.mark.parametrize(
    ("name", "option"), [(OURS, {"unroll": 2}), (OURS, {"recompute": True}), ("rgcn", {"recompute": True})]
)
def test_ways_to_run_the_steps_are_the_same(name, option):
    losses = train(build(name, dropout=0.2), epochs=2, jit_compile=True)
    others = train(build(name, dropout=0.2, **option), epochs=2, jit_compile=True)
    np.testing.assert_allclose(others, losses, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_each_step_or_of_all(name):
    shared, separate = build(name, shared=True), build(name, shared=False)
    assert separate.encoder.count_params() == 3 * shared.encoder.count_params()
    by_default = build(name).encoder.count_params()
    assert by_default == (separate if name == "rgat" else shared).encoder.count_params()
    assert np.isfinite(separate(chains.batches()[0][0])).all()


def heterogeneous_schema():
    schema = tfgnn.parse_schema("""
      context {
        features { key: "season" value { dtype: DT_FLOAT shape { dim { size: 3 } } } }
        features { key: "label" value { dtype: DT_INT64 } } }
      node_sets { key: "user" value {
        features { key: "age" value { dtype: DT_INT64 } }
        features { key: "profile" value { dtype: DT_FLOAT shape { dim { size: 2 } dim { size: 2 } } } }
        features { key: "kind" value { dtype: DT_INT64 } } } }
      node_sets { key: "group" value { } }
      edge_sets { key: "follows" value { source: "user" target: "user" } }
      edge_sets { key: "member" value { source: "user" target: "group" } }
      edge_sets { key: "invites" value { source: "group" target: "user" } }
    """)
    schemas.set_num_values(schema, "user", "age", 5)
    schemas.set_num_values(schema, "user", "kind", ["guest", "host", "robot"])
    schemas.set_num_values(schema, "context", "label", 4)
    return schema


@pytest.mark.parametrize(("label", "shape"), [("context/label", (2, 4)), ("user/kind", (7, 3))])
@pytest.mark.parametrize("name", MODELS)
def test_any_schema(name, label, shape, tmp_path):
    schema = heterogeneous_schema()
    model = build_model(name, schema, units=6, steps=2, label=label, **SOFTMAX.get(name, {}))
    sizes = {"user": [3, 4], "group": [2, 0]}
    edges = {"follows": ([0, 1, 2, 3], [1, 0, 0, 6]), "member": ([0, 2], [0, 1]), "invites": ([], [])}
    features = {
        "age": np.arange(7) % 5,
        "kind": np.arange(7) % 3,
        "profile": np.ones([7, 2, 2], "float32"),
    }
    graph = tfgnn.GraphTensor.from_pieces(
        context=tfgnn.Context.from_fields(features={"season": np.ones([2, 3], "float32"), "label": np.array([1, 2])}),
        node_sets={
            name: tfgnn.NodeSet.from_fields(sizes=size, features=features if name == "user" else {})
            for name, size in sizes.items()
        },
        edge_sets={
            name: tfgnn.EdgeSet.from_fields(
                sizes=[len(source), 0] if name != "follows" else [3, 1],
                adjacency=tfgnn.Adjacency.from_indices(
                    (schema.edge_sets[name].source, np.array(source, "int64")),
                    (schema.edge_sets[name].target, np.array(target, "int64")),
                ),
            )
            for name, (source, target) in edges.items()
        },
    )
    scores = model(graph)
    assert scores.shape == shape
    assert np.isfinite(scores).all()
    read = {f"{set_name}/{key}" for set_name, table in model.initial_states.node_sets.items() for key in table}
    assert (label in read) is False
    assert ("user/kind" in read) == (label == "context/label")
    model.save(tmp_path / "model.keras")
    assert np.abs(keras.saving.load_model(tmp_path / "model.keras")(graph) - scores).max() == 0.0


def changed(change, schema=heterogeneous_schema):
    schema = schema()
    change(schema)
    return schema


WRONG = {
    "an unknown model": ("sgnn-rv-gat", {}, None, "no model 'sgnn-rv-gat'. Did you mean 'sggnn-rv-gat'"),
    "heads that do not divide": ("sggnn-rv-gat", {"units": 9}, None, "width of 9 cannot be divided among 2 heads"),
    "heads of rgat": ("rgat", {"units": 10, "num_heads": 3}, None, "width of 10 cannot be divided among 3 heads"),
    "no steps": ("ggnn", {"steps": 0}, None, "steps=0"),
    "a switch of another model": ("ggnn", {"gate_bias": 3.0}, None, "'ggnn' has no gate_bias; its switches are"),
    "a normaliser": ("rgat", {"normaliser": "none"}, None, "'ratio' or 'softmax', not 'none'"),
    "a dropout rate": ("ggnn", {"dropout": 1.0}, None, "below 1, not 1.0"),
    "fans": ("ggnn", {"relation_fans": "all"}, None, "not 'all'"),
    "a message": ("ggnn", {"message": "gated"}, None, "message='gated'"),
    "an aggregation": ("rgcn", {"aggregation": "max"}, None, "aggregation='max'"),
    "recompute without sharing": ("rgat", {"recompute": True}, None, "share their weights"),
    "a label that is not there": ("ggnn", {"label": "user/name"}, None, r"'user' has \['age', 'kind', 'profile'\]"),
    "a label in a set that is not there": ("ggnn", {"label": "bot/kind"}, None, "no node or edge set 'bot'"),
    "a feature to ignore that is not there": ("ggnn", {"ignore": ["user/nam"]}, None, "ignore='user/nam' names no"),
    "a label without a set": ("ggnn", {"label": "kind"}, None, "NODE_SET/FEATURE"),
    "a size that is not given": (
        "ggnn",
        {},
        lambda s: s.node_sets["user"].metadata.extra.pop(0),
        r"'age' of 'user'.*size is not given: add vocabulary/age or num_values/age",
    ),
    "classes that are not given": (
        "ggnn",
        {},
        lambda s: s.context.metadata.extra.pop(0),
        "number of classes of the label 'context/label' is not given",
    ),
    "a size that is no number": (
        "ggnn",
        {},
        lambda s: setattr(s.node_sets["user"].metadata.extra[0], "value", "many"),
        "num_values/age of 'user' in the schema is 'many'",
    ),
    "a vocabulary that is no list": (
        "ggnn",
        {},
        lambda s: setattr(s.node_sets["user"].metadata.extra[1], "value", "guest, host"),
        "vocabulary/kind of 'user' in the schema is not a JSON list",
    ),
    "an edge feature": (
        "ggnn",
        {},
        lambda s: setattr(s.edge_sets["follows"].features["weight"], "dtype", 1),
        r"edge set 'follows' has the feature 'weight'.*ignore=\['follows/weight'\]",
    ),
    "a string feature": (
        "ggnn",
        {},
        lambda s: setattr(s.node_sets["user"].features["name"], "dtype", 7),
        "'name' of 'user' in the schema is of type string",
    ),
    "a ragged feature": (
        "ggnn",
        {},
        lambda s: setattr(s.node_sets["user"].features["profile"].shape.dim[0], "size", -1),
        "ragged or unknown shape",
    ),
    "an edge set to nowhere": (
        "ggnn",
        {},
        lambda s: setattr(s.edge_sets["member"], "target", "club"),
        "'member' leads from 'user' to 'club'",
    ),
    "no edges": ("ggnn", {}, lambda s: s.edge_sets.clear(), "no edge sets"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_model_refuses(case):
    name, options, change, message = WRONG[case]
    schema = changed(change or (lambda schema: None))
    with pytest.raises(ValueError, match=message):
        build_model(name, schema, **{"units": 8, "steps": 2, "label": "context/label", **options})


def test_features_can_be_left_out():
    schema = changed(lambda s: setattr(s.edge_sets["follows"].features["weight"], "dtype", 1))
    ignore = ["follows/weight", "user/profile", "context/season"]
    model = build_model("ggnn", schema, units=8, steps=2, label="context/label", ignore=ignore)
    assert set(model.initial_states.node_sets["user"]) == {"age", "kind"}
    assert model.initial_states.context == {}


def test_a_relation_that_the_model_never_saw():
    model = build("sggnn-rv-gat")
    graph = chains.batches()[0][0]
    more = {**graph.edge_sets, "skip": graph.edge_sets["next"]}
    with pytest.raises(ValueError, match=r"\['skip'\] never seen"):
        model(tfgnn.GraphTensor.from_pieces(graph.context, graph.node_sets, more))


def test_states_of_another_width():
    update = registry.node_set_update("ggnn", 8, ["next"], {})
    graph = chains.batches()[0][0]
    states = {"hidden_state": tf.zeros([graph.node_sets["char"].total_size, 6])}
    with pytest.raises(ValueError, match=r"states of width 8, but that of the node set 'char' has the shape \(40, 6\)"):
        update(graph.replace_features(node_sets={"char": states}), node_set_name="char")


def test_the_configuration_says_everything():
    model = build("sggnn-rv-gat", dropout=0.25, gate_bias=3.0, neighbour_bias=2.0, num_heads=4)
    again = RelationalModel.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    update = again.encoder.updates[0].node_set_updates["char"]
    assert (update.update.dropout, update.message.gate_bias, update.aggregation.num_heads) == (0.25, 3.0, 4)
    assert update.relations == ["next", "previous", "self"]


@pytest.mark.parametrize(("units", "message"), [(150, "MatrixMessage"), (151, "ReducedMatrixMessage")])
def test_wide_baselines_reduce_their_matrices(units, message):
    for name in ("rgcn", "ggnn"):
        update = registry.node_set_update(name, units, ["a", "b"], {})
        assert type(update.message).__name__ == message
        assert getattr(update.message, "inner_units", 150) == 150
