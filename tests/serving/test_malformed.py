"""Malformed requests: each is refused, and does no harm."""

import http.client
import json
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf

from tests.serving import exports
from tests.serving.servers import (
    FULL,
    INVALID,
    NOT_FOUND,
    OK,
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
