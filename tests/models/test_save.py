"""Saving: a model comes back as it was, in this process or another, and training goes on."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from sggnn_tf import GraphModel, tfgnn
from sggnn_tf.layers import Pool
from sggnn_tf.layers.graph_spec import from_text, to_text
from tests import graphs


@keras.saving.register_keras_serializable("tests")
class Subclassed(GraphModel):
    """A model by hand: layers of both kinds, made in `__init__` and not part of the configuration."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.initial = graphs.model("node").sequence[0]
        self.updates = [graphs.update("node", 0.1) for _ in range(2)]
        self.pool = Pool(node_set_name="user")
        self.head = keras.Sequential([keras.layers.Dense(units, "relu"), keras.layers.Dense(2)])

    def call(self, graph, training=None):
        graph = self.initial(graph)
        for update in self.updates:
            graph = update(graph, training=training)
        return self.head(self.pool(graph, tag=tfgnn.CONTEXT, reduce_type="mean"))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def trained(model=None, **kwargs):
    model = model or graphs.model(dropout=0.2)
    model.compile(keras.optimizers.Adam(0.01, clipnorm=1.0), graphs.loss(), metrics=["accuracy"], **kwargs)
    model.fit(graphs.dataset(), epochs=2, verbose=0)
    return model


def outputs(model):
    return np.concatenate([model(graph) for graph, *_ in graphs.batches("graph", padded=True)])


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("make", [None, lambda: Subclassed(6)], ids=["sequential", "subclassed"])
def test_a_keras_file_brings_everything_back(tmp_path, make):
    model = trained(make and make())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert np.abs(outputs(model) - outputs(loaded)).max() == 0.0
    assert loaded.graph_spec == model.graph_spec
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations) == 8
    for before, after in zip(model.optimizer.variables, loaded.optimizer.variables, strict=True):
        np.testing.assert_array_equal(before, after)
    data = graphs.dataset()
    assert loaded.evaluate(data, verbose=0) == model.evaluate(data, verbose=0)


def test_training_goes_on_where_it_stopped(tmp_path):
    data = graphs.dataset()
    model = trained(graphs.model(dropout=0.0))
    model.save(tmp_path / "model.keras")
    on = model.fit(data, epochs=2, verbose=0).history["loss"]
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.fit(data, epochs=2, verbose=0).history["loss"] == on


def test_a_keras_file_loads_in_a_fresh_process(tmp_path):
    model = trained()
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "expected.npy", outputs(model))
    program = """
        import sys, keras, numpy as np, sggnn_tf
        from tests import graphs
        model = keras.saving.load_model(sys.argv[1] + "/model.keras")
        found = np.concatenate([model(graph) for graph, *_ in graphs.batches("graph", padded=True)])
        print(np.abs(found - np.load(sys.argv[1] + "/expected.npy")).max())
    """
    program = "\n".join(line.strip() for line in program.splitlines())
    run = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "0.0", run.stderr


def test_weights_alone(tmp_path):
    model = trained()
    model.save_weights(tmp_path / "model.weights.h5")
    other = graphs.model()
    other.build(graphs.spec())
    assert np.abs(outputs(model) - outputs(other)).max() > 0.01
    other.load_weights(tmp_path / "model.weights.h5")
    assert np.abs(outputs(model) - outputs(other)).max() == 0.0


def test_weights_need_a_built_model(tmp_path):
    trained().save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="not yet been built"):
        graphs.model().load_weights(tmp_path / "model.weights.h5")


def test_model_checkpoint_keeps_the_best(tmp_path):
    model, data = trained(), graphs.dataset()
    best = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", monitor="val_loss", save_best_only=True)
    history = model.fit(data, validation_data=data, epochs=3, verbose=0, callbacks=[best]).history
    loaded = keras.saving.load_model(tmp_path / "best.keras")
    assert loaded.evaluate(data, verbose=0)[0] == pytest.approx(min(history["val_loss"]), rel=1e-6)


def test_early_stopping_restores_the_best_weights():
    model, data = trained(), graphs.dataset()
    model.optimizer.learning_rate = 1.0  # It gets worse at once.
    before = model.evaluate(data, verbose=0)[0]
    stop = keras.callbacks.EarlyStopping("val_loss", patience=2, baseline=before, restore_best_weights=True)
    history = model.fit(data, validation_data=data, epochs=20, verbose=0, callbacks=[stop]).history
    assert len(history["loss"]) < 20
    assert model.evaluate(data, verbose=0)[0] == pytest.approx(min(history["val_loss"]), rel=1e-6)


def test_backup_and_restore_goes_on_after_a_crash(tmp_path):
    class Crash(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 3:
                raise KeyboardInterrupt

    def run(*callbacks):
        model = trained(graphs.model())
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        return model.fit(graphs.dataset(), epochs=5, verbose=0, callbacks=[backup, *callbacks]).history["loss"]

    with pytest.raises(KeyboardInterrupt):
        run(Crash())
    resumed = run()
    assert len(resumed) == 2
    uninterrupted = run()
    np.testing.assert_allclose(resumed, uninterrupted[-2:], rtol=1e-6)


def test_a_model_that_has_seen_no_graph_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="has not seen a graph yet"):
        graphs.model().save(tmp_path / "model.keras")


def test_the_spec_survives_as_text():
    spec = tfgnn.GraphTensorSpec.from_piece_specs(node_sets_spec=graphs.spec().node_sets_spec)
    for each in (spec, graphs.spec(), graphs.merged([0, 1]).spec):
        assert from_text(to_text(each)) == each
