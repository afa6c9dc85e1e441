import numpy as np
import pytest

from sggnn_tf import training
from sggnn_tf.training.longer import run_longer
from tests.training import runs


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A run of a model with shared steps, on strings of three characters."""
    folder = tmp_path_factory.mktemp("short")
    return folder, training.train(runs.recall("rgcn", epochs=2), folder)


def test_the_length_of_training_gives_the_result_of_the_run(short):
    folder, result = short
    found = run_longer(folder, [{"length": 3}])
    (same,) = found["longer"]
    assert same["steps"] == 4  # Of the recipe, T + 1; the run had 2.
    assert found["config"] == result["config"]
    assert same["test"]["questions"] == result["test"]["questions"]


def test_more_steps_are_as_many_as_the_recipe_has(short):
    folder, _ = short
    found = run_longer(folder, [{"length": 6}, {"length": 9}])
    assert [each["steps"] for each in found["longer"]] == [7, 10]
    assert [each["task_arguments"]["length"] for each in found["longer"]] == [6, 9]
    assert {int(hop) for hop in found["longer"][1]["test"]["by_hops"]} <= set(range(9))


def test_steps_of_their_own_cannot_be_more(tmp_path):
    training.train(runs.recall("rgat", epochs=1), tmp_path)
    with pytest.raises(ValueError, match=r"number of steps too where they do not share"):
        run_longer(tmp_path, [{"length": 6}])


def test_a_run_starts_from_the_weights_of_another(short, tmp_path):
    folder, _ = short
    begun = training.train(
        runs.recall("rgcn", epochs=1, steps=5, learning_rate=1e-12, dropout=0.0, start_from=str(folder)),
        tmp_path / "warm",
    )
    for a, b in zip(runs.weights(folder), runs.weights(tmp_path / "warm"), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert begun["config"]["start_from"] == str(folder)
    with pytest.raises(ValueError, match=r"The run to start from, .* has weights of other shapes"):
        training.train(runs.recall("rgcn", epochs=1, units=6, start_from=str(folder)), tmp_path / "wider")
    with pytest.raises(ValueError, match="There is no run in nowhere"):
        training.train(runs.recall("rgcn", epochs=1, start_from="nowhere"), tmp_path / "lost")
