"""The other side of the comparison: it learns, and it computes the same equations."""

import sys

import numpy as np
import pytest

from sggnn_tf import data, tasks, training
from sggnn_tf.bench import peers as libraries
from sggnn_tf.bench.cases import Case, as_printed, make, peers
from sggnn_tf.bench.flops import Size, least_flops
from sggnn_tf.bench.problem import Problem

torch = pytest.importorskip("torch", reason="The extra `bench` is not installed.")
pytest.importorskip("torch_geometric", reason="The extra `bench` is not installed.")

from sggnn_tf.bench.peers import pytorch  # noqa: E402

CASES = sorted({(case.library, case.model) for case in peers() if case.library != "sggnn_tf"})


def small(**settings):
    return as_printed("tree_max", "sggnn-rv-gat", units=8, steps=3, batch_size=4, **settings)


@pytest.fixture(scope="module")
def examples():
    return data.generate(tasks.make("tree_max", trees=40))["train"]


@pytest.mark.parametrize(("library", "model"), CASES)
def test_a_peer_learns(library, model):
    made = make(Case("conditional_recall", model, 8, 3, 4, False, "train", library))
    losses = [made.action() for _ in range(15)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    assert made.flops > 0
    assert (made.graphs, made.size) == (4, Size(40, 4 * (9 + 9 + 10), 3))


@pytest.mark.parametrize(("library", "model"), CASES)
def test_a_peer_predicts(library, model):
    made = make(Case("conditional_recall", model, 8, 2, 4, False, "predict", library))
    assert np.isfinite(made.action())


def test_both_forms_of_pytorch_are_our_model(examples):
    config = small()
    batches = training.make_batches(config, {"train": examples})["train"]
    model = training.make_model(config, examples.schema)
    model.build_for_data(batches.dataset())
    graph, _, weights = next(iter(batches.dataset()))
    expected = model(graph).numpy()[weights.numpy() > 0]
    problem = Problem.of_batch(config, examples, batches.order(0)[: config.batch_size])
    for form in pytorch.FORMS.values():
        peer = pytorch.Model(problem, form(problem), problem.steps).eval()
        _copy_weights(model, peer)
        with torch.no_grad():
            found = peer(*pytorch._tensors(problem)[0]).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_printed_form_is_more_work_and_the_split_form_a_little_more_than_ours(examples):
    config = small()
    problem = Problem.of_batch(config, examples, range(4))
    size = Size(len(problem.values), len(problem.senders), problem.num_relations)
    printed, split = (
        pytorch.flops(pytorch.Model(problem, form(problem), problem.steps), problem) for form in pytorch.FORMS.values()
    )
    assert printed > split > problem.steps * least_flops("sggnn-rv-gat", size, problem.units)


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sggnn_tf.bench.peers.pyg", None)
    monkeypatch.delattr(libraries, "pyg", raising=False)
    with pytest.raises(ValueError, match=r"pyg is not here.*sggnn-tf\[bench\]"):
        make(Case("conditional_recall", "rgcn", 8, 2, 4, False, "train", "pyg"))


def _copy_weights(model, peer):
    update = model.encoder.updates[0].node_set_updates["node"]
    message, attention, cell = update.message, update.aggregation, update.update
    (table,), (kernel,) = model.initial_states.tables.values(), model.initial_states.kernels.values()

    def stacked(*kernels):
        return np.concatenate([np.asarray(each) for each in kernels]).T

    given = {
        "embedding.weight": table,
        "projection.weight": np.asarray(kernel).T,
        "step.vectors": update.relation_vectors,
        "step.hidden.weight": stacked(message.state_kernel, message.relation_kernel),
        "step.hidden.bias": message.hidden_bias,
        "step.gate.weight": stacked(message.gate_kernel),
        "step.gate.bias": message.gate_bias_weight,
        "step.update.weight": stacked(message.update_kernel),
        "step.update.bias": message.update_bias,
        "step.query.weight": stacked(attention.query_kernel),
        "step.key.weight": stacked(attention.key_kernel, attention.relation_kernel),
        "step.gates.weight": stacked(cell.gate_kernel),
        "step.gates.bias": cell.gate_bias,
        "step.candidate.weight": stacked(cell.candidate_kernel),
        "step.candidate.bias": cell.candidate_bias_weight if cell.candidate_bias else np.zeros(8),
        "head.weight": stacked(model.head.kernel),
        "head.bias": model.head.bias,
    }
    peer.load_state_dict({name: torch.tensor(np.asarray(value), dtype=torch.float32) for name, value in given.items()})
