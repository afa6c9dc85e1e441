"""A served model on real sockets, by TF Serving's protocols."""

import concurrent.futures
import json
import socket
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    prediction_log_pb2,
)

from sggnn_tf.serving.local import serve
from sggnn_tf.serving.runtime import rest as rest_interface
from tests.serving import exports
from tests.serving.servers import (
    INVALID,
    NOT_FOUND,
    OUTPUTS,
    SECONDS,
    SIGNATURES,
    Rest,
    arrays_of,
    assert_right,
    code_of,
    in_json,
    inputs_of,
    request_of,
    stub,
)


@pytest.mark.parametrize("signature", SIGNATURES)
def test_predict_gives_the_answers_of_the_live_model(signature, by_grpc, exported):
    places = [3, 0, 17, 39]
    request = request_of(signature, inputs_of(signature, [exported.texts[place] for place in places]))
    found = arrays_of(by_grpc.Predict(request, timeout=SECONDS))
    assert_right(found, exported, places)
    assert found.keys() == (OUTPUTS | {"within_reach"} if signature == "text" else OUTPUTS)
    assert {key: found[key].dtype for key in ("scores", "prediction", "label", "num_readouts")} == {
        "scores": np.float32,
        "prediction": np.int64,
        "label": object,
        "num_readouts": np.int64,
    }


def test_different_graphs_get_different_answers(exported):
    assert len(set(exported.live["prediction"].tolist())) > 5


def test_both_protocols_agree_with_the_answers_in_the_warm_up_file(by_grpc, rest, exported):
    path = exported.version / "assets.extra" / "tf_serving_warmup_requests"
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record).predict_log
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert {log.request.model_spec.signature_name for log in logs} == set(SIGNATURES)
    for log in logs:
        expected = arrays_of(log.response)
        found = arrays_of(by_grpc.Predict(log.request, timeout=SECONDS))
        columns = {key: in_json(tf.make_ndarray(proto)) for key, proto in log.request.inputs.items()}
        body = {"signature_name": log.request.model_spec.signature_name, "inputs": columns}
        status, content = rest(":predict", body)
        assert status == 200, content
        assert found.keys() == expected.keys() == content["outputs"].keys()
        for key, array in expected.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-5)
                np.testing.assert_allclose(content["outputs"][key], array, rtol=1e-5, atol=1e-5)
            else:
                assert found[key].tolist() == array.tolist()
                texts = [each.decode() for each in array] if array.dtype == object else array.tolist()
                assert content["outputs"][key] == texts


def test_an_output_filter_gives_these_outputs_only(by_grpc):
    request = request_of("text", {"text": [b"ab8"]})
    request.output_filter.extend(["label", "within_reach"])
    assert by_grpc.Predict(request, timeout=SECONDS).outputs.keys() == {"label", "within_reach"}


def test_an_output_that_is_not_there_is_refused(by_grpc):
    request = request_of("text", {"text": [b"ab8"]})
    request.output_filter.append("answer")
    code, said = code_of(by_grpc.Predict, request)
    assert code == INVALID
    assert "answer" in said


def test_without_a_name_the_signature_is_the_default_one(by_grpc, exported):
    response = by_grpc.Predict(request_of("", inputs_of("serving_default", [exported.texts[5]])), timeout=SECONDS)
    assert_right(arrays_of(response), exported, [5])
    assert response.model_spec.signature_name == "serving_default"
    assert (response.model_spec.name, response.model_spec.version.value) == ("recall", 1)


def test_a_version_can_be_asked_for(by_grpc, exported):
    request = request_of("text", {"text": [exported.texts[5].encode()]})
    request.model_spec.version.value = 1
    assert_right(arrays_of(by_grpc.Predict(request, timeout=SECONDS)), exported, [5])


@pytest.mark.parametrize(("name", "version"), [("recal", None), ("", None), ("recall", 2), ("recall", 0)])
def test_another_model_or_version_is_not_found(name, version, by_grpc, served):
    request = request_of("text", {"text": [b"ab8"]}, name)
    status = get_model_status_pb2.GetModelStatusRequest()
    metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    for each in (request, status, metadata):
        each.model_spec.name = name
        if version is not None:
            each.model_spec.version.value = version
    by_status = model_service_pb2_grpc.ModelServiceStub(grpc.insecure_channel(served.grpc))
    expected = {NOT_FOUND} if name else {NOT_FOUND, INVALID}
    assert code_of(by_grpc.Predict, request)[0] in expected
    assert code_of(by_grpc.GetModelMetadata, metadata)[0] in expected
    assert code_of(by_status.GetModelStatus, status)[0] in expected


def test_a_signature_that_is_not_there_is_refused_by_name(by_grpc):
    code, said = code_of(by_grpc.Predict, request_of("texts", {"text": [b"ab8"]}))
    assert code in (INVALID, grpc.StatusCode.FAILED_PRECONDITION)
    assert "texts" in said


def test_the_metadata_tell_keys_types_and_shapes(by_grpc):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "recall"
    response = by_grpc.GetModelMetadata(request, timeout=SECONDS)
    found = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(found)
    assert response.model_spec.version.value == 1
    assert set(SIGNATURES) <= found.signature_def.keys()
    assert described(found.signature_def["text"].inputs) == {"text": ("string", [-1])}
    assert described(found.signature_def["text"].outputs) == {
        "scores": ("float32", [-1, 61]),
        "prediction": ("int64", [-1]),
        "label": ("string", [-1]),
        "num_readouts": ("int64", [-1]),
        "within_reach": ("bool", [-1]),
    }
    relations = ("next", "previous", "self", "_readout/target")
    assert described(found.signature_def["graph_tensors"].inputs) == {
        "char.symbol": ("int64", [-1, -1]),
        **{f"{name}.#edges": ("int64", [-1, -1, 2]) for name in relations},
        **{f"{name}.#size": ("int64", [-1]) for name in ("char", "_readout", *relations)},
    }
    assert described(found.signature_def["serving_default"].inputs) == {"examples": ("string", [-1])}


def described(infos):
    return {
        key: (tf.dtypes.as_dtype(info.dtype).name, [dim.size for dim in info.tensor_shape.dim])
        for key, info in infos.items()
    }


def test_the_status_is_available(served):
    by_status = model_service_pb2_grpc.ModelServiceStub(grpc.insecure_channel(served.grpc))
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "recall"
    (found,) = by_status.GetModelStatus(request, timeout=SECONDS).model_version_status
    assert (found.version, found.state) == (1, get_model_status_pb2.ModelVersionStatus.AVAILABLE)


@pytest.mark.parametrize("path", ["", "/v1/models/recall/versions/1"])
def test_rest_tells_the_status(path, rest):
    status, content = rest(path)
    assert status == 200
    (found,) = content["model_version_status"]
    assert (found["version"], found["state"], found["status"]["error_code"]) == ("1", "AVAILABLE", "OK")


@pytest.mark.parametrize("path", ["/metadata", "/v1/models/recall/versions/1/metadata"])
def test_rest_tells_the_metadata(path, rest):
    status, content = rest(path)
    assert status == 200
    assert content["model_spec"] == {"name": "recall", "signature_name": "", "version": "1"}
    signatures = content["metadata"]["signature_def"]["signature_def"]
    assert set(SIGNATURES) <= signatures.keys()
    scores = signatures["text"]["outputs"]["scores"]
    assert scores["dtype"] == "DT_FLOAT"
    assert [dim["size"] for dim in scores["tensor_shape"]["dim"]] == ["-1", "61"]


@pytest.mark.parametrize("path", [":predict", "/v1/models/recall/versions/1:predict"])
def test_rest_takes_rows_of_text(path, rest, exported):
    places = [1, 2, 3]
    texts = [exported.texts[place] for place in places]
    for rows in (
        texts,
        [{"text": text} for text in texts],
        [in_json(np.array([t.encode()], object))[0] for t in texts],
    ):
        status, content = rest(path, {"signature_name": "text", "instances": rows})
        assert status == 200, content
        assert len(content["predictions"]) == 3
        columns = {key: [row[key] for row in content["predictions"]] for key in content["predictions"][0]}
        assert_right(columns, exported, places)
        assert columns["within_reach"] == [len(text) - 1 <= exports.STEPS for text in texts]


def test_rest_takes_columns_of_text(rest, exported):
    texts = [exported.texts[place] for place in (1, 2)]
    for inputs in (texts, {"text": texts}):
        status, content = rest(":predict", {"signature_name": "text", "inputs": inputs})
        assert status == 200, content
        assert_right(content["outputs"], exported, [1, 2])


def test_rest_takes_examples_in_base_64(rest, exported):
    records = in_json(np.array(exports.records(exported.texts[7], exported.texts[8]), object))
    _, by_column = rest(":predict", {"inputs": {"examples": records}})
    assert_right(by_column["outputs"], exported, [7, 8])
    _, by_row = rest(":predict", {"instances": [{"examples": record} for record in records]})
    assert [row["label"] for row in by_row["predictions"]] == by_column["outputs"]["label"]


def test_rest_takes_plain_arrays_of_one_graph_as_a_row(rest, exported):
    row = {key: array[0].tolist() for key, array in exports.arrays(exported.texts[9]).items()}
    status, content = rest(":predict", {"signature_name": "graph_tensors", "instances": [row]})
    assert status == 200, content
    assert_right({key: [value] for key, value in content["predictions"][0].items()}, exported, [9])


@pytest.mark.parametrize(
    ("path", "body", "status", "part"),
    [
        (":predict", b"{", 400, ""),
        (":predict", [1], 400, ""),
        (":predict", {"signature_name": "text", "instances": ["a?b"]}, 400, "the character ? at place 1"),
        (":predict", {"signature_name": "texts", "instances": ["ab"]}, 400, "texts"),
        (":predict", {"signature_name": "text", "inputs": {"texts": ["ab"]}}, 400, "text"),
        (":predict", {"instances": [3]}, 400, ""),
        ("/v1/models/recal:predict", {"instances": ["ab"]}, 404, "recal"),
        ("/v1/models/recall/versions/7:predict", {"instances": ["ab"]}, 404, "7"),
    ],
)
def test_rest_says_what_is_wrong_in_json(path, body, status, part, rest):
    found, content = rest(path, body)
    assert found == status
    assert content.keys() == {"error"}
    assert part in content["error"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/models", "/v2/models/recall", "/v1/models/recall/weights", "/%00"])
def test_there_is_nothing_at_other_paths(path, rest):
    assert rest(path)[0] in (400, 404)
    assert rest(path, {"instances": ["ab"]})[0] in (400, 404, 405)


def test_a_connection_is_kept_over_answers_and_errors(rest, exported):
    first = None
    for place in range(6):
        text = "a?" if place % 2 else exported.texts[place]
        status, content = rest(":predict", {"signature_name": "text", "instances": [text]})
        assert status == (400 if place % 2 else 200), content
        first = first or rest.connection.sock
        assert rest.connection.sock is first


def test_answers_on_a_kept_connection_do_not_wait():
    """Not for Nagle's algorithm: 40 ms each, since the head and the body of an answer are sent one by one."""
    assert rest_interface._Handler.disable_nagle_algorithm


@pytest.mark.parametrize("which", ["grpc_port", "rest_port"])
def test_a_port_in_use_is_said(which, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        option = which.replace("_", "-")
        with (
            pytest.raises(ValueError, match=f"cannot be served: The port {port} .*--{option}"),
            serve(exports.tiny(tmp_path), **{which: port}),
        ):
            pass


def test_many_clients_at_once_get_right_answers(served, exported, record_property):
    clients, requests = 16, 125

    def prepare(client):
        """Half of the requests by gRPC and half by REST, for one to four graphs."""
        random = np.random.default_rng(client)
        prepared = []
        for number in range(requests):
            places = random.integers(0, len(exported.texts), random.integers(1, 5)).tolist()
            signature = SIGNATURES[random.integers(3)]
            inputs = inputs_of(signature, [exported.texts[place] for place in places])
            columns = {key: in_json(array) for key, array in inputs.items()}
            body = json.dumps({"signature_name": signature, "inputs": columns}).encode()
            prepared.append((places, body if number % 2 else request_of(signature, inputs)))
        return prepared

    def ask(prepared):
        by_grpc, rest = stub(served), Rest(served)
        answers = []
        for places, request in prepared:
            start = time.perf_counter()
            is_rest = isinstance(request, bytes)
            answer = rest(":predict", request) if is_rest else by_grpc.Predict(request, timeout=SECONDS)
            answers.append((places, answer, time.perf_counter() - start))
        return answers

    prepared = [prepare(client) for client in range(clients)]
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = [each for found in pool.map(ask, prepared) for each in found]
    seconds = time.perf_counter() - start
    assert len(answers) == 2000
    for places, answer, _ in answers:
        if isinstance(answer, tuple):
            assert answer[0] == 200, answer
        assert_right(answer[1]["outputs"] if isinstance(answer, tuple) else arrays_of(answer), exported, places)
    times = {kind: [t for _, answer, t in answers if isinstance(answer, kind)] for kind in (tuple, object)}
    for kind, name in ((object, "all"), (tuple, "REST")):
        p50, p99 = np.percentile(times[kind], [50, 99]) * 1000
        figures = f"{name}: {len(answers) / seconds:.0f} requests/s, p50 {p50:.1f} ms, p99 {p99:.1f} ms"
        record_property(name, figures)
        print(figures)
