"""Mixed precision and float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sggnn_tf import tfgnn
from tests import graphs


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_trains(policy, jit_compile, tmp_path):
    keras.config.set_dtype_policy(policy)
    model = graphs.model("node")
    model.compile(keras.optimizers.Adam(0.02), graphs.loss(), metrics=["accuracy"], jit_compile=jit_compile)
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (policy == "mixed_float16")
    losses = model.fit(graphs.dataset("node"), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert {weight.dtype for weight in model.trainable_variables} == {"float32"}
    states = model.sequence[1](model.sequence[0](graphs.merged([0, 1]))).node_sets["user"]["hidden_state"]
    assert states.dtype == policy.removeprefix("mixed_")
    model.save(tmp_path / "model.keras")
    keras.config.set_dtype_policy("float32")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    graph = graphs.merged([0, 1])
    assert np.abs(model(graph) - loaded(graph)).max() == 0.0


def test_loss_scaling_follows_the_gradients():
    keras.config.set_dtype_policy("mixed_float16")
    model = graphs.model("node")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=2.0**40)
    model.compile(optimizer, graphs.loss())
    for batch in graphs.batches("node", padded=True):
        model.train_on_batch(*batch)
    assert float(optimizer.dynamic_scale) < 2.0**40  # Such gradients overflow: the step is left out, the scale halved.
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_features_that_pass_through_keep_their_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    season = graphs.merged([0, 1]).context["season"]
    mapped = graphs.model().sequence[0](graphs.merged([0, 1]))
    assert mapped.context["season"].dtype == tf.float32
    np.testing.assert_array_equal(mapped.context["season"], season)
    assert mapped.context[tfgnn.HIDDEN_STATE].dtype == tf.bfloat16


def test_float64():
    keras.config.set_dtype_policy("float64")
    model = graphs.model("node")
    graph = graphs.merged([0, 1])
    model(graph)
    assert {weight.dtype for layer in model.sequence[:-1] for weight in layer.trainable_variables} == {"float64"}
    assert model.sequence[1](model.sequence[0](graph)).node_sets["user"]["hidden_state"].dtype == tf.float64
