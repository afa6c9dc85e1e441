"""The number of parameters of each model, by closed formulas.

D is the width of the states, R the number of relations, d the width of reduced relation matrices, and c * D the width
inside the gated message. Heads share the width, so their number does not count.
"""

import math

import pytest

from sggnn_tf import tfgnn
from sggnn_tf.models import MODELS, build_model, registry

SHAPES = [(4, 1), (8, 3), (100, 7), (150, 20)]


def matrices(D, R):
    """W_r of D x D for each relation: R D^2."""
    return R * D**2


def reduced(D, R, d=150):
    """W_A of d x D, W_B of D x d and W*_r of d x d for each relation: 2 D d + R d^2."""
    return 2 * D * d + R * d**2


def gated(D, c=1):
    """W_A of cD x 2D with b_A, and W_M and W_B of D x cD with b_M and b_B: 4 c D^2 + (c + 2) D."""
    return 4 * c * D**2 + (c + 2) * D


def attention(D):
    """Q of D x D and K of D x 2D for all heads together: 3 D^2."""
    return 3 * D**2


def gru(D):
    """W and U of two gates with biases, and of the candidate without: 2 (2 D^2 + D) + 2 D^2 = 6 D^2 + 2 D."""
    return 6 * D**2 + 2 * D


def sgru(D):
    """W and U of five gates with biases, and of the candidate without: 5 (2 D^2 + D) + 2 D^2 = 12 D^2 + 5 D."""
    return 12 * D**2 + 5 * D


def dense(D):
    """W_0 and b: D^2 + D."""
    return D**2 + D


def rgat(D, R):
    """W, Q, K and V of D x D for each relation: 4 R D^2."""
    return 4 * R * D**2


def vectors(D, R):
    """a_r for each relation, the same in message and key: R D."""
    return R * D


FORMULAS = {
    "rgcn": lambda D, R: (matrices(D, R) if D <= 150 else reduced(D, R)) + dense(D),
    "ggnn": lambda D, R: (matrices(D, R) if D <= 150 else reduced(D, R)) + gru(D),
    "rgat": rgat,
    "sggnn-rv-gat": lambda D, R: gated(D) + vectors(D, R) + attention(D) + sgru(D),
    "ggnn-rv-gat": lambda D, R: gated(D) + vectors(D, R) + attention(D) + gru(D),
    "sggnn-rv-mean": lambda D, R: gated(D) + vectors(D, R) + sgru(D),
    "sggnn-rm-gat": lambda D, R: matrices(D, R) + vectors(D, R) + attention(D) + sgru(D),
}
# What a switch adds to the default, at D = 8, R = 3.
D, R = 8, 3
SWITCHES = [
    ("sggnn-rv-gat", {"hidden_units": 4 * D}, gated(D, c=4) - gated(D)),
    ("sggnn-rv-gat", {"candidate_bias": True}, D),
    ("ggnn", {"candidate_bias": True}, D),
    ("sggnn-rv-gat", {"layer_norm": True}, 8 * D),  # A scale and an offset of 2D, before each of two linear maps.
    ("sggnn-rv-gat", {"value_projection": True}, D**2),
    ("sggnn-rv-gat", {"num_heads": 4, "gate_bias": 3.0, "neighbour_bias": 2.0, "dropout": 0.3}, 0),
    ("rgat", {"num_heads": 4, "normaliser": "softmax", "activation": "relu", "dropout": 0.3}, 0),
    ("ggnn", {"message": "reduced", "inner_units": 3, "skip": True}, reduced(D, R, 3) - matrices(D, R)),
    ("rgcn", {"message": "reduced", "inner_units": 3}, reduced(D, R, 3) - matrices(D, R)),
    ("ggnn", {"aggregation": "mean"}, 0),
]


def count(name, units, relations, **switches):
    update = registry.node_set_update(name, units, [str(r) for r in range(relations)], switches)
    update.build()
    return update.count_params()


@pytest.mark.parametrize(("units", "relations"), SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_update(name, units, relations):
    assert count(name, units, relations) == FORMULAS[name](units, relations)


@pytest.mark.parametrize("name", ["rgcn", "ggnn"])
def test_reduced_matrices_of_wide_states(name):
    assert count(name, 300, 7) == FORMULAS[name](300, 7)
    full, less = matrices(300, 7), reduced(300, 7)
    assert count(name, 300, 7, message="matrix") - count(name, 300, 7) == full - less
    assert less < full / 2


@pytest.mark.parametrize(("name", "switches", "more"), SWITCHES, ids=str)
def test_switches(name, switches, more):
    assert count(name, D, R, **switches) == FORMULAS[name](D, R) + more


@pytest.mark.parametrize("name", MODELS)
def test_whole_model(name):
    """An embedding of n ids in e dimensions, its projection with the dense feature to D, K steps, a head of C classes.

    n e + (e + 3) D for the nodes with features, D for those without, and (D + 1) C for the head.
    """
    schema = tfgnn.parse_schema("""
      node_sets { key: "user" value {
        features { key: "age" value { dtype: DT_INT64 } }
        features { key: "profile" value { dtype: DT_FLOAT shape { dim { size: 3 } } } }
        features { key: "label" value { dtype: DT_INT64 } }
        metadata { extra { key: "num_values/age" value: "11" } extra { key: "num_values/label" value: "5" } } } }
      node_sets { key: "item" value { } }
      edge_sets { key: "follows" value { source: "user" target: "user" } }
      edge_sets { key: "likes" value { source: "user" target: "item" } }
      edge_sets { key: "liked_by" value { source: "item" target: "user" } }
    """)
    model = build_model(name, schema, units=D, steps=2, label="user/label", embedding_units=6)
    steps = 2 if name == "rgat" else 1
    updates = FORMULAS[name](D, 2) + FORMULAS[name](D, 1)  # Two relations arrive at users, one at items.
    assert model.count_params() == 11 * 6 + (6 + 3) * D + D + steps * updates + (D + 1) * 5


@pytest.mark.parametrize("units", [100, 150, 300])
def test_vectors_pay_off_with_many_relations(units):
    """SGGNN-RV-GAT has fewer parameters than GGNN with full matrices from R = 14 on.

    19 D^2 + 8 D + R D < 6 D^2 + 2 D + R D^2 if and only if R > (13 D + 6) / (D - 1), which is just above 13.
    """
    turning = math.floor((13 * units + 6) / (units - 1)) + 1
    assert turning == 14
    for relations, is_less in ((turning - 1, False), (turning, True), (2 * turning, True)):
        ours, theirs = count("sggnn-rv-gat", units, relations), count("ggnn", units, relations, message="matrix")
        assert (ours < theirs) == is_less


def test_vectors_pay_off_later_against_reduced_matrices():
    """At D = 300 and d = 150: R > (13 D^2 + 6 D - 2 D d) / (d^2 - D) = 48.7."""
    for relations, is_less in ((48, False), (49, True)):
        assert (count("sggnn-rv-gat", 300, relations) < count("ggnn", 300, relations)) == is_less
