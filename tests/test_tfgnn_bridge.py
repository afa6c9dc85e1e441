"""The bridge: any order of imports, no noise, and the names it relies on."""

import inspect
import subprocess
import sys

import keras
import pytest

from sggnn_tf import tfgnn, tfgnn_bridge

CHECK = """
import keras, os, tensorflow as tf, tensorflow_gnn
assert keras.__version__.startswith("3."), keras.__version__
assert tf.keras.layers.Layer is not keras.layers.Layer
assert "TF_USE_LEGACY_KERAS" not in os.environ
assert sggnn_tf.tfgnn is tensorflow_gnn
print(keras.layers.Dense(2)(tf.zeros([3, 4])).shape, sggnn_tf.layers.GraphUpdate.__mro__[-2].__module__)
"""


def python(program, **environment):
    environment = {"PATH": "", "HOME": "", **environment}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("before", ["", "keras", "tensorflow", "keras, tensorflow", "tensorflow, keras", "tf_keras"])
def test_any_order_of_imports(before):
    imports = f"import {before}\n" if before else ""
    run = python(f"{imports}import sggnn_tf\n{CHECK}")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("(3, 2)")


def test_importing_prints_nothing():
    run = python("import sggnn_tf")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_what_is_not_noise_is_passed_on():
    run = python(
        "import os, sggnn_tf.tfgnn_bridge as bridge\n"
        "with bridge.without_log_noise():\n"
        "    os.write(2, b'I0000 00:00:1.2 1 port.cc:153] oneDNN\\nW0000 00:00:1.2 1 cuda.cc:1] No such driver\\n')\n"
    )
    assert run.stderr == "W0000 00:00:1.2 1 cuda.cc:1] No such driver\n"


def test_a_process_without_standard_error():
    run = python("import os; os.close(2); import sggnn_tf; print('fine')")
    assert run.stdout == "fine\n"


@pytest.mark.parametrize("touch", ["tf.keras.layers.Dense", "tf.keras.Model"])
def test_tf_keras_used_as_keras_3_before_is_explained(touch):
    run = python(f"import tensorflow as tf\n{touch}\nimport sggnn_tf")
    last = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1
    assert last.startswith("ImportError: `tf.keras` was used as Keras 3 before `import sggnn_tf`")
    assert "move `import sggnn_tf` above the first use of `tf.keras`" in last


def test_another_backend_of_keras_is_explained():
    run = python("import keras; keras.backend.backend = lambda: 'jax'; import sggnn_tf")
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: sggnn_tf needs Keras on TensorFlow, but Keras runs on 'jax'")
    assert "KERAS_BACKEND=tensorflow" in last


def test_an_environment_variable_of_the_user_stays():
    run = python("import os, sggnn_tf; print(os.environ['TF_USE_LEGACY_KERAS'])", TF_USE_LEGACY_KERAS="0")
    assert run.stdout == "0\n", run.stderr


class TestPrivateKerasNames:
    """If one of these fails after an upgrade of Keras, mend tfgnn_bridge.py (or the place named) first."""

    def test_loss_function_wrapper(self):
        wrapper = tfgnn_bridge.LossFunctionWrapper
        assert {"fn", "reduction", "name"} <= set(inspect.signature(wrapper).parameters)
        loss = wrapper(keras.losses.mean_squared_error, reduction="mean_with_sample_weight", name="mse")
        assert isinstance(loss, keras.losses.Loss)
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
        assert (again.fn, again.reduction) == (keras.losses.mean_squared_error, "mean_with_sample_weight")
        assert issubclass(keras.losses.MeanSquaredError, wrapper)

    def test_a_loss_keeps_its_reduction_in_an_attribute(self):  # models/graph_model.py
        assert keras.losses.MeanSquaredError(reduction="sum").reduction == "sum"

    def test_an_unbuilt_collection_of_metrics_says_so(self):  # models/graph_model.py
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"])
        assert [getattr(metric, "built", True) for metric in model.metrics] == [True, False]
        assert model.metrics[0].name == "loss"

    def test_keras_takes_graphs_by_keyword_only(self):  # layers/graph_layer.py
        class Plain(keras.layers.Layer):
            def call(self, graph):
                return graph

        graph = tfgnn.GraphTensor.from_pieces(node_sets={"node": tfgnn.NodeSet.from_fields(sizes=[1], features={})})
        assert isinstance(Plain()(graph=graph), tfgnn.GraphTensor)
        with pytest.raises(ValueError, match="Only input tensors may be passed as positional"):
            Plain()(graph)
