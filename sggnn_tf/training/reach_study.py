"""The reach of models on a task, at the start and while they train."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from sggnn_tf import data
from sggnn_tf.analysis.reach import Reach, ReachHistory, joined, model_reach
from sggnn_tf.training.config import Config, for_task, versions
from sggnn_tf.training.run import learning_rates, make_batches, make_model

GRAPHS = 20


def study(
    task: str,
    models: Sequence[str],
    seeds: Sequence[int],
    epochs: Sequence[int] = (0,),
    *,
    probes: int | None = None,
    task_arguments: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Measures the reach of models, each from several seeds, on graphs of `valid`.

    Args:
      task: the task; models are made and trained by its recipe.
      models: the models.
      seeds: of the data, the weights and the order of training.
      epochs: the numbers of epochs after which to measure; 0 is the start.
      probes: see `gradient_reach`.
      task_arguments: arguments of the task.
      settings: settings in place of the recipe's.
      report: is told what is being done.

    Returns:
      How it was measured, and by model and number of epochs, the mean norm `by_hop` and the `radius`.
    """
    found: dict[str, dict[str, Any]] = {}
    for model in models:
        histories = []
        for seed in seeds:
            report(f"{model}, seed {seed}")
            config = for_task(task, model, seed=seed, task_arguments=task_arguments, **(settings or {}))
            histories.append(_history(config, epochs, probes))
        measured = {epoch: joined([history[epoch] for history in histories]) for epoch in epochs}
        found[model] = {str(epoch): figures(reach) for epoch, reach in measured.items()}
    return {
        "task": task,
        "task_arguments": dict(task_arguments or {}),
        "seeds": list(seeds),
        "graphs": GRAPHS,
        "probes": probes,
        "settings": dict(settings or {}),
        "versions": versions(),
        "reach": found,
    }


def figures(reach: Reach) -> dict[str, Any]:
    """What is kept of a measurement."""
    return {"radius": reach.radius, "by_hop": {str(hop): norm for hop, norm in reach.by_hop.items()}}


def run_reach(config: Config, model: Any, probes: int | None = None) -> Reach:
    """The reach of the model of a run, on graphs of `valid`."""
    return model_reach(model, first_graphs(config, config.examples()["valid"]), probes=probes)


def first_graphs(config: Config, examples: data.Examples, number: int = GRAPHS) -> Any:
    """The first graphs of a split, as one batch."""
    batches = data.Batches(examples, number, label=config.label, ignore=config.ignore)
    return next(iter(batches.dataset()))


def _history(config: Config, epochs: Sequence[int], probes: int | None) -> dict[int, Reach]:
    keras.utils.set_random_seed(config.seed)
    examples = config.examples()
    model = make_model(config, examples["train"].schema)
    batch = first_graphs(config, examples["valid"])
    if max(epochs) == 0:
        return {0: model_reach(model, batch, probes=probes)}
    history = ReachHistory(batch, epochs=epochs, probes=probes)
    train = make_batches(config, examples)["train"]
    model.fit(
        train.dataset(endless=True),
        steps_per_epoch=len(train),
        epochs=max(epochs),
        verbose=0,
        callbacks=[history, learning_rates(config)],
    )
    return history.history
