"""Ways to a served model: a folder, REST and gRPC."""

import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.data.codec import Codec
from sggnn_tf.data.examples import task_schema
from sggnn_tf.serving import client as clients
from sggnn_tf.serving.local import serve
from tests.serving import exports


@pytest.fixture(scope="module")
def recall():
    with serve(exports.recall().version.parent) as server:
        yield server


@pytest.fixture(scope="module")
def trees():
    with serve(exports.trees().version) as server:
        yield server


@pytest.fixture(params=["grpc", "rest"])
def way(request):
    """How to ask a server."""

    def connect(server):
        return clients.connect(getattr(server, request.param), server.name)

    return connect


def live(texts):
    """What the live model answers: the predictions, and how sure it is."""
    records = tf.constant(exports.records(*texts))
    found = tf.saved_model.load(str(exports.recall().version)).signatures["serving_default"](examples=records)
    odds = tf.nn.softmax(found["scores"]).numpy()
    return odds.argmax(axis=1).tolist(), odds.max(axis=1).tolist()


def test_texts_are_answered_either_way(way, recall):
    texts = exports.texts(6)
    with way(recall) as client:
        assert client.signatures() == ["graph_tensors", "serving_default", "text"]
        found = clients.ask_texts(client, texts)
        by_records = clients.ask_records(client, exports.records(*texts))
    predictions, confidences = live(texts)
    assert [each.predictions for each in found] == [[each] for each in predictions]
    assert [each.labels for each in found] == [[exports.RECALL.alphabet[each]] for each in predictions]
    np.testing.assert_allclose([each.confidences[0] for each in found], confidences, rtol=1e-4)
    assert [each.extras for each in found] == [{"within_reach": len(text) - 1 <= exports.STEPS} for text in texts]
    assert [each.predictions for each in by_records] == [each.predictions for each in found]
    assert [each.extras for each in by_records] == [{}] * 6


def test_answers_have_no_padding_either_way(way, trees):
    records = exports.tree_examples().records[:5].tolist()
    graphs = [Codec(task_schema(exports.TREES)).decode(record) for record in records]
    numbers = [len(graph.nodes["node"]["value"]) for graph in graphs]
    assert len(set(numbers)) > 1
    with way(trees) as client:
        assert client.signatures() == ["graph_tensors", "serving_default"]
        found = clients.ask_records(client, records)
        alone = [clients.ask_records(client, [record])[0] for record in records]
    assert [len(each.predictions) for each in found] == numbers
    assert [len(each.confidences) for each in found] == numbers
    assert [each.predictions for each in alone] == [each.predictions for each in found]
    assert all(0 <= each <= 100 for answer in found for each in answer.predictions)
    assert all(answer.labels == [str(each) for each in answer.predictions] for answer in found)
    assert all(0 < each <= 1 for answer in found for each in answer.confidences)


def without_questions(record):
    example = tf.train.Example.FromString(record)
    for key in list(example.features.feature):
        if "_readout" in key:
            del example.features.feature[key]
    return example.SerializeToString()


def test_a_graph_without_questions_has_no_answers_either_way(way, trees):
    first, second = exports.tree_examples().records[:2].tolist()
    with way(trees) as client:
        asked, silent = clients.ask_records(client, [first, without_questions(second)])
        (alone,) = clients.ask_records(client, [without_questions(second)])
    assert len(asked.predictions) > 1
    assert silent == alone == clients.Answer([], [], [], {})


def test_no_records_get_no_answers_either_way(way, trees, recall):
    with way(trees) as client:
        assert clients.ask_records(client, []) == []
    with way(recall) as client:
        assert clients.ask_texts(client, []) == []


def test_what_is_wrong_is_a_sentence_either_way(way, recall):
    with way(recall) as client, pytest.raises(ValueError, match="The server answers") as error:
        clients.ask_texts(client, ["ab", "a?"])
    said = str(error.value)
    assert said.endswith("Example 1: the character ? at place 1 is not in the vocabulary.")
    assert said.startswith(("The server answers INVALID_ARGUMENT: ", "The server answers 400: "))


def test_names_in_a_sentence_have_no_backslashes(way, recall):
    example = tf.train.Example.FromString(exports.records("ab8")[0])
    example.features.feature["nodes/char.symbol"].int64_list.value[1] = 99
    with way(recall) as client, pytest.raises(ValueError, match="The server answers") as error:
        clients.ask_records(client, [example.SerializeToString()])
    assert str(error.value).endswith(
        "Example 0: the feature `symbol` of the node set `char` is 99; its values are 0 to 60."
    )


def test_another_model_is_not_found(recall):
    with clients.connect(recall.grpc, "recal") as client, pytest.raises(ValueError, match=r"NOT_FOUND: .*'recal'"):
        clients.ask_texts(client, ["ab"])
    with clients.connect(recall.rest, "recal") as client, pytest.raises(ValueError, match=r"404: .*'recal'"):
        client.signatures()


def test_the_address_may_have_the_name(recall):
    with clients.connect(f"{recall.rest}/v1/models/recall") as client:
        assert "text" in client.signatures()


def test_a_folder_is_asked_by_a_server_of_its_own(recall):
    texts = exports.texts(3)
    with clients.connect(str(exports.recall().version)) as client:
        found = clients.ask_texts(client, texts)
    assert [each.predictions[0] for each in found] == live(texts)[0]


@pytest.mark.parametrize(
    ("target", "name", "message"),
    [
        ("nowhere", None, "nowhere is neither a folder nor an address"),
        ("http://localhost:1", None, r"http://localhost:1/v1/models/NAME, or --name NAME"),
        ("localhost:1", None, "Say which model, by --name NAME"),
        (".", None, "There is no exported model in"),
    ],
)
def test_what_is_no_target_is_said(target, name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message), clients.connect(target, name):
        pass


@pytest.mark.parametrize("target", ["127.0.0.1:1", "http://127.0.0.1:1"])
def test_no_server_is_said(target):
    with clients.connect(target, "recall") as client:
        with pytest.raises(ValueError, match=r"UNAVAILABLE|There is no answer from http://127.0.0.1:1"):
            client.signatures()
        with pytest.raises(ValueError, match=r"UNAVAILABLE|There is no answer from http://127.0.0.1:1"):
            clients.ask_texts(client, ["ab"])


def test_a_server_that_cannot_load_its_model_says_so(tmp_path):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "saved_model.pb").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be served"), serve(tmp_path / "m"):
        pass


def test_a_server_ends_with_its_block(tmp_path):
    with serve(exports.tiny(tmp_path)) as server:
        assert server.process.poll() is None
        assert (server.name, server.version) == (tmp_path.name, 1)
    assert server.process.poll() == 0


def test_answers_are_without_padding():
    outputs = {
        "scores": np.log([[[0.25, 0.75], [0.5, 0.5]], [[0.9, 0.1], [1, 1]]]),
        "prediction": np.array([[1, 0], [0, -1]]),
        "label": np.array([[b"yes", b"no"], [b"no", b""]], object),
        "num_readouts": np.array([2, 1]),
        "depth": np.array([7, 8]),
    }
    first, second = clients.answers(outputs)
    assert (first.predictions, first.labels, first.extras) == ([1, 0], ["yes", "no"], {"depth": 7})
    np.testing.assert_allclose(first.confidences, [0.75, 0.5])
    assert (second.predictions, second.labels, second.extras) == ([0], ["no"], {"depth": 8})
    np.testing.assert_allclose(second.confidences, [0.9])


def test_scores_may_be_very_large():
    outputs = {
        "scores": np.array([[1e5, -1e5]], np.float32),
        "prediction": np.array([0]),
        "num_readouts": np.array([1]),
    }
    assert clients.answers(outputs) == [clients.Answer([0], ["0"], [1.0], {})]
