import itertools
import json

import pytest

from sggnn_tf import training
from sggnn_tf.models import MODELS, registry
from tests.training import runs


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", ["conditional_recall", "tree_max"])
def test_there_is_a_recipe_for_every_model(task, model):
    config = training.for_task(task, model)
    assert set(config.switches) <= set(registry.switch_names(model))
    assert 0 <= config.switches["dropout"] < 1
    assert training.Config(**json.loads(json.dumps(config.to_dict()))).to_dict() == config.to_dict()


@pytest.mark.parametrize(("length", "units"), [(3, 100), (9, 100), (10, 120), (30, 120)])
def test_sizes_for_strings_follow_their_length(length, units):
    config = training.for_task("conditional_recall", "ggnn", task_arguments={"length": length})
    assert (config.units, config.steps, config.batch_size) == (units, length + 1, 20)
    more = training.for_task("conditional_recall", "ggnn", task_arguments={"examples_per_class": 50})
    assert more.batch_size == 50


def test_what_differs_between_models():
    assert training.for_task("tree_max", "sggnn-rm-gat").learning_rate == 5e-4
    assert training.for_task("tree_max", "rgat").switches["normaliser"] == "softmax"


def test_what_is_given_goes_before_the_recipe():
    config = training.for_task(
        "tree_max", "sggnn-rv-gat", seed=7, epochs=3, gate_bias=0.0, learning_rate=None, task_arguments={"trees": 40}
    )
    assert (config.seed, config.epochs, config.learning_rate) == (7, 3, 1.5e-3)
    assert config.switches["gate_bias"] == 0.0
    assert config.task_arguments["seed"] == 7
    assert config.task_arguments["trees"] == 40


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": -1.0}, "learning rate"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"weight_decay": float("nan")}, "weight_decay is nan"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"gatebias": 1.0}, "no switch 'gatebias'"),
        ({"task_arguments": {"lenght": 3}}, "no argument 'lenght'"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        training.for_task("conditional_recall", "sggnn-rv-gat", **settings)


def test_an_unknown_model_or_task_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="sggnn-rv-gat"):
        training.for_task("tree_max", "sgnn-rv-gat")
    with pytest.raises(ValueError, match="Did you mean tree_max"):
        training.for_task("treemax", "rgcn")


def test_the_learning_rate_rises_and_falls_with_the_epochs():
    config = runs.recall(epochs=10, learning_rate=1.0, schedule="cosine", warmup=2)
    rates = [config.rate_of_epoch(epoch) for epoch in range(10)]
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert all(before > after for before, after in itertools.pairwise(rates[2:]))
    assert 0 < rates[-1] < 0.05
    assert rates[6] == pytest.approx(0.5)  # Half of the way down.
    short = runs.recall(epochs=1, learning_rate=1.0, schedule="cosine", warmup=2)
    assert short.rate_of_epoch(0) == pytest.approx(1 / 3)
    constant = runs.recall(epochs=10, learning_rate=1.0, schedule="constant", warmup=1)
    assert [constant.rate_of_epoch(epoch) for epoch in (0, 1, 9)] == [0.5, 1, 1]
    with pytest.raises(ValueError, match="schedule is 'linear'"):
        runs.recall(schedule="linear")
