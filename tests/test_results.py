"""What the pages and pictures say is what the results say, and the results are of the recipes in the package."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from sggnn_tf import training
from sggnn_tf.models import MODELS
from sggnn_tf.tasks import TASKS
from sggnn_tf.training import table_pictures, table_text
from sggnn_tf.training.cells import read_result
from sggnn_tf.training.tables import SEEDS, of_start

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
MEASURED = [task for task in TASKS if (RESULTS / task).exists()]
HOW = "Make it anew: sggnn tables TASK --from docs/results --into docs/results.md --into README.md"


def cells():
    paths = (path for task in TASKS for path in (RESULTS / task).rglob("*-seed*.json"))
    return sorted(path for path in paths if not path.name.startswith("longer"))


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_tables_on_a_page_are_made_of_the_results(page):
    text = (ROOT / page).read_text()
    assert table_text.MARK.search(text)
    assert table_text.rewrite(text, RESULTS) == text, HOW


@pytest.mark.parametrize("task", MEASURED)
def test_pictures_show_the_results(task):
    shown = table_pictures.shown(task, RESULTS)
    assert shown
    for name, content in shown.items():
        with Image.open(RESULTS / name) as picture:
            assert json.loads(picture.text["Description"]) == content, HOW


def test_results_are_of_the_seeds_of_the_tables_and_of_the_recipes():
    for path in cells():
        result = read_result(path)
        config = training.Config(**result["config"])
        assert config.seed in SEEDS, path
        assert path.name.endswith(f"-seed{config.seed}.json"), path
        assert (path.parent.name, path.parent.parent.name) == (config.model, config.task), path
        assert len(result["history"]) == result["epochs"] >= result["best_epoch"], path
        own = {} if config.start_from is None else {"start_from": config.start_from, **of_start(config)}
        own |= {"steps": config.steps} if path.name.startswith(f"steps{config.steps}-") else {}
        recipe = training.for_task(
            config.task, config.model, seed=config.seed, task_arguments=config.task_arguments, jit=config.jit, **own
        )
        assert config.to_dict() == recipe.to_dict(), path


def test_trials_are_of_other_seeds_than_the_tables_and_as_many_for_every_model():
    numbers = {}
    for path in (RESULTS / "search").glob("*/*/*.json"):
        assert read_result(path)["config"]["seed"] not in SEEDS, path
        numbers.setdefault(path.parent.parent.name, []).append(path.parent.name)
    assert numbers.keys() == {"conditional_recall", "tree_max"}
    for task, models in numbers.items():
        trials = {model: models.count(model) for model in MODELS}
        if task == "tree_max":  # It has its development runs in place of trials.
            assert trials.pop(read_result(RESULTS / task / "development.json")["model"]) == 0
        assert len(set(trials.values())) == 1, task


def test_no_result_has_the_path_of_a_machine():
    for path in RESULTS.rglob("*.json"):
        assert not re.search(r'"/[a-z]|[A-Z]:\\\\', path.read_text()), path
