"""The commands that train and what they say; the training itself is left out."""

import json
import re

import pytest
from typer.testing import CliRunner

from sggnn_tf import training
from sggnn_tf.cli import app
from sggnn_tf.training import cells

COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


def figures(accuracy, questions=200, graphs=200):
    return {
        "questions": questions,
        "accuracy": accuracy,
        "graphs": graphs,
        "graph_accuracy": 0.25,
        "floors": {"most common answer": 0.02},
        "by_hops": {"0": {"questions": 150, "accuracy": 0.9}, "1": {"questions": 50, "accuracy": 0.1}},
    }


def result_of(config, valid, test):
    epoch = {"loss": 1.0, "accuracy": 0.5, "val_loss": 1.25, "val_accuracy": valid, "seconds": 1.0}
    return {
        "config": config.to_dict(),
        "versions": {},
        "parameters": 100,
        "epochs": 1,
        "best_epoch": 1,
        "seconds": 1.0,
        "history": [epoch],
        "valid": figures(valid),
        "test": figures(test),
    }


class Training:
    """Stands for `train`: keeps what it was called with, and does what it is told to."""

    def __init__(self):
        self.calls = []
        self.then = lambda config: result_of(config, 0.625, 0.75)

    def train(self, config, workdir, *, resume=False, callbacks=()):
        self.calls.append((config, workdir, resume))
        return self.then(config)

    def stop_by(self, error):
        def then(config):
            raise error

        self.then = then


@pytest.fixture
def fake(monkeypatch, tmp_path):
    fake = Training()
    monkeypatch.setattr(training, "train", fake.train)
    monkeypatch.setattr(cells, "train", fake.train)
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: sggnn {command}" in result.output


def test_help_lists_all_commands():
    assert {"dataset", "train", "evaluate", "tables", "search", "report"} <= set(COMMANDS)
    listed = CliRunner().invoke(app, ["--help"]).output
    assert [command for command in COMMANDS if f"│ {command} " not in listed] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "tree_mx"],
            "There is no task 'tree_mx'; there are conditional_recall, tree_max. Did you mean tree_max?",
        ),
        (["train", "tree_max", "--model", "sgnn-rv"], "There is no model 'sgnn-rv'. Did you mean 'sggnn-rv-gat'?"),
        (["train", "--data", "x", "--model", "rgc"], "There is no model 'rgc'. Did you mean 'rgcn'?"),
        (["train", "tree_max", "--switch", "gate_bia=3"], "no switch 'gate_bia'; it has candidate_bias, dropout, gate"),
        (["train", "tree_max", "--switch", "gate_bias"], "--switch is 'gate_bias'; it has to be NAME=VALUE"),
        (["train", "tree_max", "--argument", "tres=4"], "no argument 'tres'; it has seed, trees"),
        (["train", "tree_max", "--length", "4"], "no argument 'length'"),
        (["train", "tree_max", "--data", "x"], "Give a task or a folder with --data, and not both"),
        (["train"], "Give a task or a folder with --data, and not both"),
        (["train", "--resume"], "--resume needs --workdir"),
        (["train", "--resume", "--workdir", "nowhere"], "There is no run in nowhere"),
        (["train", "tree_max", "--devices", "3"], "it has to be a multiple of the 3 devices"),
        (["train", "tree_max", "--devices", "5", "--jit"], "--no-jit"),
        (["evaluate", "nowhere"], "There is no run in nowhere: it has no config.json"),
        (["tables", "tree_mx"], "Did you mean tree_max?"),
        (["tables", "tree_max", "--models", "rgcn,rgt"], "Did you mean 'rgat'?"),
        (["tables", "conditional_recall", "--seeds", "1;2"], "--seeds is '1;2'; it has to be whole numbers"),
        (["tables", "tree_max", "--from", "."], "There are no results of tree_max in ."),
        (["tables", "tree_max", "--from", "nowhere"], "There are no results of tree_max in nowhere"),
        (["search", "tree_max", "--seed", "12345678"], "The seed 12345678 is one of the tables'"),
        (["search", "tree_max", "--trials", "0"], "--trials is 0"),
        (["search", "tree_max", "--models", "rgt"], "Did you mean 'rgat'?"),
        (["report", "nowhere"], "There is no folder nowhere"),
        (["report", "."], "holds no run"),
        (["report", "runs/[old]"], "There is no folder runs/[old]"),
        (["report", "[/old]"], "There is no folder [/old]"),
        (["train", "tree_max", "--switch", "epochs=3"], "no switch 'epochs'"),
        (["train", "tree_max", "--switch", "task=3"], "no switch 'task'"),
        (["train", "tree_max", "--argument", "trees=many"], "trees is 'many'"),
        (["train", "--data", "x", "--length", "4"], "--length"),
        (["train", "tree_max", "--schema", "x"], "--schema"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(arguments, message, run, fake):
    code, _, said = run(*arguments)
    assert code == 2
    assert said.startswith("Error: ")
    assert message in said
    assert not fake.calls


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(["train", "tree_max", "--epoch", "3"], "--epochs"), (["tables", "tree_max", "--seed", "3"], "--seeds")],
)
def test_an_unknown_option_is_refused_with_the_nearest(arguments, near, run, fake):
    code, _, said = run(*arguments)
    assert code == 2
    assert f"No such option: {arguments[2]}" in said
    assert f"{near})" in said.split("No such option:")[1]
    assert not fake.calls


def test_an_unknown_command_is_refused_with_the_nearest(run):
    code, _, said = run("trian")
    assert code == 2
    assert "No such command 'trian'. Did you mean 'train'?" in said


def test_a_long_name_is_not_broken(run, tmp_path):
    folder = tmp_path / ("a_long_name_" * 8)
    _, _, said = run("report", folder)
    assert said == f"Error: There is no folder {folder}."


def test_every_option_reaches_the_run(fake, tmp_path):
    options = (
        "--model sggnn-rv-gat --length 4 --argument letters=62 --units 8 --steps 2 --dropout 0.2 "
        "--switch gate_bias=1.5 --switch candidate_bias=false --seed 3 --epochs 2 --patience 4 --batch-size 6 "
        "--learning-rate 0.01 --schedule constant --warmup 1 --clip-norm 2 --node-dropout 0.3 "
        "--embedding-stddev 0.5 --embedding-gain 3 --weight-decay 0.5 --start-from there "
        "--accumulate 2 --jit --precision mixed_bfloat16 --workdir here"
    )
    result = CliRunner().invoke(app, ["train", "conditional_recall", *options.split()])
    assert result.exit_code == 0, result.output
    ((config, workdir, resume),) = fake.calls
    assert (str(workdir), resume) == ("here", False)
    assert config == training.for_task(
        "conditional_recall",
        "sggnn-rv-gat",
        task_arguments={"length": 4, "letters": 62},
        units=8,
        steps=2,
        dropout=0.2,
        gate_bias=1.5,
        candidate_bias=False,
        seed=3,
        epochs=2,
        patience=4,
        batch_size=6,
        learning_rate=0.01,
        schedule="constant",
        warmup=1,
        clip_norm=2.0,
        node_dropout=0.3,
        embedding_stddev=0.5,
        embedding_gain=3.0,
        weight_decay=0.5,
        start_from="there",
        accumulate=2,
        jit=True,
        precision="mixed_bfloat16",
    )
    assert config.switches["candidate_bias"] is False


def test_what_is_not_given_is_the_recipe(fake):
    assert CliRunner().invoke(app, ["train", "tree_max", "--model", "rgat"]).exit_code == 0
    ((config, workdir, _),) = fake.calls
    assert config == training.for_task("tree_max", "rgat")
    assert workdir.as_posix() == "runs/tree_max-rgat-seed0"


def test_options_for_records_reach_the_run(fake):
    options = "--data some/grid --schema grid.pbtxt --label station/fails --ignore station/name --ignore feeds/since"
    result = CliRunner().invoke(app, ["train", *options.split(), "--devices", "4"])
    assert result.exit_code == 0, result.output
    ((config, workdir, _),) = fake.calls
    assert (config.data, config.schema, config.label) == ("some/grid", "grid.pbtxt", "station/fails")
    assert list(config.ignore) == ["station/name", "feeds/since"]
    assert config.devices == 4
    assert workdir.as_posix() == "runs/grid-sggnn-rv-gat-seed0"


def test_train_prints_the_result_of_test(fake, run):
    code, said, _ = run("train", "conditional_recall", "--workdir", "here")
    assert code == 0
    assert "on conditional_recall: here" in said
    assert "75.0% of 200 test questions right (without a model: most common answer 2.0%)" in said
    assert "│ 1 │ 50 │ 10.0% │" in said
    assert "graphs all right" not in said


def test_train_prints_graphs_if_they_have_several_questions(fake, run):
    fake.then = lambda config: {**result_of(config, 0.6, 0.7), "test": figures(0.7, questions=1200, graphs=40)}
    _, said, _ = run("train", "tree_max")
    assert "70.0% of 1,200 test questions right, 25.0% of 40 graphs all right" in said


def test_train_prints_valid_if_there_is_no_test(fake, run):
    fake.then = lambda config: {name: each for name, each in result_of(config, 0.6, 0.7).items() if name != "test"}
    _, said, _ = run("train", "--data", "grid", "--label", "station/fails")
    assert "60.0% of 200 valid questions right" in said


def test_train_prints_json_and_nothing_else(fake):
    result = CliRunner().invoke(app, ["train", "tree_max", "--json"])
    assert json.loads(result.stdout) == fake.then(fake.calls[0][0])


@pytest.fixture
def begun(tmp_path):
    """A folder with the settings of a run."""
    config = training.for_task("tree_max", "rgcn", epochs=7, seed=5)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.json").write_text(json.dumps({"config": config.to_dict(), "versions": {}}))
    return tmp_path / "begun"


def test_resume_needs_nothing_but_the_folder(fake, begun):
    assert CliRunner().invoke(app, ["train", "--resume", "--workdir", str(begun)]).exit_code == 0
    ((config, workdir, resume),) = fake.calls
    assert config.to_dict() == json.loads((begun / "config.json").read_text())["config"]
    assert (workdir, resume) == (begun, True)


def test_resume_does_not_pass_over_settings_that_are_given(fake, begun, run):
    code, _, said = run("train", "--resume", "--workdir", begun, "--epochs", "50")
    assert code == 2
    assert "epochs" in said
    assert not fake.calls


def test_a_run_that_is_stopped_says_how_to_go_on(fake, run):
    fake.stop_by(KeyboardInterrupt())
    code, said, _ = run("train", "conditional_recall")
    assert code == 130
    folder = "runs/conditional_recall-sggnn-rv-gat-seed0"
    assert said.endswith(f"All whole epochs are kept; to go on: sggnn train --resume --workdir {folder}")


def test_the_command_to_go_on_is_on_one_line(fake):
    fake.stop_by(KeyboardInterrupt())
    output = CliRunner().invoke(app, ["train", "conditional_recall"]).output
    folder = "runs/conditional_recall-sggnn-rv-gat-seed0"
    assert any(line.endswith(f"sggnn train --resume --workdir {folder}") for line in output.splitlines())


@pytest.mark.parametrize("command", [["train", "tree_max"], ["tables", "tree_max"], ["search", "tree_max"]])
def test_a_loss_that_is_no_number_gives_advice(command, fake, run):
    fake.stop_by(training.TrainingStoppedError("The loss is not a number any more. Try a smaller learning rate."))
    code, _, said = run(*command)
    assert code == 2
    assert "Error: The loss is not a number any more. Try a smaller learning rate." in said
    assert len(fake.calls) == 1


@pytest.mark.parametrize("command", ["tables", "search"])
def test_many_runs_that_are_stopped_say_how_to_go_on(command, fake, run):
    fake.stop_by(KeyboardInterrupt())
    code, said, _ = run(command, "tree_max", "--models", "rgcn,ggnn")
    assert code == 130
    assert "Stopped. All whole epochs are kept; the same command goes on." in said
    assert len(fake.calls) == 1


def test_evaluate_prints_what_it_measures(monkeypatch, run):
    monkeypatch.setattr(training, "evaluate", lambda workdir: {"valid": figures(0.5), "test": figures(0.875)})
    code, said, _ = run("evaluate", "here")
    assert code == 0
    assert "87.5% of 200 test questions right" in said
    assert json.loads(CliRunner().invoke(app, ["evaluate", "here", "--json"]).stdout)["valid"]["accuracy"] == 0.5


GRID = ["--models", "rgcn,rgat", "--lengths", "3", "--seeds", "1,2", "--epochs", "4", "--out", "out"]
TABLE = ["tables", "conditional_recall", *GRID]


def test_tables_has_the_mean_over_seeds_beside_the_paper_and_draws_it(fake, run, tmp_path):
    fake.then = lambda config: result_of(config, 0.1, 0.9 if config.seed == 1 else 0.8)
    code, said, _ = run(*TABLE)
    assert code == 0
    assert "│ rgcn │ 85.0 ± 7.1 (2) | 96.7 │" in said
    assert "│ rgat │ 85.0 ± 7.1 (2) | 96.7 │" in said
    assert "│ ggnn │ │" in said
    assert (tmp_path / "out" / "conditional_recall.png").read_bytes().startswith(b"\x89PNG")
    assert [(config.model, config.seed, config.epochs) for config, _, _ in fake.calls] == [
        ("rgcn", 1, 4),
        ("rgat", 1, 4),
        ("rgcn", 2, 4),
        ("rgat", 2, 4),
    ]
    assert all(resume for _, _, resume in fake.calls)


def test_tables_runs_a_cell_once_and_reads_it_again(fake, run, tmp_path):
    run(*TABLE)
    run(*TABLE)
    assert len(fake.calls) == 4
    result = CliRunner().invoke(app, [*TABLE[:2], "--from", "out", "--picture", "my.png", "--json"])
    (rgcn, rgat) = json.loads(result.stdout)
    assert (rgcn["model"], rgcn["column"], rgcn["mean"], rgcn["paper"]) == ("rgcn", "T = 3", 75.0, 96.7)
    assert (rgat["model"], rgat["values"], rgat["spread"]) == ("rgat", [75.0, 75.0], 0.0)
    assert (tmp_path / "my.png").read_bytes().startswith(b"\x89PNG")
    assert len(fake.calls) == 4


def test_tables_of_trees_has_nodes_and_graphs(fake, run):
    _, said, _ = run("tables", "tree_max", "--models", "rgcn", "--seeds", "1")
    assert "│ rgcn │ 75.0 ± 0.0 (1) | 95.7 │ 25.0 ± 0.0 (1) | 31.7 │" in said


def test_search_prints_the_best_on_valid_first(fake, run):
    fake.then = lambda config: result_of(config, config.switches["dropout"], 1 - config.switches["dropout"])
    arguments = ["search", "conditional_recall", "--length", "5", "--models", "ggnn", "--trials", "4"]
    code, said, _ = run(*arguments)
    assert code == 0
    assert "ggnn: 4 trials, the best first" in said
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["ggnn"]
    assert len(fake.calls) == 4
    assert len({trial["accuracy"] for trial in found}) > 1
    assert [trial["accuracy"] for trial in found] == sorted((trial["accuracy"] for trial in found), reverse=True)
    rows = [(f"{trial['accuracy']:.1%}", "1.250", str(trial["settings"]["dropout"])) for trial in found]
    assert re.findall(r"│ (\S+%) │ (\S+) │ (\S+) ", said) == rows
    assert {config.task_arguments["length"] for config, _, _ in fake.calls} == {5}


def test_report_writes_a_page(fake, run, tmp_path):
    run(*TABLE)
    code, said, _ = run("report", "out", "--out", "page.html")
    assert (code, said) == (0, "4 runs in page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "rgat/length3-seed2" in page


def test_a_page_gets_the_table(fake, run, tmp_path):
    run(*TABLE)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- sggnn tables conditional_recall: table -->\n<!-- end -->\nafter\n")
    code, _, said = run("tables", "conditional_recall", "--from", "out", "--into", page)
    assert code == 0, said
    assert "| `rgat` |" in page.read_text()
    assert page.read_text().endswith("<!-- end -->\nafter\n")
    code, _, said = run("tables", "conditional_recall", "--from", "out", "--into", "nowhere.md")
    assert code == 2
    assert "--into nowhere.md cannot be read" in said
