"""Versions of served models: what they hold, and that they are there whole or not at all."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from sggnn_tf import GraphSequential, data
from sggnn_tf import schema as sizes
from sggnn_tf.layers import Readout
from sggnn_tf.models import build_model
from sggnn_tf.serving import export, saved_model
from sggnn_tf.serving.saved_model import latest_version
from sggnn_tf.serving.warmup import WARMUP
from tests.data import schemas
from tests.serving import exports


@pytest.fixture(scope="module")
def recall():
    """A version of Conditional Recall."""
    return exports.recall().version


@pytest.fixture(scope="module")
def trees():
    """A version of trees whose classes have names."""
    return exports.trees().version


@pytest.fixture
def quick(recall, monkeypatch):
    """Exports that copy a version that is there."""
    monkeypatch.setattr(saved_model, "write_version", lambda model, folder, *_, **__: shutil.copytree(recall, folder))
    monkeypatch.setattr(saved_model, "verify", lambda folder: [])
    return lambda path: export(None, path, None)


def logs(version):
    for record in tf.data.TFRecordDataset(str(version / WARMUP)).as_numpy_iterator():
        yield prediction_log_pb2.PredictionLog.FromString(record).predict_log


def visible(path):
    return sorted(each.name for each in path.iterdir() if not each.name.startswith("."))


def test_versions_count_up_and_nothing_is_overwritten(quick, tmp_path):
    (tmp_path / "m" / "7").mkdir(parents=True)
    (tmp_path / "m" / "7" / "kept").write_text("as it was")
    (tmp_path / "m" / "notes").mkdir()
    assert [quick(tmp_path / "m").name for _ in range(3)] == ["8", "9", "10"]
    assert (tmp_path / "m" / "7" / "kept").read_text() == "as it was"
    assert visible(tmp_path / "m") == ["10", "7", "8", "9", "models.config", "notes"]
    assert not [each for each in (tmp_path / "m").iterdir() if each.name.startswith(".")]
    assert latest_version(tmp_path / "m").name == "10"


def test_the_first_version_is_1(recall):
    assert recall.name == "1"
    assert visible(recall.parent) == ["1", "models.config"]


def test_a_number_that_is_taken_in_the_meantime_is_not_overwritten(quick, tmp_path, monkeypatch):
    def verify_slowly(folder):
        (tmp_path / "m" / "1").mkdir()
        (tmp_path / "m" / "1" / "other").write_text("another export")
        return []

    monkeypatch.setattr(saved_model, "verify", verify_slowly)
    assert quick(tmp_path / "m").name == "2"
    assert visible(tmp_path / "m" / "1") == ["other"]


def test_an_export_that_fails_its_check_is_not_published_and_leaves_nothing(quick, tmp_path, monkeypatch):
    quick(tmp_path / "m")
    before = (tmp_path / "m" / "models.config").read_text()
    monkeypatch.setattr(saved_model, "verify", lambda folder: ["It is no good.", "Nor is that."])
    with pytest.raises(ValueError, match=r"is not published:\nIt is no good.\nNor is that."):
        quick(tmp_path / "m")
    assert sorted(each.name for each in (tmp_path / "m").iterdir()) == ["1", "models.config"]
    assert (tmp_path / "m" / "models.config").read_text() == before


def test_the_check_sees_the_version_before_it_is_published(quick, tmp_path, monkeypatch):
    seen = []

    def look(folder):
        seen.append((visible(tmp_path / "m"), (folder / "saved_model.pb").exists()))
        return []

    monkeypatch.setattr(saved_model, "verify", look)
    quick(tmp_path / "m")
    assert seen == [([], True)]


def test_an_export_that_is_stopped_leaves_nothing(quick, tmp_path, monkeypatch):
    def stop(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(saved_model, "verify", stop)
    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path / "m")
    assert list((tmp_path / "m").iterdir()) == []


KILLED = """
import shutil, sys, time
from sggnn_tf.serving import export, saved_model
saved_model.write_version = lambda model, folder, *_, **__: shutil.copytree(sys.argv[1], folder)
saved_model.verify = lambda folder: (print("now", flush=True), time.sleep(600))
export(None, sys.argv[2], None)
"""


def test_a_process_that_is_killed_leaves_no_version(recall, tmp_path):
    command = [sys.executable, "-c", KILLED, str(recall), str(tmp_path / "m")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "now\n"
    process.kill()
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert visible(tmp_path / "m") == []
    assert [each.name[0] for each in (tmp_path / "m").iterdir()] == ["."]
    with pytest.raises(ValueError, match="There is no exported model"):
        latest_version(tmp_path / "m")


def test_a_version_has_its_files(recall, trees):
    expected = {"saved_model.pb", "variables/variables.index", "model.json", "schema.pbtxt", WARMUP}
    for version in (recall, trees):
        files = {path.relative_to(version).as_posix() for path in version.rglob("*") if path.is_file()}
        assert expected <= files
        assert "fingerprint.pb" not in files


def test_the_card_has_the_checksums_of_all_other_files(recall):
    card = json.loads((recall / "model.json").read_text())
    files = [path for path in recall.rglob("*") if path.is_file() and path.name != "model.json"]
    assert card["checksums"] == {
        path.relative_to(recall).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def test_the_card_tells_what_the_model_is(recall, trees):
    card = json.loads((recall / "model.json").read_text())
    assert (card["name"], card["label"], card["one_answer_a_graph"]) == ("recall", "_readout/label", True)
    assert card["classes"] == list(exports.RECALL.alphabet)
    assert card["versions"]["tensorflow"] == tf.__version__
    assert card["versions"]["keras"] == keras.__version__
    other = json.loads((trees / "model.json").read_text())
    assert other["one_answer_a_graph"] is False
    assert other["metrics"] == {"valid": 0.5}
    assert other["classes"][7] == "7"


def described(tensors):
    return {key: (each["dtype"], each["shape"]) for key, each in tensors.items()}


def test_the_card_tells_the_signatures(recall, trees):
    signatures = json.loads((recall / "model.json").read_text())["signatures"]
    assert signatures.keys() == {"serving_default", "graph_tensors", "text"}
    outputs = {
        "scores": ("float32", [None, 61]),
        "prediction": ("int64", [None]),
        "label": ("string", [None]),
        "num_readouts": ("int64", [None]),
    }
    assert described(signatures["serving_default"]["inputs"]) == {"examples": ("string", [None])}
    assert described(signatures["serving_default"]["outputs"]) == outputs
    assert described(signatures["graph_tensors"]["outputs"]) == outputs
    assert described(signatures["text"]["inputs"]) == {"text": ("string", [None])}
    assert described(signatures["text"]["outputs"]) == {**outputs, "within_reach": ("bool", [None])}
    signatures = json.loads((trees / "model.json").read_text())["signatures"]
    relations = [f"child_{n}{of}" for n in (1, 2, 3) for of in ("", "_of")] + ["self", "_readout/target"]
    assert described(signatures["graph_tensors"]["inputs"]) == {
        "node.value": ("int64", [None, None]),
        **{f"{name}.#edges": ("int64", [None, None, 2]) for name in relations},
        **{f"{name}.#size": ("int64", [None]) for name in ("node", "_readout", *relations)},
    }
    assert signatures.keys() == {"serving_default", "graph_tensors"}
    assert described(signatures["serving_default"]["outputs"]) == {
        "scores": ("float32", [None, None, 101]),
        "prediction": ("int64", [None, None]),
        "label": ("string", [None, None]),
        "num_readouts": ("int64", [None]),
    }


def test_the_card_and_the_saved_model_say_the_same(recall):
    content = saved_model_pb2.SavedModel.FromString((recall / "saved_model.pb").read_bytes())
    found = content.meta_graphs[0].signature_def
    for name, each in json.loads((recall / "model.json").read_text())["signatures"].items():
        for told, there in ((each["inputs"], found[name].inputs), (each["outputs"], found[name].outputs)):
            assert described(told) == {
                key: (
                    tf.dtypes.as_dtype(info.dtype).name,
                    [None if dim.size == -1 else dim.size for dim in info.tensor_shape.dim],
                )
                for key, info in there.items()
            }


def test_the_schema_is_what_a_client_sends(recall):
    schema = sizes.read(recall / "schema.pbtxt")
    assert "label" not in schema.node_sets["_readout"].features
    assert sizes.vocabulary(schema, "char", "symbol") == list(exports.RECALL.alphabet)


def test_the_configuration_of_tf_serving_can_be_read(recall):
    config = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((recall.parent / "models.config").read_text(), config)
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("recall", "/models/recall", "tensorflow")


def test_warm_up_requests_are_few_and_ask_every_signature(recall, trees):
    for version, signatures in ((recall, {"serving_default", "graph_tensors", "text"}), (trees, None)):
        found = list(logs(version))
        assert 0 < len(found) <= 1000
        assert {log.request.model_spec.name for log in found} == {version.parent.name}
        assert signatures in (None, {log.request.model_spec.signature_name for log in found})
        graphs = {next(iter(log.request.inputs.values())).tensor_shape.dim[0].size for log in found}
        assert len(graphs) == 2
        assert min(graphs) == 1


def test_predictions_of_padding_are_minus_one_and_have_no_label(trees):
    function = tf.saved_model.load(str(trees)).signatures["serving_default"]
    records = exports.tree_examples().records[:6]
    found = {name: value.numpy() for name, value in function(examples=tf.constant(records)).items()}
    numbers = found["num_readouts"].tolist()
    assert len(set(numbers)) > 1
    assert found["prediction"].shape == found["label"].shape == (6, max(numbers))
    for graph, number in enumerate(numbers):
        assert (found["prediction"][graph, :number] >= 0).all()
        assert (found["prediction"][graph, number:] == -1).all()
        assert [label.decode() for label in found["label"][graph, :number]] == [
            str(each) for each in found["prediction"][graph, :number]
        ]
        assert set(found["label"][graph, number:]) <= {b""}
        assert not found["scores"][graph, number:].any()


ALONE = """
import importlib.machinery, json, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("keras", "tf_keras", "tensorflow_gnn", "sggnn_tf"):
            return importlib.machinery.ModuleSpec(name, self, origin="/nowhere/__init__.py")

    def create_module(self, spec):
        raise ImportError(spec.name + " is blocked")

    def exec_module(self, module):
        raise ImportError

sys.meta_path.insert(0, Blocked())
for name in ("keras", "tensorflow_gnn"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise AssertionError(name)
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
records = list(tf.data.TFRecordDataset(sys.argv[2]))
found = model.signatures["serving_default"](examples=tf.stack(records))
assert not {"keras", "tensorflow_gnn", "sggnn_tf"} & set(sys.modules)
print(json.dumps({name: found[name].numpy().tolist() for name in ("scores", "prediction")}))
"""


def test_a_version_needs_neither_keras_nor_tf_gnn(recall, tmp_path):
    log = [each for each in logs(recall) if each.request.model_spec.signature_name == "serving_default"][-1]
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as file:
        for record in tf.make_ndarray(log.request.inputs["examples"]):
            file.write(record)
    command = [sys.executable, "-c", ALONE, str(recall), str(tmp_path / "records")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.splitlines()[-1])
    expected = {name: tf.make_ndarray(proto) for name, proto in log.response.outputs.items()}
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-5, atol=1e-5)
    assert found["prediction"] == expected["prediction"].tolist()


def built(*layers):
    """A model of one's own on graphs of the library."""
    model = GraphSequential(layers)
    schema = schemas.library()
    del schema.context.features["label"]
    model.build(schema)
    return model


def custom():
    return built(Readout(from_context=True, feature_name="season"), keras.layers.Dense(3))


def test_a_model_of_ones_own_can_be_exported(tmp_path):
    model, examples = custom(), exports.library_examples()
    version = export(model, tmp_path / "own", examples, label="context/label")
    card = json.loads((version / "model.json").read_text())
    assert (card["label"], card["classes"], card["one_answer_a_graph"]) == ("context/label", None, True)
    assert "context.label" not in card["signatures"]["graph_tensors"]["inputs"]
    found = tf.saved_model.load(str(version)).signatures["serving_default"](examples=tf.constant(examples.records[:4]))
    seasons = np.stack([data.codec.Codec(schemas.library()).decode(r).context["season"] for r in examples.records[:4]])
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(found["scores"], seasons @ kernel + bias, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def library_examples():
    return exports.library_examples()


def flat_model():
    return built(Readout(from_context=True, feature_name="season"), keras.layers.Reshape([2, 1]))


def authors_model():
    return built(Readout(node_set_name="author", feature_name="position"), keras.layers.Dense(3))


def unbuilt():
    return GraphSequential([Readout(from_context=True, feature_name="season"), keras.layers.Dense(3)])


def plain():
    return keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (unbuilt, {"label": "context/label"}, "Only a built GraphModel can be exported"),
        (plain, {"label": "context/label"}, "Only a built GraphModel can be exported"),
        (custom, {}, "Say what the model predicts, by label="),
        (custom, {"label": "nowhere/label"}, "no node or edge set 'nowhere'"),
        (custom, {"label": "context/lable"}, "lable"),
        (custom, {"label": "label"}, "NODE_SET/FEATURE"),
        (custom, {"label": "context/label", "ignore": ["paper/tilte"]}, "tilte"),
        (flat_model, {"label": "context/label"}, r"shape \[\d+, 2, 1\]; to be exported it has to be scores"),
        (authors_model, {"label": "context/label"}, r"a row for each of the \d+ items of 'context'"),
    ],
)
def test_what_cannot_be_exported_is_said(make, options, message, library_examples, tmp_path):
    with pytest.raises(ValueError, match=message):
        export(make(), tmp_path / "m", library_examples, **options)
    assert not (tmp_path / "m").exists() or not visible(tmp_path / "m")


def test_a_ragged_feature_that_the_model_reads_is_refused(tmp_path):
    schema = schemas.ragged()
    schema.context.features["heat"].dtype = tf.float32.as_datatype_enum
    schema.context.features["heat"].shape.dim.add(size=2)
    schema.context.features["label"].dtype = tf.int64.as_datatype_enum
    sizes.set_num_values(schema, "context", "label", 2)
    record = tf.train.Example()
    features = record.features.feature
    features["nodes/paper.#size"].int64_list.value.append(2)
    features["nodes/paper.words"].int64_list.value.extend([1, 2, 3])
    features["nodes/paper.words.d1"].int64_list.value.extend([1, 2])
    features["context/heat"].float_list.value.extend([0.5, 1.5])
    features["context/label"].int64_list.value.append(1)
    examples = data.Examples(schema, [record.SerializeToString()], [("one", 1)])
    model = GraphSequential([Readout(from_context=True, feature_name="heat"), keras.layers.Dense(2)])
    unlabelled = type(schema)()
    unlabelled.CopyFrom(schema)
    del unlabelled.context.features["label"]
    model.build(unlabelled)
    with pytest.raises(ValueError, match=r"ragged shape cannot be served: the feature 'words'.*`ignore`"):
        export(model, tmp_path / "m", examples, label="context/label")
    assert not (tmp_path / "m").exists() or not visible(tmp_path / "m")


def test_models_of_build_model_know_what_they_ignore(library_examples, tmp_path):
    model = build_model("rgcn", schemas.library(), label="context/label", ignore=exports.IGNORE, units=8, steps=1)
    saved_model.write_version(model, tmp_path / "v", library_examples, name="library")
    schema = sizes.read(tmp_path / "v" / "schema.pbtxt")
    assert not schema.node_sets["paper"].features
    assert not schema.edge_sets["writes"].features
    assert set(schema.node_sets["author"].features) == {"age", "country", "position"}
