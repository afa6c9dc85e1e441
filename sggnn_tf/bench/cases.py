"""What is timed: a model on a batch of a task, in training and in use, by this package or by another library."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import tensorflow as tf

from sggnn_tf import data, tasks, training
from sggnn_tf.bench.flops import TRAINING, Product, Size, least_flops, products
from sggnn_tf.bench.problem import Problem
from sggnn_tf.models import MODELS, registry
from sggnn_tf.tfgnn_bridge import is_auxiliary

Mode = Literal["train", "predict"]
OURS = "sggnn_tf"


class Case(NamedTuple):
    """One thing to time.

    Attributes:
      task, units, steps, batch_size: the problem.
      model: a model of ours; of PyTorch "printed" or "split"; of PyG "rgcn", "rgat" or "ggnn"; of TF-GNN "mha-gru".
      jit: whether it is compiled: by XLA, or by `torch.compile`.
      mode: a training step, or a forward pass.
      library: "sggnn_tf", "pytorch", "pyg" or "tfgnn-keras2".
    """

    task: str
    model: str
    units: int
    steps: int
    batch_size: int
    jit: bool
    mode: Mode
    library: str = OURS


class Made(NamedTuple):
    """A case that is ready to run.

    Attributes:
      action: runs it once.
      size, graphs: what it works on, without padding.
      padding: real over padded edges.
      flops: the operations of the cheapest form that is known, of all steps.
      computed: those of the form that is computed.
      products: the matrix products of a step.
    """

    action: Callable[[], object]
    graphs: int
    size: Size
    padding: float
    flops: int
    computed: int
    products: Sequence[Product] = ()


def grid(
    task_names: Sequence[str],
    models: Sequence[str],
    units: Sequence[int],
    steps: Sequence[int],
    batch_sizes: Sequence[int],
    jit: Sequence[bool] = (False, True),
    modes: Sequence[Mode] = ("train", "predict"),
) -> Iterator[Case]:
    """All combinations, of our models."""
    for task, width, number, batch, model, flag, mode in itertools.product(
        task_names, units, steps, batch_sizes, models, jit, modes
    ):
        yield Case(task, model, width, number, batch, flag, mode)


PAPER = (("conditional_recall", 120, 11), ("tree_max", 150, 17))
"""The paper's two problems: task, units, steps."""


def quick() -> Iterator[Case]:
    """The paper's sizes: every model in training on one task; ours on both, with and without XLA, and in use."""
    for task, units, steps in PAPER:
        yield from grid([task], ["sggnn-rv-gat"], [units], [steps], [20], modes=["train"])
        yield Case(task, "sggnn-rv-gat", units, steps, 20, False, "predict")
    others = [model for model in MODELS if model != "sggnn-rv-gat"]
    yield from grid([task], others, [units], [steps], [20], jit=[False], modes=["train"])


def peers() -> Iterator[Case]:
    """The paper's sizes by all libraries; RGAT at five steps, as PyG's gathers a matrix for each edge."""
    for task, units, steps in PAPER:
        for jit in (False, True):
            yield Case(task, "sggnn-rv-gat", units, steps, 20, jit, "train")
            for form in ("printed", "split"):
                yield Case(task, form, units, steps, 20, jit, "train", "pytorch")
        yield Case(task, "mha-gru", units, steps, 20, False, "train", "tfgnn-keras2")
        for model, number in (("rgcn", steps), ("ggnn", steps), ("rgat", 5)):
            yield Case(task, model, units, number, 20, False, "train", "pyg")
            for jit in (False, True):
                yield Case(task, model, units, number, 20, jit, "train")


def as_printed(task: str, model: str, **settings: Any) -> training.Config:
    """The settings of a model with embeddings, attention and optimizer as printed, which all libraries have."""
    printed: dict[str, Any] = {"num_heads": 2, "head_bias": 0.0}
    known = registry.switch_names(model)
    switches = {name: value for name, value in printed.items() if name in known}
    return training.for_task(task, model, embedding_gain=1.0, weight_decay=0.0, **switches, **settings)


def make(case: Case) -> Made:
    """Builds the model and the batch of a case."""
    config = as_printed(
        case.task,
        case.model if case.library == OURS else "sggnn-rv-gat",
        units=case.units,
        steps=case.steps,
        batch_size=case.batch_size,
        jit=case.jit,
    )
    examples = data.generate(tasks.make(case.task))["train"]
    batches = training.make_batches(config, {"train": examples})["train"]
    places = batches.order(0)[: case.batch_size]
    if case.library != OURS:
        return _make_peer(case, Problem.of_batch(config, examples, places), len(places))
    model = training.make_model(config, examples.schema)
    dataset = batches.dataset()
    model.build_for_data(dataset)
    batch = next(iter(dataset))
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
    of_a_step = products(case.model, size, case.units, config.switches)
    return Made(
        _action(model, batch, case),
        len(places),
        size,
        size.edges / int(padded),
        times * least_flops(case.model, size, case.units, config.switches),
        times * sum(product.flops for product in of_a_step),
        of_a_step,
    )


def _make_peer(case: Case, problem: Problem, graphs: int) -> Made:
    from sggnn_tf.bench import peers as libraries  # They need the extra `bench`.

    action, flops = libraries.make(case.library, case.model, problem, case.mode, case.jit)
    size = Size(len(problem.values), len(problem.senders), problem.num_relations)
    flops *= TRAINING if case.mode == "train" else 1
    return Made(action, graphs, size, 1.0, flops, flops)


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
