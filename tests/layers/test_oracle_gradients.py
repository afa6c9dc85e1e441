"""Gradients of every weight and of the first states: against central differences, and of the ways to run steps."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf.layers import Repeat
from sggnn_tf.models import MODELS, registry
from tests.layers import oracle
from tests.layers.oracle import STATE, UNITS

EPSILON = 1e-5
ENTRIES = 4  # How many entries of a large weight are varied.
SOFTMAX = {"normaliser": "softmax"}
DROPOUT = {"dropout": 0.3, "seed": 7}
CASES = [
    *((name, SOFTMAX if name == "rgat" else {}) for name in MODELS),
    ("rgcn", {"activation": "softplus", "message": "reduced", "inner_units": 3, "skip": True}),
    (
        "sggnn-rv-gat",
        {"layer_norm": True, "candidate_bias": True, "hidden_units": 16, "value_projection": True, "num_heads": 4},
    ),
]


@pytest.fixture(autouse=True)
def _float64(_same_start):
    keras.config.set_dtype_policy("float64")


class Problem:
    """A model's steps, and as their loss a random linear function of the last states."""

    def __init__(self, name, typed, switches=(), training=False, relaxed=False, **repeat):
        def make(relations):
            return registry.node_set_update(name, UNITS, relations, dict(switches))

        self.layer = Repeat(oracle.graph_update(typed[0], make), **{"steps": 3, **repeat})
        oracle.build(self.layer.updates)
        self.graph = oracle.graph_tensor(*typed)
        self.training = training
        self.function = self.layer
        if relaxed:
            spec = self.graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
            self.function = tf.function(lambda graph: self.layer(graph, training=training), input_signature=[spec])
        states = {name: nodes[STATE] for name, nodes in self.graph.node_sets.items()}
        self.sources = {
            **{f"state of {name}": tf.Variable(state) for name, state in states.items()},
            **{f"{i}: {weight.path}": weight.value for i, weight in enumerate(self.layer.trainable_variables)},
        }

    def loss(self):
        names = list(self.graph.node_sets)
        graph = self.graph.replace_features(
            node_sets={name: {STATE: tf.identity(self.sources[f"state of {name}"])} for name in names}
        )
        new = self.function(graph, **({"training": self.training} if self.function is self.layer else {}))
        random, total = np.random.default_rng(1), 0.0
        for name in names:
            state = new.node_sets[name][STATE]
            total += tf.reduce_sum(state * random.normal(size=state.shape))
        return total

    def gradients(self):
        with tf.GradientTape() as tape:
            loss = self.loss()
        gradients = tape.gradient(loss, self.sources)
        assert [name for name, gradient in gradients.items() if gradient is None] == []
        return {name: tf.convert_to_tensor(gradient).numpy() for name, gradient in gradients.items()}

    def like(self, other):
        """Takes the weights of another."""
        self.layer.set_weights(other.layer.get_weights())
        return self


@pytest.mark.parametrize(("name", "switches"), CASES, ids=str)
def test_central_differences(name, switches):
    problem = Problem(name, oracle.multigraph(many=True, seed=2), switches, shared=MODELS[name].shared)
    analytic = problem.gradients()
    loss = tf.function(problem.loss)
    random = np.random.default_rng(0)
    for source, variable in problem.sources.items():
        value = variable.numpy()
        entries = random.permutation(value.size)[:ENTRIES]
        numeric = []
        for entry in entries:
            step = EPSILON * np.reshape(np.arange(value.size) == entry, value.shape)
            ends = []
            for sign in (1, -1):
                variable.assign(value + sign * step)
                ends.append(float(loss()))
            numeric.append((ends[0] - ends[1]) / (2 * EPSILON))
        variable.assign(value)
        error = np.abs(analytic[source].flat[entries] - numeric).max()
        assert error <= 1e-6 * np.abs(analytic[source]).max() + 1e-9, source
    assert np.median([np.abs(gradient).max() for gradient in analytic.values()]) > 1e-3


@pytest.mark.parametrize("switches", [{}, DROPOUT], ids=["plain", "dropout"])
@pytest.mark.parametrize("name", MODELS)
def test_recompute(name, switches):
    typed = oracle.chain(4, 0, 2)
    plain = Problem(name, typed, switches, training=True)
    again = Problem(name, typed, switches, training=True, recompute=True).like(plain)
    assert_same(plain.gradients(), again.gradients())


WAYS = [
    ("rgcn", {"unroll": 2}),
    ("sggnn-rv-gat", {"unroll": 2}),
    ("sggnn-rv-gat", {"recompute": True, "relaxed": True}),
]


@pytest.mark.parametrize(("name", "repeat"), WAYS, ids=str)
def test_ways_to_run_steps(name, repeat):
    typed = oracle.multigraph(many=True)
    plain = Problem(name, typed, DROPOUT, training=True, steps=5)
    other = Problem(name, typed, DROPOUT, training=True, steps=5, **repeat).like(plain)
    assert_same(plain.gradients(), other.gradients())


@pytest.mark.parametrize("sizes", [(0, 0), (1, 0, 4)], ids=["empty", "isolated and others"])
@pytest.mark.parametrize(
    ("name", "switches"), [*((name, {}) for name in MODELS), ("rgat", SOFTMAX)], ids=[*MODELS, "rgat-softmax"]
)
def test_gradients_are_finite(name, switches, sizes):
    """`multigraph` has a relation without edges, and in each graph a node without."""
    gradients = Problem(name, oracle.multigraph(sizes=sizes), switches).gradients()
    assert [source for source, gradient in gradients.items() if not np.isfinite(gradient).all()] == []


def assert_same(expected, got):
    for (source, gradient), other in zip(expected.items(), got.values(), strict=True):
        assert np.abs(gradient - other).max(initial=0.0) <= 1e-12, source
