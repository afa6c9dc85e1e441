"""A served model on real sockets, by TF Serving's protocols."""

import base64
import concurrent.futures
import http.client
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from sggnn_tf import schema as schemas
from sggnn_tf.serving.answers import live_answers
from sggnn_tf.serving.local import serve
from sggnn_tf.serving.runtime import rest as rest_interface
from tests.serving import exports

SECONDS = 30
OK, INVALID, NOT_FOUND = grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
OUTPUTS = {"scores", "prediction", "label", "num_readouts"}


class Served(NamedTuple):
    """Where a server is."""

    grpc: str
    rest: str  # HOST:PORT
    pid: int


class Exported(NamedTuple):
    """A version, and what the live model answers to all strings of `exports.texts`."""

    version: Path
    texts: list
    live: dict


@pytest.fixture(scope="module")
def exported():
    version, model = exports.recall()
    examples = exports.recall_examples()
    labels = schemas.vocabulary(examples.schema, "_readout", "label")
    live = live_answers(model, exports.served_schema(), examples.records, "_readout", labels, True)
    return Exported(version, exports.texts(), live)


@pytest.fixture(scope="module")
def local(exported):
    with serve(exported.version.parent) as server:
        yield Served(server.grpc, server.rest.removeprefix("http://"), server.process.pid)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def tf_serving(exported):
    program = shutil.which("tensorflow_model_server")
    if program is None:
        pytest.skip("There is no tensorflow_model_server on the PATH.")
    ports = free_port(), free_port()
    options = [f"--port={ports[0]}", f"--rest_api_port={ports[1]}", "--model_name=recall"]
    process = subprocess.Popen([program, *options, f"--model_base_path={exported.version.parent}"])
    served = Served(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}", process.pid)
    try:
        grpc.channel_ready_future(grpc.insecure_channel(served.grpc)).result(60)
        yield served
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module", params=["local", "tf_serving"])
def served(request):
    return request.getfixturevalue(request.param)


def stub(served):
    return prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(served.grpc))


@pytest.fixture(scope="module")
def by_grpc(served):
    return stub(served)


def request_of(signature, inputs, name="recall"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = name, signature
    for key, values in inputs.items():
        values = np.asarray(values)
        dtype = tf.string if values.dtype.kind in "OSU" else None
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype, values.shape))
    return request


def arrays_of(response):
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


def code_of(call, *arguments):
    """The status of a call, and what is said of it."""
    try:
        call(*arguments, timeout=SECONDS)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return OK, ""


class Rest:
    """Asks by REST, on a connection that is kept."""

    def __init__(self, served):
        self.connection = http.client.HTTPConnection(served.rest, timeout=SECONDS)

    def __call__(self, path="", body=None, method=None, headers=()):
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        path = path if path.startswith("/") and not path.startswith("/metadata") else f"/v1/models/recall{path}"
        self.connection.request(method or ("GET" if body is None else "POST"), path, content, dict(headers))
        response = self.connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.fixture
def rest(served):
    return Rest(served)


def assert_right(found, exported, places):
    assert found.keys() >= OUTPUTS
    np.testing.assert_allclose(found["scores"], exported.live["scores"][places], rtol=1e-4, atol=1e-4)
    assert np.asarray(found["prediction"]).tolist() == exported.live["prediction"][places].tolist()
    labels = [each if isinstance(each, str) else each.decode() for each in np.asarray(found["label"]).tolist()]
    assert labels == [each.decode() for each in exported.live["label"][places]]
    assert np.asarray(found["num_readouts"]).tolist() == [1] * len(places)


def inputs_of(signature, strings):
    if signature == "serving_default":
        return {"examples": np.array(exports.records(*strings), object)}
    if signature == "graph_tensors":
        return exports.arrays(*strings)
    return {"text": np.array([text.encode() for text in strings], object)}


SIGNATURES = ["serving_default", "graph_tensors", "text"]


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


def in_json(array):
    if array.dtype != object:
        return array.tolist()
    return [{"b64": base64.b64encode(each).decode()} for each in array]


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


def bad_examples(random):
    """Records of which one is wrong."""
    good = exports.records("ab8", "xYz12")
    key = sorted(tf.train.Example.FromString(good[1]).features.feature)[random.integers(13)]
    far = [int(random.choice([-1, 6, 61, 10**12, 2**62, -(2**63)]))]
    five = [0, 1, 2, 3, *far]
    bad = [
        good[1][: random.integers(0, len(good[1]))],
        random.bytes(random.integers(1, 200)),
        exports.changed(good[1], "nodes/char.symbol"),
        exports.changed(good[1], "nodes/char.symbol", [1, 2, 3, 4, -1]),
        exports.changed(good[1], "nodes/char.symbol", [1, 2, 61, 4, 1]),
        exports.changed(good[1], "nodes/char.symbol", range(random.integers(6, 50))),
        exports.changed(good[1], "nodes/char.#size", far),
        exports.changed(good[1], "nodes/char.#size", [5, 5]),
        exports.changed(good[1], "nodes/_readout.#size", [int(random.choice([0, 2, 10**12]))]),
        exports.changed(good[1], "edges/self.#source", five),
        exports.changed(good[1], "edges/self.#target", five),
        exports.changed(good[1], "edges/next.#size", far),
        exports.changed(good[1], key, [b"x"], "bytes_list"),
        exports.changed(good[1], "nodes/char.symbol", [float("nan")] * 5, "float_list"),
        b"",
    ]
    return {"examples": np.array([good[0], bad[random.integers(len(bad))]], object)}


def bad_arrays(random):
    """Arrays of which one is wrong."""
    arrays = {key: array.copy() for key, array in exports.arrays("ab8", "xYz12").items()}
    kind = random.integers(9)
    key = sorted(arrays)[random.integers(len(arrays))]
    far = random.choice([-1, 6, 10**12, 2**62, -(2**63)])
    if kind == 0:
        arrays["char.symbol"][1, 2] = random.choice([-1, 61, 2**62])
    elif kind == 1:
        arrays[random.choice(["next", "previous", "self"]) + ".#edges"][1, 0, random.integers(2)] = far
    elif kind == 2:
        arrays[random.choice([key for key in arrays if key.endswith("#size")])][1] = far
    elif kind == 3:
        arrays[key] = arrays[key][:1]
    elif kind == 4:
        arrays[key] = arrays[key].astype(random.choice([np.float32, np.float64, np.bool_]))
    elif kind == 5:
        arrays[key] = arrays[key][None]
    elif kind == 6:
        del arrays[key]
    elif kind == 7:
        arrays[key + "s"] = arrays[key]
    else:
        arrays[key] = np.full(arrays[key].shape, np.nan, np.float32)
    return arrays


def bad_texts(random):
    texts = ["?", "é", "a b", "日本", "Z", "", "a\x00b", "🙂", "a" * 3000 + "-"]
    return [exports.texts()[0], texts[random.integers(len(texts))]]


def bad_tensor(random):
    """A request whose tensor is not what it says that it is."""
    request = request_of("text", {"text": [b"ab8", b"a8"]})
    proto = request.inputs["text"]
    kind = random.integers(10)
    if kind == 0:
        proto.tensor_shape.dim[0].size = int(random.choice([3, 2**40, 2**62, -1]))
    elif kind == 1:
        proto.tensor_shape.dim.add(size=int(random.choice([2, 0, 2**62])))
    elif kind == 2:
        proto.tensor_shape.unknown_rank = True
    elif kind == 3:
        proto.dtype = int(random.choice([0, 3, 8, 14, 19, 20, 21, 101, 9999]))
    elif kind == 4:
        proto.tensor_content = random.bytes(16)
    elif kind == 5:
        del proto.tensor_shape.dim[:]
    elif kind == 6:
        request.inputs.clear()
    elif kind == 7:
        request.model_spec.signature_name = random.bytes(4).hex()
    elif kind == 8:
        request.output_filter.append(random.bytes(4).hex())
    else:
        request.CopyFrom(request_of("graph_tensors", exports.arrays("ab8")))
        dims = request.inputs["next.#edges"].tensor_shape.dim
        dims[0].size, dims[1].size = random.permutation([0, 2**62]).tolist()
        request.inputs["next.#edges"].tensor_content = b""
    return request


def malformed_grpc(random):
    """A request by gRPC that is wrong, and the status that it is to get."""
    kind = random.integers(8)
    if kind < 2:
        return request_of("", bad_examples(random)), INVALID
    if kind < 4:
        return request_of("graph_tensors", bad_arrays(random)), INVALID
    if kind == 4:
        return request_of("text", {"text": [text.encode() for text in bad_texts(random)]}), INVALID
    if kind == 5:
        broken = [random.bytes(random.integers(1, 50)) + b"\xff", b"ab\xff", b"\xc3", b"\xed\xa0\x80"]
        return request_of("text", {"text": [b"ab", broken[random.integers(4)]]}), INVALID
    if kind == 6:
        request = request_of("text", {"text": [b"ab"]}, random.choice(["recal", "recall2", "r/1"]))
        return request, NOT_FOUND
    return bad_tensor(random), INVALID


def deep(depth, opening, inner, closing):
    return (opening * depth + inner + closing * depth).encode()


def malformed_rest(random):
    """The path and the body of a request by REST that is wrong, and the status that it is to get."""
    whole = json.dumps({"signature_name": "text", "instances": ["ab8", "a8"]}).encode()
    depth = int(random.choice([30, 70, 500, 900, 5000, 100_000]))
    item = random.choice(
        ['"a', "NaN", "Infinity", "1e999", "1" * 5000, "null", "true", "{}", '{"b64": "?"}', "[]", "-"]
    )
    bodies = [
        whole[: random.integers(0, len(whole))],
        random.bytes(random.integers(0, 100)),
        deep(depth, "[", "1", "]"),
        b'{"inputs": ' + deep(depth, "[", '"a"', "]") + b', "signature_name": "text"}',
        b'{"inputs": ' + deep(depth, '{"a": ', "1", "}") + b', "signature_name": "text"}',
        b'{"inputs": ["ab", ' + deep(depth, '{"a": ', "1", "}") + b'], "signature_name": "text"}',
        b'{"instances": ["ab", ' + item.encode() + b'], "signature_name": "text"}',
        b'{"inputs": {"char.symbol": [[' + item.encode() + b']]}, "signature_name": "graph_tensors"}',
        b'{"instances": ["\\ud800"], "signature_name": "text"}',
        b'{"instances": ["ab"], "signature_name": ["text"]}',
        b'{"instances": ["ab"], "inputs": ["ab"], "signature_name": "text"}',
        b'{"instances": ["ab"], "signature_name": "text", "\\ud800": 1}',
        b'{"inputs": {"\\ud800": ["ab"]}, "signature_name": "text"}',
        b'{"instances": [], "signature_name": "text"}',
        b'{"inputs": [["ab"], ["ab", "b"]], "signature_name": "text"}',
        b'{"instances": [{"text": "ab"}, {"texts": "ab"}], "signature_name": "text"}',
        b'{"instances": [{"text": "ab"}, "ab"], "signature_name": "text"}',
        json.dumps({"signature_name": "text", "instances": bad_texts(random)}).encode(),
        json.dumps({"inputs": in_json(bad_examples(random)["examples"])}).encode(),
    ]
    arrays = {key: array.tolist() for key, array in bad_arrays(random).items()}
    bodies += [json.dumps({"signature_name": "graph_tensors", "inputs": arrays}).encode()] * 4
    paths = {
        ":predict": 400,
        ":classify": 400,
        "/v1/models/recal:predict": 404,
        "/v1/models/recall/versions/99999999999999999999:predict": 404,
        "/v1/models/:predict": 404,
    }
    path = random.choice(list(paths)) if random.random() < 0.1 else ":predict"
    return path, bodies[random.integers(len(bodies))], paths[path]


def resident_megabytes(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def assert_answers_still(local, exported):
    """Both ways, on new connections."""
    for signature in SIGNATURES:
        request = request_of(signature, inputs_of(signature, [exported.texts[11]]))
        assert_right(arrays_of(stub(local).Predict(request, timeout=SECONDS)), exported, [11])
    status, content = Rest(local)(":predict", {"signature_name": "text", "inputs": [exported.texts[11]]})
    assert status == 200
    assert_right(content["outputs"], exported, [11])


def test_a_thousand_malformed_requests_do_no_harm(local, exported):
    random = np.random.default_rng(7)
    by_grpc, rest = stub(local), Rest(local)
    good = request_of("text", {"text": [exported.texts[11].encode()]})
    before = resident_megabytes(local.pid)
    for number in range(1000):
        if number % 2:
            request, expected = malformed_grpc(random)
            code, said = code_of(by_grpc.Predict, request)
            assert code == expected, (number, said, str(request)[:1000])
            assert said, (number, str(request)[:1000])
        else:
            path, body, expected = malformed_rest(random)
            status, content = rest(path, body)
            assert status == expected, (number, content, path, body[:1000])
            assert content["error"], (number, path, body[:1000])
        assert_right(arrays_of(by_grpc.Predict(good, timeout=SECONDS)), exported, [11])
    assert_answers_still(local, exported)
    growth = resident_megabytes(local.pid) - before
    print(f"The server has grown by {growth:.0f} MB.")
    assert growth < 100


def test_examples_with_a_flipped_bit_are_answered_or_refused(local, exported):
    random = np.random.default_rng(8)
    by_grpc = stub(local)
    for _ in range(100):
        record = bytearray(exports.records("ab8cd")[0])
        record[random.integers(len(record))] ^= 1 << int(random.integers(8))
        code, said = code_of(by_grpc.Predict, request_of("", {"examples": np.array([bytes(record)], object)}))
        assert code in (OK, INVALID), said
    assert_answers_still(local, exported)


@pytest.mark.parametrize("signature", SIGNATURES)
def test_no_graphs_get_no_answers(signature, served):
    inputs = {key: array[:0] for key, array in inputs_of(signature, ["ab8"]).items()}
    found = arrays_of(stub(served).Predict(request_of(signature, inputs), timeout=SECONDS))
    assert found["scores"].shape == (0, 61)
    assert found["prediction"].shape == found["label"].shape == found["num_readouts"].shape == (0,)
    columns = {key: array.tolist() for key, array in inputs.items()}
    status, content = Rest(served)(":predict", {"signature_name": signature, "inputs": columns})
    assert status == 200, content
    assert all(value == [] for value in content["outputs"].values())


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_graph_of_ten_thousand_nodes_is_answered(signature, local, exported):
    before = resident_megabytes(local.pid)
    inputs = inputs_of(signature, ["ab8cD" * 2000])
    found = arrays_of(stub(local).Predict(request_of(signature, inputs), timeout=SECONDS))
    short = arrays_of(stub(local).Predict(request_of("text", {"text": [b"ab8cD" * 4]}), timeout=SECONDS))
    np.testing.assert_allclose(found["scores"], short["scores"], rtol=1e-4, atol=1e-4)
    assert_answers_still(local, exported)
    assert resident_megabytes(local.pid) - before < 100


def test_a_message_that_is_too_long_is_refused(local, exported):
    before = resident_megabytes(local.pid)
    request = request_of("text", {"text": [b"a" * (65 << 20)]})
    for _ in range(3):
        assert code_of(stub(local).Predict, request)[0] == FULL
    for _ in range(3):
        connection = http.client.HTTPConnection(local.rest, timeout=SECONDS)
        connection.putrequest("POST", "/v1/models/recall:predict")
        connection.putheader("Content-Length", str(65 << 20))
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 400
        assert str(65 << 20) in json.loads(response.read())["error"]
    assert_answers_still(local, exported)
    assert resident_megabytes(local.pid) - before < 100


@pytest.mark.parametrize("wrong", [b"\xff" * 40, b"\x0a\x7f", b"\xff" * 100_000, exports.records("ab" * 500)[0][:-5]])
def test_bytes_that_are_no_example_are_refused(wrong, local, exported):
    request = request_of("", {"examples": np.array([*exports.records("ab8"), wrong], object)})
    code, said = code_of(stub(local).Predict, request)
    assert code == INVALID, said
    status, content = Rest(local)(":predict", {"inputs": in_json(np.array([wrong], object))})
    assert status == 400
    assert content["error"]
    assert_answers_still(local, exported)


@pytest.mark.parametrize("length", ["", "-1", "3.5", "ten", "9" * 5000])
def test_a_length_that_is_none_is_refused(length, local, exported):
    connection = http.client.HTTPConnection(local.rest, timeout=SECONDS)
    connection.putrequest("POST", "/v1/models/recall:predict")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 400
    assert json.loads(response.read())["error"]
    assert_answers_still(local, exported)


@pytest.mark.parametrize("opening", ["[", '{"a": '])
def test_json_of_any_depth_is_refused(opening, local):
    """Around 1000 Python's own limit is near, at another place for each thing that is done with a value."""
    rest = Rest(local)
    closing = "]" if opening == "[" else "}"
    for depth in range(960, 1005):
        body = b'{"inputs": ["ab", ' + deep(depth, opening, "1", closing) + b'], "signature_name": "text"}'
        status, content = rest(":predict", body)
        assert status == 400, depth
        assert content["error"]


def test_bytes_that_are_no_request_do_no_harm(local, exported):
    """For a message that it cannot read, gRPC itself has a status, INTERNAL."""
    random = np.random.default_rng(9)
    call = grpc.insecure_channel(local.grpc).unary_unary("/tensorflow.serving.PredictionService/Predict")
    for _ in range(50):
        code, _ = code_of(call, random.bytes(random.integers(1, 300)))
        assert code in (grpc.StatusCode.INTERNAL, NOT_FOUND, INVALID)
    assert_answers_still(local, exported)


@pytest.mark.parametrize("method", ["Classify", "Regress", "MultiInference"])
def test_other_methods_of_the_protocol_are_not_there(method, local):
    call = grpc.insecure_channel(local.grpc).unary_unary(f"/tensorflow.serving.PredictionService/{method}")
    assert code_of(call, b"")[0] == grpc.StatusCode.UNIMPLEMENTED
