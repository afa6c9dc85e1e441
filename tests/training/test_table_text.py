import json

import pytest

from sggnn_tf import training
from sggnn_tf.tasks import TreeMax, tree_max_order
from sggnn_tf.training import table_pictures, table_text


def put(folder, task, model, variant, seed, accuracy, graph_accuracy=0.0, **settings):
    arguments = settings.pop("task_arguments", {})
    config = training.for_task(task, model, seed=seed, task_arguments=arguments, **settings).to_dict()
    hops = {"0": {"questions": 30, "accuracy": 1.0}, "5": {"questions": 10, "accuracy": accuracy}}
    test = {"accuracy": accuracy, "graph_accuracy": graph_accuracy, "by_hops": hops}
    result = {"config": config, "valid": {"accuracy": accuracy}, "test": test}
    path = folder / task / model / f"{variant}-seed{seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))


@pytest.fixture
def results(tmp_path):
    for seed, accuracy in ((1, 0.8), (2, 0.9)):
        put(tmp_path, "conditional_recall", "rgcn", "length3", seed, accuracy, task_arguments={"length": 3})
    put(tmp_path, "conditional_recall", "sggnn-rv-gat", "length10", 1, 1.0, task_arguments={"length": 10})
    put(
        tmp_path,
        "conditional_recall",
        "sggnn-rv-gat",
        "length20-from10",
        1,
        0.75,
        task_arguments={"length": 20},
        start_from="runs/tables/conditional_recall/sggnn-rv-gat/length10-seed1",
    )
    longer = {"longer": [{"task_arguments": {"length": n}, "test": {"accuracy": 1 / n}} for n in (2, 4)]}
    (tmp_path / "conditional_recall" / "rgcn" / "longer10-seed1.json").write_text(json.dumps(longer))
    measured = {"0": {"radius": 1.25, "by_hop": {"0": 1.0, "2": 0.001}}}
    reach = {"task": "conditional_recall", "task_arguments": {"length": 3}, "reach": {"rgcn": measured}}
    (tmp_path / "conditional_recall" / "reach.json").write_text(json.dumps(reach))
    put(tmp_path, "tree_max", "ggnn", "default", 1, 0.5, 0.25)
    return tmp_path


def rows(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_the_table_has_the_paper_beside_it_and_a_cell_without_results_is_empty(results):
    assert rows(table_text.main_table("conditional_recall", results)) == [
        ["% right", "T = 3", "paper", "T = 10", "paper"],
        ["---"] * 5,
        ["`rgcn`", "85.0 ± 7.1 (2)", "96.7", "", ""],
        ["`sggnn-rv-gat`", "", "", "100.0 (1)", "96.7"],
    ]
    assert rows(table_text.main_table("tree_max", results))[2] == ["`ggnn`", "50.0 (1)", "97.0", "25.0 (1)", "40.6"]


def test_what_the_paper_does_not_have_is_apart(results):
    assert rows(table_text.further_table("conditional_recall", results))[2:] == [
        ["`sggnn-rv-gat`", "T = 20, from T = 10", "75.0", "1"]
    ]


def test_hops_are_in_groups_over_all_seeds(results):
    head, _, rgcn, _ = rows(table_text.hops_table("conditional_recall", results))
    assert head[:2] == ["hops to the answer", "0"]
    assert rgcn[1:] == ["100.0", "", "", "", "85.0", "", ""]


def test_longer_examples_and_reach_are_tables(results):
    assert rows(table_text.longer_table("conditional_recall", results))[2] == ["`rgcn`", "50.0", "25.0"]
    assert rows(table_text.reach_table("conditional_recall", results)) == [
        ["model", "norm at 2 hops, start", "radius, start"],
        ["---"] * 3,
        ["`rgcn`", "1.0e-03", "1.25"],
    ]


def test_the_recipe_says_what_is_shared_and_what_is_a_models_own(results):
    found = dict(rows(table_text.recipe_table("conditional_recall", results))[2:])
    assert found["`label_smoothing`"] == "0.1"
    assert found["`units`"].endswith("`sggnn-rv-gat`")
    assert "`start_from`" not in found
    assert "`gate_bias`" in found


def test_trials_of_a_search_are_a_table(results):
    put(results / "search", "conditional_recall", "rgcn", "length7-trial000", 1, 0.625, dropout=0.4)
    head, _, row = rows(table_text.search_table("conditional_recall", results))
    assert head == ["% right on valid", "`rgcn`"]
    assert row[0].startswith("dropout 0.4, ")
    assert row[1] == "62.5"
    assert "weight_decay" not in row[0]


def test_what_a_trial_had_beyond_the_ranges_is_named(results):
    for number, decay in enumerate((0.0, 0.5)):
        put(results / "search", "conditional_recall", "rgcn", f"length7-trial{number:03d}", 1, 0.5, weight_decay=decay)
    _, _, without, with_decay = rows(table_text.search_table("conditional_recall", results))
    assert without[0].endswith("weight_decay 0.0")
    assert with_decay[0].endswith("weight_decay 0.5")


def test_the_length_of_a_trial_is_named_where_there_are_several(results):
    for length in (5, 7):
        name, arguments = f"length{length}-trial000", {"length": length}
        put(results / "search", "conditional_recall", "rgcn", name, 1, 0.5, task_arguments=arguments)
    found = rows(table_text.search_table("conditional_recall", results))[2:]
    assert [row[0].rpartition(", ")[2] for row in found] == ["length 5", "length 7"]


def test_a_trial_of_a_task_without_arguments_is_found(results):
    put(results / "search", "tree_max", "ggnn", "trial000", 1, 0.75, dropout=0.25)
    assert rows(table_text.search_table("tree_max", results))[2:] == [["dropout 0.25", "75.0"]]


def test_of_several_depths_the_best_on_valid_is_in_the_table(results):
    for steps, accuracy in ((4, 0.5), (7, 0.75), (12, 0.625)):
        put(results, "tree_max", "rgcn", f"steps{steps}", 1, accuracy, accuracy / 2, steps=steps)
    assert rows(table_text.main_table("tree_max", results))[2] == ["`rgcn`", "75.0 (1)", "95.7", "37.5 (1)", "31.7"]
    assert rows(table_text.hops_table("tree_max", results))[2][5] == "75.0"
    assert rows(table_text.depths_table("tree_max", results))[2:] == [
        ["`rgcn`", "4", "50.0", "50.0", "25.0"],
        ["`rgcn`", "**7**", "75.0", "75.0", "37.5"],
        ["`rgcn`", "12", "62.5", "62.5", "31.2"],
    ]


def test_what_training_trees_tell_is_beside_what_is_right(results):
    arguments = {"trees": 40, "max_value": 20}
    put(results, "tree_max", "sggnn-rv-gat", "default", 3, 0.5, 0.25, task_arguments=arguments)
    _, _, row = rows(table_text.told_table("tree_max", results))
    ways = (tree_max_order.answers_told, tree_max_order.answers_ranked)
    shares = tree_max_order.shares(TreeMax(seed=3, **arguments), *ways)
    assert row == ["3", *(f"{100 * nodes:.2f} / {100 * trees:.1f}" for nodes, trees in shares), "50.00 / 25.0"]


def test_single_runs_are_a_table_by_seed(results):
    runs = [{"what": "as printed", "seed": seed, "right": [0.5, 0.25]} for seed in (2, 3)]
    runs.append({"what": "two heads", "seed": 3, "right": [1.0, 0.875]})
    (results / "conditional_recall" / "development.json").write_text(json.dumps({"runs": runs}))
    assert rows(table_text.development_table("conditional_recall", results)) == [
        ["", "seed 2", "seed 3"],
        ["---"] * 3,
        ["as printed", "50.0 / 25.0", "50.0 / 25.0"],
        ["two heads", "", "100.0 / 87.5"],
    ]


def test_bars_are_of_the_papers_table_or_of_all_where_there_is_none_of_it(results):
    columns = {entry[1] for entry in table_pictures.shown("conditional_recall", results)["conditional_recall.png"]}
    assert columns == {"T = 3", "T = 10"}
    for path in (results / "conditional_recall").glob("*/length[31]*-seed*.json"):
        path.unlink()
    columns = {entry[1] for entry in table_pictures.shown("conditional_recall", results)["conditional_recall.png"]}
    assert columns == {"T = 20, from T = 10"}


def test_a_page_is_made_anew_between_its_marks_only(results):
    page = "# A\n<!-- sggnn tables tree_max: table -->\nold\n<!-- end -->\nB\n<!-- sggnn tables x: y -->\n"
    made = table_text.rewrite(page, results)
    assert made.startswith("# A\n<!-- sggnn tables tree_max: table -->\n| % right |")
    assert made.endswith("<!-- end -->\nB\n<!-- sggnn tables x: y -->\n")
    assert table_text.rewrite(made, results) == made
    assert table_text.rewrite(page, results, "conditional_recall") == page
    with pytest.raises(ValueError, match="There is no part 'tabel'"):
        table_text.rewrite(page.replace(": table", ": tabel"), results)


def test_pictures_say_what_they_show(results, tmp_path):
    from PIL import Image

    drawn = table_pictures.draw_all("conditional_recall", results)
    names = ["conditional_recall.png", "conditional_recall_longer.png", "conditional_recall_reach.png"]
    assert [path.name for path in drawn] == names
    shown = table_pictures.shown("conditional_recall", results)
    for path in drawn:
        with Image.open(path) as picture:
            assert json.loads(picture.text["Description"]) == shown[path.name]
            assert min(picture.size) > 300
