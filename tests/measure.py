"""Measurements of the documents: `python -m tests.measure speed`, `compile`, `memory`, `input`, `generate`.

Times are medians of steps taken in turn, so that noise of the machine meets all sides alike.
"""

import json
import os
import resource
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from sggnn_tf import data, tasks
from sggnn_tf.data.codec import Codec
from sggnn_tf.layers import GraphUpdate, RelationalNodeSetUpdate, Repeat
from sggnn_tf.models import MODELS, build_model, registry
from tests.forests import RELATIONS, forest
from tests.layers.test_printed_form import repeated
from tests.printed_form import PrintedUpdate

NODES = 1259
UNITS = 150
OURS = "sggnn-rv-gat"


def training_step(layer, graph, jit_compile):
    """One forward and backward pass, compiled or not."""
    layer(graph)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def step(states):
        with tf.GradientTape() as tape:
            result = layer(graph.replace_features(node_sets={"node": {"hidden_state": states}}), training=True)
            loss = tf.reduce_sum(tf.square(result.node_sets["node"]["hidden_state"]))
        return loss, tape.gradient(loss, layer.trainable_variables)

    states = graph.node_sets["node"]["hidden_state"]
    return lambda: step(states)[0].numpy()


def seconds(action):
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_turn(steps, repetitions):
    """The median time of each step, taken in turn, after a first call of each that does not count."""
    for step in steps.values():
        step()
    times = {name: [] for name in steps}
    for _ in range(repetitions):
        for name, step in steps.items():
            times[name].append(seconds(step))
    return {name: float(np.median(values)) for name, values in times.items()}


def speed(repetitions=7):
    """The time of a training step, in the printed form over ours."""
    graph = forest(NODES, UNITS)
    for hidden in (1, 4):
        for jit_compile in (False, True):
            steps = {
                name: training_step(repeated(update, UNITS, 17, hidden * UNITS), graph, jit_compile)
                for name, update in (("printed", PrintedUpdate), ("ours", RelationalNodeSetUpdate))
            }
            times = in_turn(steps, repetitions)
            yield {
                "hidden": f"{hidden}D",
                "xla": jit_compile,
                **{name: round(value, 3) for name, value in times.items()},
                "ratio": round(times["printed"] / times["ours"], 2),
            }


def compile_time():
    """The first call under XLA less one more call: tracing and compilation, by number of steps."""
    graph = forest(NODES, UNITS)
    times = {5: [], 31: []}
    for _ in range(3):
        for steps, values in times.items():
            step = training_step(repeated(RelationalNodeSetUpdate, UNITS, steps), graph, jit_compile=True)
            values.append(seconds(step) - seconds(step))
    medians = {steps: float(np.median(values)) for steps, values in times.items()}
    yield {
        **{f"K={steps}": round(value, 2) for steps, value in medians.items()},
        "ratio": round(medians[31] / medians[5], 2),
    }


def peak_of_a_step(options):
    """The peak of this process' memory in MiB after a training step, and the time of one. Runs in its own process."""
    graph = forest(options["nodes"], options["units"])
    switches = {"normaliser": "softmax"} if options["model"] == "rgat" else {}
    update = registry.node_set_update(options["model"], options["units"], options["relations"], switches)
    is_shared = MODELS[options["model"]].shared
    layer = Repeat(
        GraphUpdate(node_sets={"node": update}), options["steps"], shared=is_shared, recompute=options["recompute"]
    )
    step = training_step(layer, graph, options["xla"])
    step()
    times = [seconds(step) for _ in range(3)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"mib": peak, "seconds": float(np.median(times))}


def in_a_process(**options):
    options = {"nodes": NODES, "units": UNITS, "relations": RELATIONS, "steps": 17, "recompute": False, **options}
    run = subprocess.run(
        [sys.executable, "-m", "tests.measure", "peak", json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(run.stdout.splitlines()[-1])


def above_one_step(**options):
    """The peak of a training step's memory above that of the same model with one step, in MiB, and its time.

    What TensorFlow, the compiler and the data take is in both.
    """
    found, baseline = in_a_process(**options), in_a_process(**{**options, "steps": 1})
    return {"mib": round(found["mib"] - baseline["mib"]), "seconds": round(found["seconds"], 2)}


def memory():
    """Peak memory of a training step: of all models at 17 steps, and of ours at 31 steps with `recompute`."""
    for name in MODELS:
        yield {"model": name, "steps": 17, "mib": above_one_step(model=name, xla=False)["mib"]}
    # The same nodes with a third of the edges: what is a node's share, and what an edge's.
    few = above_one_step(model=OURS, xla=False, relations=("self",))["mib"]
    yield {"model": OURS, "steps": 17, "edges": NODES, "mib": few}
    for xla in (False, True):
        plain, again = (above_one_step(model=OURS, steps=31, xla=xla, recompute=flag) for flag in (False, True))
        yield {
            "model": OURS,
            "steps": 31,
            "xla": xla,
            "plain": plain,
            "recompute": again,
            "less memory": round(plain["mib"] / again["mib"], 2),
            "more time": round(again["seconds"] / plain["seconds"], 2),
        }


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
    if sys.argv[1] == "peak":
        print(json.dumps(peak_of_a_step(json.loads(sys.argv[2]))))
    else:
        measurements = {
            "speed": speed,
            "compile": compile_time,
            "memory": memory,
            "input": input_wait,
            "generate": generation,
        }
        for row in measurements[sys.argv[1]]():
            print(json.dumps(row), flush=True)
