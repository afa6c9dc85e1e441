"""Measurements of the documents: `python -m tests.measure input` and `generate`.

Times are medians, taken on one machine: compare them with each other only.
"""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import data, tasks
from sggnn_tf.data.codec import Codec
from sggnn_tf.models import build_model

OURS = "sggnn-rv-gat"


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@tf.function(autograph=False)
def next_tensors(iterator):
    return tf.nest.flatten(iterator.get_next(), expand_composites=True)


@tf.function(autograph=False)
def number_of_batches(dataset):
    return dataset.reduce(tf.constant(0), lambda count, _: count + 1)


def an_epoch(step, iterator, steps):
    """The time of an epoch of training, and that part of it in which it waited for its input."""
    start = waiting_since = time.perf_counter()
    waited = 0.0
    for _ in range(steps):
        tensors = next_tensors(iterator)
        waited += time.perf_counter() - waiting_since
        step(tensors).numpy()
        waiting_since = time.perf_counter()
    return time.perf_counter() - start, waited


def step_on_tensors(model, spec):
    """The training step of a model as a function of the tensors of a batch."""

    def train(tensors):
        return model.train_step(tf.nest.pack_sequence_as(spec, tensors, expand_composites=True))["loss"]

    return tf.function(train, autograph=False).get_concrete_function(tf.nest.flatten(spec, expand_composites=True))


def input_wait(epochs=3):
    """Throughput of the input pipeline alone, of training, and the part of an epoch that waits for input."""
    for task, units, steps in ((tasks.ConditionalRecall(length=10), 120, 11), (tasks.TreeMax(), 150, 17)):
        examples = data.generate(task)["train"]
        batches = data.Batches(examples, 20, shuffle_seed=0)
        dataset = batches.dataset()
        alone = float(np.median([seconds(lambda d=dataset: number_of_batches(d).numpy()) for _ in range(5)]))
        model = build_model(OURS, examples.schema, units=units, steps=steps, gate_bias=3.0)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(), loss, jit_compile=False)
        model.optimizer.build(model.trainable_variables)

        step = step_on_tensors(model, dataset.element_spec)
        iterator = iter(batches.dataset(endless=True))
        times = [an_epoch(step, iterator, len(batches)) for _ in range(epochs + 1)][1:]
        epoch, waited = (float(np.median(column)) for column in zip(*times, strict=True))
        nodes = int(examples.sizes[:, 1].sum())
        edges = int(batches.padding.sets.cost(examples.sizes).sum())
        items = {"graphs/s": len(examples), "nodes/s": nodes, "edges/s": edges}
        yield {
            "task": task.name,
            "padding": round(batches.efficiency(), 3),
            "shapes": len(batches.padding.shapes),
            "input alone": {name: round(value / alone) for name, value in items.items()},
            "training": {name: round(value / epoch) for name, value in items.items()},
            "wait": f"{waited / epoch:.1%}",
        }


def generation(count=100_000):
    """The time to generate examples, and to write them as records."""
    for task in (tasks.ConditionalRecall(length=30, examples_per_class=count // 61 + 1), tasks.TreeMax(trees=count)):
        codec = Codec(data.task_schema(task))
        start = time.perf_counter()
        graphs = [task.example(number) for number in range(count)]
        made = time.perf_counter()
        for graph in graphs:
            codec.encode(graph)
        end = time.perf_counter()
        yield {"task": task.name, "count": count, "generate": round(made - start), "encode": round(end - made)}


if __name__ == "__main__":
    for row in {"input": input_wait, "generate": generation}[sys.argv[1]]():
        print(json.dumps(row), flush=True)
