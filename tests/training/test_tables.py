import json

import pytest

from sggnn_tf import training
from sggnn_tf.training import cells, tables


def result(task, seed, accuracy, graph_accuracy=0.0, **arguments):
    config = training.for_task(task, "rgcn", seed=seed, task_arguments=arguments).to_dict()
    right = {"accuracy": accuracy, "graph_accuracy": graph_accuracy}
    return {"config": config, "valid": right, "test": right}


def test_cells_are_the_grid_the_shortest_first():
    grid = list(tables.recall_cells(["rgcn", "rgat"], [3, 5], [1, 2], [20, 50]))
    assert len(grid) == 16
    assert len({cell.path(tables.Path("x")) for cell in grid}) == 16
    assert [cell.task_arguments["length"] for cell in grid] == [3] * 8 + [5] * 8
    assert grid[0].path(tables.Path("x")).as_posix() == "x/conditional_recall/rgcn/length3-seed1.json"
    assert len(list(tables.tree_cells(["ggnn"], tables.SEEDS))) == 5


def test_a_model_with_depths_to_choose_from_has_a_cell_for_each():
    grid = list(tables.tree_cells(["rgcn", "ggnn"], [1], {"epochs": 2}))
    assert [cell.variant for cell in grid] == ["steps4", "steps7", "steps12", "steps17", "default"]
    assert grid[1].settings == {"steps": 7, "epochs": 2}
    assert grid[4].settings == {"epochs": 2}


def test_a_cell_that_is_done_is_not_run_again_and_the_others_are(tmp_path, monkeypatch):
    ran = []

    def train(config, workdir, **options):
        ran.append((config.model, config.seed, config.epochs))
        return {"config": config.to_dict(), "test": {"accuracy": 0.5}}

    monkeypatch.setattr(cells, "train", train)
    grid = list(tables.recall_cells(["rgcn"], [3], [1, 2], settings={"epochs": 7}))
    cells.run_cells(grid[:1], tmp_path / "results", tmp_path / "runs")
    cells.run_cells(grid, tmp_path / "results", tmp_path / "runs")
    assert ran == [("rgcn", 1, 7), ("rgcn", 2, 7)]


def test_a_table_has_mean_spread_and_the_value_of_the_paper(tmp_path):
    folder = tmp_path / "conditional_recall" / "rgcn"
    folder.mkdir(parents=True)
    for name, content in {
        "length10-seed1": result("conditional_recall", 1, 0.1, length=10),
        "length3-seed1": result("conditional_recall", 1, 0.9, length=3),
        "length3-seed2": result("conditional_recall", 2, 0.8, length=3),
        "length3-examples50-seed2": result("conditional_recall", 2, 1.0, length=3, examples_per_class=50),
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    entries = tables.read_table("conditional_recall", tmp_path)
    assert [entry.column for entry in entries] == ["T = 3", "T = 3, 50 each", "T = 10"]
    assert entries[0].mean == pytest.approx(85)
    assert entries[0].spread == pytest.approx(7.0710678)
    assert [entry.paper for entry in entries] == [96.7, None, 6.6]
    assert entries[2].spread == 0


def test_trees_have_nodes_and_graphs(tmp_path):
    folder = tmp_path / "tree_max" / "rgcn"
    folder.mkdir(parents=True)
    (folder / "default-seed1.json").write_text(json.dumps(result("tree_max", 1, 0.95, 0.3)))
    node, graph = tables.read_table("tree_max", tmp_path)
    assert (node.column, node.values, node.paper) == ("node", (95.0,), 95.7)
    assert (graph.column, graph.values, graph.paper) == ("graph", (30.0,), 31.7)


def test_a_cell_that_another_process_has_taken_is_left_to_it(tmp_path, monkeypatch):
    ran = []

    def train(config, workdir, **options):
        if config.seed == 1:
            raise cells.RunInUseError("Another run is using it.")
        ran.append(config.seed)
        return {"config": config.to_dict(), "test": {"accuracy": 0.5}}

    monkeypatch.setattr(cells, "train", train)
    grid = list(tables.recall_cells(["rgcn"], [3], [1, 2]))
    cells.run_cells(grid, tmp_path / "results", tmp_path / "runs")
    assert ran == [2]
    assert [cell.path(tmp_path / "results").exists() for cell in grid] == [False, True]


def test_warm_cells_start_from_the_runs_of_a_shorter_length(tmp_path):
    folder = tmp_path / "conditional_recall" / "rgcn" / "length10-seed1"
    folder.mkdir(parents=True)
    config = training.for_task("conditional_recall", "rgcn", seed=1, task_arguments={"length": 10}, units=24)
    (folder / "config.json").write_text(json.dumps({"config": config.to_dict()}))
    (cell,) = tables.warm_cells(["rgcn"], [20], [1], 10, tmp_path, {"epochs": 3})
    assert cell.variant == "length20-from10"
    of_start = {"units": 24, "patience": 30, **config.switches}
    assert cell.settings == {"start_from": folder.as_posix(), **of_start, "epochs": 3}
    assert cell.task_arguments == {"length": 20}
    with pytest.raises(ValueError, match="There is no run in"):
        list(tables.warm_cells(["rgcn"], [20], [2], 10, tmp_path))
