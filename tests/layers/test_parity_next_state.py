import pytest
import tensorflow as tf

from tests.layers.parity import OURS, STATE, THEIRS, assert_parity


def rows(seed, width=4):
    return tf.random.stateless_normal([5, width], seed=[seed, 0])


SINGLE = (rows(0), {"cites": rows(1, 3), "writes": rows(2)}, {})
SEVERAL = ({STATE: rows(0), "other": rows(3)}, {"cites": rows(1)}, {"mood": rows(2, 1)})
LATENT = (rows(0, 0), {"covers": rows(1)}, rows(2, 2))
BY_TAG = ({}, {0: rows(0), 1: rows(1)}, {})
NO_ITEMS = (tf.zeros([0, 4]), {"reviews": tf.zeros([0, 3])}, {})


@pytest.mark.parametrize("inputs", [SINGLE, SEVERAL, LATENT, BY_TAG, NO_ITEMS])
def test_next_state_from_concat(inputs):
    assert_parity(lambda layers, k: layers.NextStateFromConcat(k.layers.Dense(3, "tanh", name="dense")), inputs)


@pytest.mark.parametrize(
    ("inputs", "kwargs"),
    [
        (SINGLE, {}),
        (SINGLE, {"activation": "relu"}),
        (SINGLE, {"activation": tf.math.softplus}),
        (SEVERAL, {"activation": "tanh"}),
        (SEVERAL, {"skip_connection_feature_name": "other"}),
        (LATENT, {"activation": "relu"}),
        (NO_ITEMS, {"activation": "relu"}),
    ],
)
def test_residual_next_state(inputs, kwargs):
    assert_parity(lambda layers, k: layers.ResidualNextState(k.layers.Dense(4, name="dense"), **kwargs), inputs)


def test_residual_next_state_with_an_activation_layer():
    def make(layers, k):
        block = k.Sequential([k.layers.Dense(7, "relu", name="inner"), k.layers.Dense(4, name="outer")])
        return layers.ResidualNextState(block, activation=k.layers.LeakyReLU(0.3))

    assert_parity(make, SINGLE)


@pytest.mark.parametrize("state", [rows(0), {}, {"a": rows(0), "b": rows(2)}])
def test_single_input_next_state(state):
    assert_parity(lambda layers, k: layers.SingleInputNextState(), (state, {"cites": rows(1, 3)}, {}))


@pytest.mark.parametrize("side", [THEIRS, OURS], ids=["theirs", "ours"])
@pytest.mark.parametrize("inputs", [SINGLE, (rows(0), {"cites": rows(1)}, rows(2)), (rows(0), {}, {})])
def test_single_input_next_state_refuses_other_than_one_input(side, inputs):
    layers, _ = side
    with pytest.raises(ValueError, match=r"[Ii]nput"):
        layers.SingleInputNextState()(inputs)
