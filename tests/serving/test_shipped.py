"""The models that come with the package: they load, are served, and are as good on new data as their cards say."""

import json
from pathlib import Path

import numpy as np
import pytest

from sggnn_tf import data, tasks
from sggnn_tf.data.codec import Codec
from sggnn_tf.serving import client
from sggnn_tf.serving.runtime.layout import CARD
from sggnn_tf.serving.verify import verify

ROOT = Path(__file__).parents[2] / "saved_models"
SHIPPED = sorted(path.parent for path in ROOT.glob(f"*/*/{CARD}"))
NEW_SEED = 2_000_003
GRAPHS = 200
MEBIBYTES_AT_MOST = 8


@pytest.mark.parametrize("version", SHIPPED, ids=lambda path: path.parent.name)
class TestShipped:
    def test_it_is_small_and_has_a_card(self, version):
        size = sum(path.stat().st_size for path in version.rglob("*") if path.is_file())
        assert size < MEBIBYTES_AT_MOST * 2**20
        page = (ROOT / "README.md").read_text()
        assert f"{version.parent.name}/{version.name}" in page

    def test_it_passes_its_check(self, version):
        assert verify(version) == []

    def test_on_new_data_it_is_as_good_as_its_card_says(self, version):
        card = json.loads((version / CARD).read_text())
        arguments = {**card["config"]["task_arguments"], "seed": NEW_SEED}
        task = tasks.make(card["config"]["task"], **arguments)
        assert card["config"]["seed"] != NEW_SEED
        graphs = [task.example(number) for number in range(GRAPHS)]
        codec = Codec(data.task_schema(task))
        with client.connect(str(version)) as server:
            answers = client.ask_records(server, [codec.encode(graph) for graph in graphs])
        right = [
            np.equal(answer.predictions, graph.nodes["_readout"]["label"])
            for answer, graph in zip(answers, graphs, strict=True)
        ]
        said = card["metrics"]["test"]
        nodes, whole = np.concatenate(right), np.array([each.all() for each in right])
        for found, key in ((nodes, "accuracy"), (whole, "graph_accuracy")):
            noise = np.sqrt(said[key] * (1 - said[key]) / GRAPHS) + 1 / GRAPHS
            assert found.mean() > said[key] - 3 * noise, key
