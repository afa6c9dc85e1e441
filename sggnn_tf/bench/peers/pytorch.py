"""SGGNN-RV-GAT in PyTorch, as its equations are printed, and with the products of nodes and relations split off."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from sggnn_tf.bench.problem import Problem


class Step(nn.Module):
    """What both forms share: the sum over edges by attention, and the symmetrically gated unit."""

    def __init__(self, problem: Problem, heads: int = 2) -> None:
        super().__init__()
        units = problem.units
        self.heads = heads
        self.vectors = nn.Parameter(torch.randn(problem.num_relations, units) / math.sqrt(units))
        self.hidden = nn.Linear(2 * units, units)
        self.gate = nn.Linear(units, units)
        self.update = nn.Linear(units, units)
        self.query = nn.Linear(units, units, bias=False)
        self.key = nn.Linear(2 * units, units, bias=False)
        self.gates = nn.Linear(2 * units, 5 * units)
        self.candidate = nn.Linear(2 * units, units)

    def summary(self, queries: Any, keys: Any, messages: Any, receivers: Any, nodes: int) -> Any:
        """The attention of each node over its messages."""
        shape = (len(messages), self.heads, -1)
        scores = (queries.view(shape) * keys.view(shape)).sum(-1) / math.sqrt(messages.shape[1] / self.heads)
        index = receivers[:, None].expand_as(scores)
        largest = scores.new_zeros(nodes, self.heads).scatter_reduce(
            0, index, scores.detach(), "amax", include_self=False
        )
        weights = torch.exp(scores - largest[receivers])
        total = scores.new_zeros(nodes, self.heads).index_add(0, receivers, weights)
        weighted = messages.view(shape) * (weights / total[receivers])[:, :, None]
        return messages.new_zeros(nodes, messages.shape[1]).index_add(0, receivers, weighted.view(messages.shape))

    def new_state(self, states: Any, summary: Any, mask: Any) -> Any:
        """The symmetrically gated unit."""
        gates = self.gates(torch.cat([summary, states], 1) * mask)
        reset_state, reset_summary, *mix = gates.chunk(5, 1)
        inputs = torch.cat([summary * reset_summary.sigmoid(), states * reset_state.sigmoid()], 1)
        candidate = torch.tanh(self.candidate(inputs * mask))
        shares = torch.stack(mix).softmax(0)
        return shares[0] * summary + shares[1] * states + shares[2] * candidate


class Printed(Step):
    """Each product for every edge."""

    def forward(self, states: Any, senders: Any, receivers: Any, relation: Any, mask: Any) -> Any:
        sent, vectors = states[senders], self.vectors[relation]
        hidden = functional.celu(self.hidden(torch.cat([sent, vectors], 1)))
        gate = torch.sigmoid(self.gate(hidden))
        messages = gate * sent + (1 - gate) * self.update(hidden)
        keys = self.key(torch.cat([messages, vectors], 1))
        queries = self.query(states)[receivers]
        summary = self.summary(queries, keys, messages, receivers, len(states))
        return self.new_state(states, summary, mask)


class Split(Step):
    """The part of a product that depends on the node or the relation alone, once for each."""

    def forward(self, states: Any, senders: Any, receivers: Any, relation: Any, mask: Any) -> Any:
        units = states.shape[1]
        of_node, of_relation = self.hidden.weight.split(units, 1)
        by_relation = functional.linear(self.vectors, of_relation, self.hidden.bias)
        hidden = functional.celu(functional.linear(states, of_node)[senders] + by_relation[relation])
        weight = torch.cat([self.gate.weight, self.update.weight])
        both = functional.linear(hidden, weight, torch.cat([self.gate.bias, self.update.bias]))
        gate, update = both.chunk(2, 1)
        messages = torch.lerp(update, states[senders], torch.sigmoid(gate))
        of_message, of_relation = self.key.weight.split(units, 1)
        keys = functional.linear(messages, of_message) + functional.linear(self.vectors, of_relation)[relation]
        queries = self.query(states)[receivers]
        summary = self.summary(queries, keys, messages, receivers, len(states))
        return self.new_state(states, summary, mask)


class Model(nn.Module):
    """Embedding, projection, the same step several times, and a linear head at the nodes that are asked."""

    def __init__(self, problem: Problem, step: Any, steps: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(problem.num_values, problem.embedding_units)
        self.projection = nn.Linear(problem.embedding_units, problem.units, bias=False)
        self.step = step
        self.head = nn.Linear(problem.units, problem.classes)
        self.steps = steps
        self.dropout = problem.dropout

    def forward(self, values: Any, edges: tuple[Any, Any, Any], asked: Any) -> Any:
        states = self.projection(self.embedding(values))
        mask = functional.dropout(states.new_ones(2 * states.shape[1]), self.dropout, self.training)
        for _ in range(self.steps):
            states = self.step(states, *edges, mask)
        return self.head(states[asked])


FORMS = {"printed": Printed, "split": Split}


def make(problem: Problem, form: str, mode: str, compiled: bool) -> tuple[Callable[[], object], int]:
    """One training step or forward pass, and its operations in matrix products, forward.

    What is compiled is a step of the model: all of them in one take minutes to compile, and are no faster.
    """
    torch.manual_seed(0)
    step = FORMS[form](problem)
    work = flops(Model(problem, step, problem.steps), problem)
    model = Model(problem, torch.compile(step, dynamic=False) if compiled else step, problem.steps)
    return action(model, problem, mode), work


def flops(model: nn.Module, problem: Problem) -> int:
    """The operations of a forward pass in matrix products, as PyTorch counts them."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*_tensors(problem)[0])
    return counter.get_total_flops()


def action(model: nn.Module, problem: Problem, mode: str) -> Callable[[], object]:
    """A training step, the optimizer's included, or a forward pass."""
    inputs, labels = _tensors(problem)
    if mode == "predict":
        model.eval()

        def predict() -> object:
            with torch.inference_mode():
                return model(*inputs).sum().item()

        return predict
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.learning_rate, fused=True)
    loss_function = nn.CrossEntropyLoss(label_smoothing=problem.label_smoothing)
    model.train()

    def train() -> object:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_function(model(*inputs), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), problem.clip_norm)
        optimizer.step()
        return loss.item()

    return train


def _tensors(problem: Problem) -> tuple[tuple[Any, ...], Any]:
    """What a model is called with, and the right answers."""
    values, asked, labels, *edges = (
        torch.from_numpy(np.ascontiguousarray(array)).long()
        for array in (
            problem.values,
            problem.asked,
            problem.labels,
            problem.senders,
            problem.receivers,
            problem.relation,
        )
    )
    return (values, tuple(edges), asked), labels
