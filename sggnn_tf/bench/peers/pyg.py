"""The nearest layers of PyG, `RGCNConv`, `RGATConv` and `GatedGraphConv`: their mathematics is not the paper's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import GatedGraphConv, RGATConv, RGCNConv

from sggnn_tf.bench.peers import pytorch
from sggnn_tf.bench.problem import Problem


class SharedRGCN(nn.Module):
    """RGCN with the same weights in all steps, as in the paper: a mean and a matrix for each relation, then a sum."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.conv = RGCNConv(problem.units, problem.units, problem.num_relations)

    def forward(self, states: Any, senders: Any, receivers: Any, relation: Any, mask: Any) -> Any:
        return functional.relu(self.conv(states, torch.stack([senders, receivers]), relation))


class RGATLayers(nn.Module):
    """RGAT with weights of its own in each step."""

    def __init__(self, problem: Problem, heads: int = 2) -> None:
        super().__init__()
        width = problem.units // heads
        self.convs = nn.ModuleList(
            RGATConv(problem.units, width, problem.num_relations, heads=heads) for _ in range(problem.steps)
        )

    def forward(self, states: Any, senders: Any, receivers: Any, relation: Any, mask: Any) -> Any:
        for conv in self.convs:
            states = conv(states, torch.stack([senders, receivers]), relation)
        return states


class GGNNLayers(nn.Module):
    """A gated graph network, which knows no relations: a matrix for each step and one GRU."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.conv = GatedGraphConv(problem.units, problem.steps)

    def forward(self, states: Any, senders: Any, receivers: Any, relation: Any, mask: Any) -> Any:
        return self.conv(states, torch.stack([senders, receivers]))


LAYERS = {"rgcn": (SharedRGCN, None), "rgat": (RGATLayers, 1), "ggnn": (GGNNLayers, 1)}
"""By model: its layers, and how often they are called, if not once a step."""


def make(problem: Problem, model: str, mode: str) -> tuple[Callable[[], object], int]:
    """One training step or forward pass, and its operations in matrix products, forward."""
    torch.manual_seed(0)
    layers, calls = LAYERS[model]
    whole = pytorch.Model(problem, layers(problem), calls or problem.steps)
    return pytorch.action(whole, problem, mode), pytorch.flops(whole, problem)
