"""Measurements of the documents: `python -m tests.measure speed`, `compile`, `memory`.

Times are medians of steps taken in turn, so that noise of the machine meets all sides alike.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import tensorflow as tf

from sggnn_tf.layers import GraphUpdate, RelationalNodeSetUpdate, Repeat
from sggnn_tf.models import MODELS, registry
from tests.forests import RELATIONS, forest
from tests.layers.test_printed_form import repeated
from tests.printed_form import PrintedUpdate

NODES = 1259
UNITS = 150


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


def status(field):
    """A field of this process' memory, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def peak_of_one_step(options):
    """The peak of a training step's memory above what stays, in MiB, and its time. Runs in a process of its own."""
    graph = forest(options["nodes"], options["units"])
    switches = {"normaliser": "softmax"} if options["model"] == "rgat" else {}
    update = registry.node_set_update(options["model"], options["units"], RELATIONS, switches)
    is_shared = MODELS[options["model"]].shared
    layer = Repeat(
        GraphUpdate(node_sets={"node": update}), options["steps"], shared=is_shared, recompute=options["recompute"]
    )
    step = training_step(layer, graph, options["xla"])
    step()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # Sets the high-water mark back.
    before = status("VmRSS")
    step()
    peak = status("VmHWM") - before
    return {"mib": round(peak, 1), "seconds": round(float(np.median([seconds(step) for _ in range(3)])), 3)}


def in_a_process(**options):
    options = {"nodes": NODES, "units": UNITS, "steps": 17, "recompute": False, **options}
    run = subprocess.run(
        [sys.executable, "-m", "tests.measure", "peak", json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return json.loads(run.stdout.splitlines()[-1])


def memory():
    """Peak memory of a training step: of all models, by steps and nodes, and with `recompute`."""
    for name in MODELS:
        yield {"model": name, **{f"xla={xla}": in_a_process(model=name, xla=xla)["mib"] for xla in (False, True)}}
    for xla in (False, True):
        plain, again = (in_a_process(model="sggnn-rv-gat", steps=31, xla=xla, recompute=flag) for flag in (False, True))
        yield {
            "steps": 31,
            "xla": xla,
            "plain": plain,
            "recompute": again,
            "less memory": round(plain["mib"] / again["mib"], 2),
            "more time": round(again["seconds"] / plain["seconds"], 2),
        }
        double = in_a_process(model="sggnn-rv-gat", nodes=2 * NODES, steps=31, xla=xla)
        yield {"steps": 31, "nodes": 2 * NODES, "xla": xla, "mib": double["mib"]}


if __name__ == "__main__":
    if sys.argv[1] == "peak":
        print(json.dumps(peak_of_one_step(json.loads(sys.argv[2]))))
    else:
        for row in {"speed": speed, "compile": compile_time, "memory": memory}[sys.argv[1]]():
            print(json.dumps(row), flush=True)
