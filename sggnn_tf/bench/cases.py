"""What is timed: a model on a batch of a task, in training and in use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from sggnn_tf import data, tasks, training
from sggnn_tf.bench.flops import TRAINING, Size, least_flops, products
from sggnn_tf.models import MODELS
from sggnn_tf.tfgnn_bridge import is_auxiliary

Mode = Literal["train", "predict"]


class Case(NamedTuple):
    """One thing to time."""

    task: str
    model: str
    units: int
    steps: int
    batch_size: int
    jit: bool
    mode: Mode

    @property
    def name(self) -> str:
        how = "xla" if self.jit else "plain"
        return f"{self.task} {self.model} D={self.units} K={self.steps} batch={self.batch_size} {how} {self.mode}"


class Made(NamedTuple):
    """A case that is ready to run.

    Attributes:
      action: runs it once.
      graphs, size: what it works on, without padding.
      padding: real over padded edges.
      flops: the operations of the cheapest form that is known, of all steps.
      computed: those of the form that is computed.
    """

    action: Callable[[], object]
    graphs: int
    size: Size
    padding: float
    flops: int
    computed: int


def grid(
    task_names: Sequence[str],
    models: Sequence[str],
    units: Sequence[int],
    steps: Sequence[int],
    batch_sizes: Sequence[int],
    jit: Sequence[bool] = (False, True),
    modes: Sequence[Mode] = ("train", "predict"),
) -> Iterator[Case]:
    """All combinations."""
    for values in itertools.product(task_names, models, units, steps, batch_sizes, jit, modes):
        yield Case(*values)


def quick() -> Iterator[Case]:
    """The paper's sizes: every model in training as it is by default, ours in all ways."""
    for task, units, steps in (("conditional_recall", 120, 11), ("tree_max", 150, 17)):
        yield from grid([task], list(MODELS), [units], [steps], [20], jit=[False], modes=["train"])
        yield Case(task, "sggnn-rv-gat", units, steps, 20, True, "train")
        yield Case(task, "sggnn-rv-gat", units, steps, 20, False, "predict")


def make(case: Case) -> Made:
    """Builds the model and the batch of a case."""
    config = training.for_task(
        case.task,
        case.model,
        units=case.units,
        steps=case.steps,
        batch_size=case.batch_size,
        jit=case.jit,
    )
    task = tasks.make(case.task)
    examples = data.generate(task)["train"]
    batches = training.make_batches(config, {"train": examples})["train"]
    model = training.make_model(config, examples.schema)
    dataset = batches.dataset()
    model.build_for_data(dataset)
    batch = next(iter(dataset))
    places = batches.order(0)[: case.batch_size]
    sizes = examples.sizes[places].sum(axis=0)
    names = examples.sets.names
    real = {name: int(sizes[place]) for place, name in enumerate(names) if not is_auxiliary(name)}
    relations = [name for name in examples.sets.edges if not is_auxiliary(name)]
    size = Size(
        nodes=sum(real[name] for name in examples.sets.nodes if not is_auxiliary(name)),
        edges=sum(real[name] for name in relations),
        relations=len(relations),
    )
    padded = sum(batch[0].edge_sets[name].total_size.numpy() for name in relations)
    times = case.steps * (TRAINING if case.mode == "train" else 1)
    return Made(
        _action(model, batch, case),
        len(places),
        size,
        size.edges / int(padded),
        times * least_flops(case.model, size, case.units, config.switches),
        times * sum(product.flops for product in products(case.model, size, case.units, config.switches)),
    )


def _action(model: Any, batch: Any, case: Case) -> Callable[[], object]:
    """One training step, the optimizer's included, or one forward pass, on tensors that are there already."""
    spec = tf.nest.map_structure(tf.type_spec_from_value, batch)
    tensors = tf.nest.flatten(batch, expand_composites=True)

    def run(tensors: list[tf.Tensor]) -> tf.Tensor:
        packed = tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)
        if case.mode == "train":
            return model.train_step(packed)["loss"]
        return tf.reduce_sum(model(packed[0], training=False))

    function = tf.function(run, jit_compile=case.jit, autograph=False)
    return lambda: function(tensors).numpy()
