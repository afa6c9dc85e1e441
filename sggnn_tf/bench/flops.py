"""The work of a model: floating point operations of its matrix products.

`N` nodes, `E` edges, `D` units, `R` relations. A product of `[n, k]` and `[k, m]` is `2 n k m` operations. What is done
element by element is left out: it is time, not work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sggnn_tf.layers.aggregations import is_folded
from sggnn_tf.models import registry


class Product(NamedTuple):
    """A matrix product: `[rows, inner] @ [inner, columns]`, so many times."""

    rows: int
    inner: int
    columns: int
    times: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.inner * self.columns * self.times


class Size(NamedTuple):
    """What a step works on."""

    nodes: int
    edges: int
    relations: int


TRAINING = 3  # A product has two in its gradient.


def products(model: str, size: Size, units: int, switches: Mapping[str, Any] | None = None) -> list[Product]:
    """The products of one step of a model, forward, as they are computed here.

    Of a message, as many are computed as there are edges; where a relation has more edges than senders, fewer.
    """
    parts = registry.find(model)
    switches = switches or {}
    nodes, edges, relations = size
    hidden = switches.get("hidden_units") or units
    per_edge, per_node = Product(edges, units, units), Product(nodes, units, units)
    if parts.message is None:  # RGAT: relations' matrices are folded into those of queries and keys, once a step.
        return [Product(units, units, units, 2 * relations), Product(edges, units, 2 * units), per_edge]
    name = parts.message.__name__
    if name == "MatrixMessage" and model in ("rgcn", "ggnn"):
        is_reduced = switches.get("message", "auto") == "reduced" or (
            switches.get("message", "auto") == "auto" and units > registry.REDUCED_FROM
        )
        name = "ReducedMatrixMessage" if is_reduced else name
    inner = switches.get("inner_units", registry.REDUCED_FROM)
    message = {
        "GatedMessage": [Product(nodes, units, hidden), Product(edges, hidden, 2 * units)],
        "MatrixMessage": [per_edge],
        "ReducedMatrixMessage": [
            Product(nodes, units, inner),
            Product(edges, inner, inner),
            Product(edges, inner, units),
        ],
    }[name]
    has_attention = parts.aggregation is not None and parts.aggregation.__name__ == "Attention"
    aggregation = _attention(size, units, switches) if has_attention else []
    update = {
        "SymmetricGRUUpdate": [Product(nodes, 2 * units, 5 * units), Product(nodes, 2 * units, units)],
        "GRUUpdate": [Product(nodes, 2 * units, 2 * units), Product(nodes, 2 * units, units)],
        "DenseUpdate": [per_node],
    }[parts.update.__name__ if parts.update else ""]
    return [*message, *aggregation, *update]


def least_flops(model: str, size: Size, units: int, switches: Mapping[str, Any] | None = None) -> int:
    """The operations of one step, forward, in the cheapest form that is known: what a score is measured by.

    For attention over gated messages that is the form with the key folded into the query, `q . (K mu) = (K^T q) . mu`,
    whatever form is computed, so that more work never scores better.
    """
    switches = switches or {}
    total = sum(product.flops for product in products(model, size, units, switches))
    parts = registry.find(model)
    if parts.aggregation is None or parts.aggregation.__name__ != "Attention":
        return total
    computed = sum(product.flops for product in _attention(size, units, switches))
    query = Product(size.nodes, units, units).flops
    key = Product(size.edges, units, units).flops
    folded = query + 2 * switches.get("num_heads", 2) * units * size.edges
    return total - computed + query + min(key, folded)


def _attention(size: Size, units: int, switches: Mapping[str, Any]) -> list[Product]:
    """The products of attention as it is computed: with folded keys, or with keys by edge."""
    heads = switches.get("num_heads", 2)
    if is_folded(heads, size.relations):
        return [Product(size.nodes, units, heads * (units + size.relations))]
    return [Product(size.nodes, units, units), Product(size.edges, units, units)]
