import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sggnn_tf.bench import cases, run
from sggnn_tf.bench.flops import Product
from sggnn_tf.bench.timing import Times, gemm_rate, in_turn
from sggnn_tf.cli import app
from sggnn_tf.models import MODELS


def test_actions_take_turns_after_a_first_call_of_each():
    calls = []
    times = in_turn({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert calls == ["a", "b"] * 4
    assert all(time.median > 0 and time.first >= 0 for time in times.values())


def test_the_rate_is_work_over_time():
    times = {Product(10, 10, 10): Times(1.0, 0, 0), Product(20, 10, 10): Times(3.0, 0, 0)}
    assert gemm_rate(times, together=1) == (2000 + 4000) / 4


def test_the_grid_is_all_combinations_and_quick_has_every_model():
    found = list(cases.grid(["tree_max"], ["rgcn", "ggnn"], [8], [2, 3], [4]))
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2
    assert {case.model for case in cases.quick()} == set(MODELS)


@pytest.fixture(scope="module")
def result():
    chosen = [cases.Case("conditional_recall", "rgcn", 8, 2, 5, False, mode) for mode in ("train", "predict")]
    return run.run(chosen, 2)


def test_a_row_says_what_was_timed_and_how_fast_it_was(result):
    train, predict = result["rows"]
    assert (train["mode"], predict["mode"]) == ("train", "predict")
    np.testing.assert_allclose(train["graphs_per_second"] * train["seconds"], 5)
    np.testing.assert_allclose(train["nodes_per_second"] * train["seconds"], 50)
    np.testing.assert_allclose(train["edges_per_second"] * train["seconds"], 5 * (9 + 9 + 10))
    np.testing.assert_allclose(train["of_gemm"], train["gflops"] / train["gemm_gflops"])
    assert train["padding"] == 1


def test_the_command_writes_figures_and_a_picture(tmp_path, monkeypatch, result):
    monkeypatch.setattr(run, "run", lambda chosen, repetitions, report: result)
    arguments = ["bench", "--quick", "--out", str(tmp_path / "bench.json")]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "rgcn" in done.output
    assert json.loads((tmp_path / "bench.json").read_text())["rows"] == result["rows"]
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
