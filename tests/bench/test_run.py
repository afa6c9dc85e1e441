import io
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sggnn_tf.bench import cases, run, scaling, worker
from sggnn_tf.bench.flops import Product
from sggnn_tf.bench.timing import Times, gemm_rate, in_turn, seconds
from sggnn_tf.cli import app
from sggnn_tf.models import MODELS


def test_sides_take_turns():
    calls = []

    def side(name, taken):
        def run_once():
            calls.append(name)
            return next(taken)

        return run_once

    times = in_turn({"a": side("a", iter([1.0, 9.0, 2.0])), "b": side("b", iter([3.0, 3.0, 3.0]))}, 3)
    assert calls == ["a", "b"] * 3
    assert times == {"a": Times(2.0, 2.0), "b": Times(3.0, 0.0)}


def test_the_time_of_several_calls_is_their_mean():
    calls = []
    assert 0 < seconds(lambda: calls.append(1), 5) < 1
    assert len(calls) == 5


def test_the_rate_is_work_over_time():
    times = {Product(10, 10, 10): Times(1.0, 0), Product(20, 10, 10): Times(3.0, 0)}
    assert gemm_rate(times, together=1) == (2000 + 4000) / 4


def test_the_grid_is_all_combinations_and_quick_has_every_model():
    found = list(cases.grid(["tree_max"], ["rgcn", "ggnn"], [8], [2, 3], [4]))
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2
    assert {case.model for case in cases.quick()} == set(MODELS)
    assert {case.library for case in cases.quick()} == {"sggnn_tf"}


def test_every_peer_is_timed_beside_ours():
    found = list(cases.peers())
    assert len(set(found)) == len(found)
    assert {case.library for case in found} == {"sggnn_tf", "pytorch", "pyg", "tfgnn-keras2"}
    for case in found:
        if case.library == "pyg":
            assert case._replace(library="sggnn_tf") in found


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
    np.testing.assert_allclose(train["gflop"], 3 * predict["gflop"])
    assert train["padding"] == 1
    assert train["peak_mib"] >= 0


def test_the_command_writes_figures_and_a_picture(tmp_path, monkeypatch, result):
    monkeypatch.setattr(run, "run", lambda chosen, repetitions, report: result)
    arguments = ["bench", "--quick", "--out", str(tmp_path / "bench.json")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "rgcn" in done.output
    assert "conditional_recall, 8 units, batch 5" in done.output
    assert json.loads((tmp_path / "bench.json").read_text())["rows"] == result["rows"]
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_worker_runs_as_often_as_it_is_asked():
    told = io.StringIO()
    case = cases.Case("conditional_recall", "rgcn", 8, 2, 5, False, "predict")._asdict()
    worker.main(case, io.StringIO("run\nrun\nend\nrun\n"), told)
    about, first, second, end = map(json.loads, told.getvalue().splitlines())
    assert about["size"] == {"nodes": 50, "edges": 5 * (9 + 9 + 10), "relations": 3}
    assert first["seconds"] > 0
    assert second["seconds"] > 0
    assert end["peak_mib"] >= 0


def test_a_case_that_cannot_be_made_is_an_error_that_names_it():
    failing = worker.Worker(cases.Case("conditional_recall", "no-model", 8, 2, 5, False, "train")._asdict())
    with pytest.raises(ValueError, match=r"no-model.*could not be timed"):
        failing.answer()


def test_a_point_of_the_scaling_trains():
    point = scaling.Point(nodes=20, edges=41, relations=3, steps=2, units=4)
    graph = scaling.random_graph(point)
    assert sum(int(edges.total_size) for edges in graph.edge_sets.values()) == 41
    for recompute in (False, True):
        action = scaling.make(point._replace(recompute=recompute))
        losses = [action() for _ in range(20)]
        assert losses[-1] < losses[0]


def test_the_points_change_one_quantity_at_a_time():
    for axis, point in scaling.points():
        changed = {name for name, value in point._asdict().items() if value != getattr(scaling.Point(), name)}
        assert axis == "million edges" or changed <= {axis}


def test_the_scaling_command_draws(tmp_path, monkeypatch):
    rows = [
        {"axis": axis, **point._asdict(), "seconds": 1.0, "spread": 0.1, "compile_seconds": 1.0, "peak_mib": 10.0}
        for axis, point in scaling.points()
    ]
    monkeypatch.setattr(scaling, "run", lambda repetitions, report: rows)
    done = CliRunner().invoke(app, ["bench", "--scaling", "--out", str(tmp_path / "scaling.json")])
    assert done.exit_code == 0, done.output
    assert "million edges" in done.output
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--quick", "--peers"], "different benchmarks"),
        (["--quick", "--repetitions", "0"], "at least 1"),
        (["--tasks", "nothing"], "nothing"),
    ],
)
def test_bad_options_are_refused(arguments, error):
    done = CliRunner().invoke(app, ["bench", *arguments])
    assert done.exit_code != 0
    assert error in done.output + str(done.exception)
