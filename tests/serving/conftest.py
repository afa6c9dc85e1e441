import shutil
import subprocess

import grpc
import pytest

from sggnn_tf import schema as schemas
from sggnn_tf.serving.answers import live_answers
from sggnn_tf.serving.local import serve
from tests.serving import exports
from tests.serving.servers import Exported, Rest, Served, free_port, stub


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


@pytest.fixture(scope="module")
def by_grpc(served):
    return stub(served)


@pytest.fixture
def rest(served):
    return Rest(served)
