import base64
import json
import re
from html.parser import HTMLParser

import pytest

from sggnn_tf import training
from sggnn_tf.analysis import report

VOID = {"meta", "img"}


def history(*accuracies):
    return [
        {"loss": 2.0, "accuracy": each, "val_loss": 1 - each, "val_accuracy": each, "seconds": 90.0}
        for each in accuracies
    ]


def figures(accuracy, questions=20, graphs=20, **more):
    return {
        "questions": questions,
        "accuracy": accuracy,
        "graphs": graphs,
        "graph_accuracy": accuracy / 2,
        "floors": {"most common answer": 0.125},
        **more,
    }


def recall(model="rgcn", **settings):
    return training.for_task("conditional_recall", model, **settings).to_dict()


def finished(config, valid, test=None, **more):
    """What `result.json` holds."""
    found = {
        "config": config,
        "versions": {"keras": "3.15.0"},
        "parameters": 12345,
        "epochs": 2,
        "best_epoch": 2,
        "history": history(valid / 2, valid),
        "valid": figures(valid),
    }
    return found if test is None else {**found, "test": figures(test, **more)}


def write_run(folder, result):
    folder.mkdir(parents=True)
    settings = {name: result[name] for name in ("config", "versions")}
    (folder / "config.json").write_text(json.dumps(settings))
    if "valid" in result:
        (folder / "result.json").write_text(json.dumps(result))
    lines = [json.dumps({"epoch": number, **each}) for number, each in enumerate(result["history"], 1)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def unfinished(config, *accuracies):
    return {"config": config, "versions": {}, "history": history(*accuracies)}


def page_of(folder, *others):
    path = folder.parent / "report.html"
    report.write_report([folder, *others], path)
    return Page(path.read_text())


class Page(HTMLParser):
    """A page, read as a browser would: tags that do not match are an error."""

    def __init__(self, text):
        super().__init__()
        self.text, self.open, self.tags, self.rows, self.best, self.links = text, [], set(), [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "action")]
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if any(tag in ("td", "th") for tag, _ in self.open):
            self.rows[-1][-1] += data
            if self.open[-1][1].get("class") == "best":
                self.best.append((self.rows[-1][0], data))

    def row(self, name):
        (found,) = (row for row in self.rows if row[0].startswith(name))
        return found


@pytest.fixture
def runs(tmp_path):
    """Three runs of one task and one of another: the best on test is not the best on valid."""
    hops = {"by_hops": {"0": {"questions": 12, "accuracy": 1.0}, "3": {"questions": 8, "accuracy": 0.25}}}
    write_run(tmp_path / "runs" / "good", finished(recall("sggnn-rv-gat"), valid=0.8, test=0.9, **hops))
    write_run(tmp_path / "runs" / "other", finished(recall(), valid=0.85, test=0.7))
    write_run(tmp_path / "runs" / "stopped", unfinished(recall("ggnn"), 0.1, 0.35, 0.2))
    trees = training.for_task("tree_max", "rgat").to_dict()
    write_run(tmp_path / "runs" / "forest", finished(trees, valid=0.55, test=0.6, questions=90, graphs=10))
    return tmp_path / "runs"


def test_a_page_needs_no_other_file(runs):
    page = page_of(runs)
    assert page.tags.isdisjoint({"script", "link", "iframe", "object", "base"})
    assert "http" not in page.text
    assert "url(" not in page.text
    assert "@import" not in page.text
    assert len(page.links) == 2
    for link in page.links:
        kind, content = link.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        drawing = base64.b64decode(content).decode()
        assert drawing.rstrip().endswith("</svg>")
        assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', drawing))


def test_the_best_run_of_each_data_set_is_marked_by_test(runs):
    page = page_of(runs)
    assert sorted(page.best) == [("forest", "60.0 %"), ("good", "90.0 %")]


def test_runs_on_other_data_are_not_compared(tmp_path):
    for trees, accuracy in ((40, 0.9), (800, 0.6)):
        config = training.for_task("tree_max", "rgcn", task_arguments={"trees": trees}).to_dict()
        write_run(tmp_path / "runs" / f"of{trees}", finished(config, accuracy, accuracy))
    assert sorted(page_of(tmp_path / "runs").best) == [("of40", "90.0 %"), ("of800", "60.0 %")]


def test_a_row_has_what_is_known_of_a_run(runs):
    page = page_of(runs)
    assert page.row("good")[:9] == [
        "good",
        "conditional_recall, length 10",
        "sggnn-rv-gat",
        "12,345",
        "2",
        "2",
        "3.0",
        "80.0 %",
        "90.0 %",
    ]
    assert page.row("good")[9] == ""
    assert page.row("forest")[9] == "30.0 %"
    assert "most common answer 12.5 %" in page.text
    assert ["3", "8", "25.0 %"] in page.rows


def test_the_column_of_whole_graphs_is_there_only_if_a_run_needs_it(runs):
    assert len(page_of(runs / "good").row("good")) == 9


def test_an_unfinished_run_is_shown_as_such(runs):
    row = page_of(runs).row("stopped")
    assert row[0] == "stopped (not finished)"
    assert row[3:] == ["", "3", "", "4.5", "35.0 %", "", ""]
    assert "(not finished)" not in page_of(runs / "good").text


def test_a_run_that_has_only_begun_is_shown_too(tmp_path):
    write_run(tmp_path / "begun", unfinished(recall()))
    (tmp_path / "begun" / "metrics.jsonl").unlink()
    row = page_of(tmp_path / "begun").row("begun")
    assert row[0] == "begun (not finished)"
    assert row[4:] == ["0", "", "0.0", "", ""]


def test_data_without_a_test_split_is_shown(tmp_path):
    config = training.for_data("some/grid", "rgcn", label="station/fails").to_dict()
    write_run(tmp_path / "mine", finished(config, valid=0.75))
    row = page_of(tmp_path / "mine").row("mine")
    assert (row[1], row[7], row[8]) == ("grid", "75.0 %", "")


def test_runs_that_differ_in_their_seed_only_have_a_mean(tmp_path):
    for seed, accuracy in ((1, 0.5), (2, 0.7), (3, 0.9)):
        write_run(tmp_path / "runs" / f"seed{seed}", finished(recall(seed=seed), 0.5, accuracy))
    write_run(tmp_path / "runs" / "wider", finished(recall(seed=4, units=200), 0.5, 0.1))
    page = page_of(tmp_path / "runs")
    assert ["conditional_recall, length 10", "rgcn", "3", "70.0 ± 20.0 %"] in page.rows
    assert sum("±" in row[-1] for row in page.rows) == 2  # The head of the table, and one row.


def test_names_are_text_and_not_html(tmp_path):
    name = '<b>&"x'
    config = training.for_data(f"some/{name}", "rgcn", label="a/<i>", ignore=["<u>/x"]).to_dict()
    result = finished(config, 0.5, 0.4, by_rule={"<em>": {"questions": 3, "accuracy": 1.0}})
    result["test"]["floors"] = {"<tt>": 0.5}
    write_run(tmp_path / "runs" / name, result)
    page = page_of(tmp_path / "runs")
    assert page.tags.isdisjoint({"b", "i", "u", "em", "tt"})
    row = page.row(name)
    assert row[1] == name
    assert page.row("<em>") == ["<em>", "3", "100.0 %"]
    assert f"<title>{name}" not in page.text


def test_all_settings_are_on_the_page(runs):
    page = page_of(runs / "good")
    config = recall("sggnn-rv-gat")
    shown = {row[0]: row[1] for row in page.rows if len(row) == 2}
    for name in ("learning_rate", "patience", "label", "ignore", "task_arguments"):
        assert json.loads(shown[name]) == config[name]
    assert json.loads(shown["gate_bias"]) == config["switches"]["gate_bias"]
    assert json.loads(shown["keras"]) == "3.15.0"


def test_the_same_runs_give_the_same_bytes(runs):
    first = page_of(runs).text
    assert page_of(runs).text == first
    assert page_of(runs, runs / "good").text == first  # A run that is found twice is there once.


def test_results_of_tables_are_runs(tmp_path):
    for model in ("rgcn", "ggnn"):
        folder = tmp_path / "results" / "conditional_recall" / model
        folder.mkdir(parents=True)
        (folder / "length10-seed1.json").write_text(json.dumps(finished(recall(model), 0.5, 0.5)))
    page = page_of(tmp_path / "results")
    assert page.row("rgcn/length10-seed1")[2] == "rgcn"
    assert page.row("ggnn/length10-seed1")[2] == "ggnn"


def test_many_runs_fit_on_a_page(tmp_path):
    for number in range(report.NAMED + 1):
        write_run(tmp_path / "runs" / f"run{number:02d}", finished(recall(seed=number), 0.5, 0.5))
    assert report.write_report([tmp_path / "runs"], tmp_path / "page.html") == report.NAMED + 1
    assert "9 runs" in Page((tmp_path / "page.html").read_text()).text


@pytest.mark.parametrize("names", [("a/run", "b/run"), ("lr0.001", "lr0.002")])
def test_every_run_has_a_name_of_its_own(names, tmp_path):
    for name in names:
        write_run(tmp_path / "runs" / name, finished(recall(), 0.5, 0.5))
    found = report.find_runs([tmp_path / "runs"])
    assert [run.name for run in found] == list(names)


def test_there_is_nothing_to_report(tmp_path):
    with pytest.raises(ValueError, match=r"There is no folder .*nowhere"):
        report.write_report([tmp_path / "nowhere"], tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no run"):
        report.write_report([tmp_path / "empty"], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("result.json", '{"config": {'),
        ("result.json", "{}"),
        ("result.json", "3"),
        ("config.json", "{"),
        ("metrics.jsonl", '{"epoch": 1'),
    ],
)
def test_a_damaged_file_is_named(name, content, tmp_path):
    result = finished(recall(), 0.5, 0.5) if name == "result.json" else unfinished(recall(), 0.5)
    write_run(tmp_path / "run", result)
    (tmp_path / "run" / name).write_text(content)
    with pytest.raises(ValueError, match=f"run/{name} is "):
        report.write_report([tmp_path / "run"], tmp_path / "page.html")


def test_a_page_that_cannot_be_written_is_named(runs):
    with pytest.raises(ValueError, match=r"nowhere/page\.html cannot be written"):
        report.write_report([runs], runs / "nowhere" / "page.html")
