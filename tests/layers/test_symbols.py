"""Nothing of `tfgnn.keras.layers` is missing by accident."""

import inspect
from pathlib import Path

import keras
import pytest
import tensorflow as tf

from sggnn_tf import layers, tfgnn
from tests.layers.parity import THEIRS

NOT_PORTED = {
    "ParseExample": "data-side: call tfgnn.parse_example in the tf.data pipeline",
    "ParseSingleExample": "data-side: call tfgnn.parse_single_example in the tf.data pipeline",
    "PadToTotalSizes": "data-side: call tfgnn.pad_to_total_sizes in the tf.data pipeline",
    "ReadoutNamed": "obsolete alias of StructuredReadout",
    "ReadoutNamedIntoFeature": "obsolete alias of StructuredReadoutIntoFeature",
}
SYMBOLS = [name for name in dir(tfgnn.keras.layers) if not name.startswith("_")]
PORTED = [*(name for name in SYMBOLS if name not in NOT_PORTED), "ConvGNNBuilder"]
MIGRATION_GUIDE = Path(__file__).parents[2] / "docs" / "migration.md"


def parameters(cls):
    """`{name: kind}` of what a constructor takes, by itself or by the base class to which it hands `**kwargs` on."""
    found = {}
    for base in cls.__mro__:
        if base in (keras.layers.Layer, tf.keras.layers.Layer):
            break
        if "__init__" in vars(base):
            own = list(inspect.signature(base.__init__).parameters.values())[1:]
            found |= {p.name: p.kind for p in own if p.kind is not p.VAR_KEYWORD and p.name not in found}
            if not any(p.kind is p.VAR_KEYWORD for p in own):
                break
    return found


def by_position(parameters):
    return [name for name, kind in parameters.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]


def test_every_symbol_is_ported_or_has_a_reason_not_to_be():
    assert set(SYMBOLS) == (set(SYMBOLS) & set(layers.__all__)) | NOT_PORTED.keys()
    assert not NOT_PORTED.keys() & set(layers.__all__)


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_every_symbol_is_in_the_migration_guide(symbol):
    rows = [line for line in MIGRATION_GUIDE.read_text().splitlines() if line.startswith("|")]
    assert any(f"`{symbol}`" in row for row in rows)


@pytest.mark.parametrize("symbol", PORTED)
def test_constructors_take_the_same_parameters(symbol):
    theirs, ours = (parameters(getattr(side, symbol)) for side in (THEIRS[0], layers))
    assert theirs.keys() <= ours.keys()
    assert by_position(ours)[: len(by_position(theirs))] == by_position(theirs)


@pytest.mark.parametrize("symbol", [name for name in PORTED if hasattr(getattr(layers, name), "call")])
def test_calls_take_the_same_parameters(symbol):
    theirs, ours = (inspect.signature(getattr(side, symbol).call).parameters for side in (THEIRS[0], layers))
    assert theirs.keys() <= ours.keys()


@pytest.mark.parametrize(
    ("symbol", "kwargs"),
    [
        ("Broadcast", {}),
        ("Broadcast", {"tag": tfgnn.SOURCE, "edge_set_name": ["writes", "cites"], "feature_name": "year"}),
        ("Pool", {}),
        ("Pool", {"tag": tfgnn.CONTEXT, "reduce_type": "sum", "node_set_name": "paper"}),
        ("Readout", {}),
        ("Readout", {"from_context": True}),
        ("Readout", {"edge_set_name": "cites", "feature_name": "weight"}),
        ("ReadoutFirstNode", {}),
        ("ReadoutFirstNode", {"node_set_name": "paper", "feature_name": "year"}),
    ],
)
def test_public_properties_have_the_same_values(symbol, kwargs):
    theirs, ours = (getattr(side, symbol)(**kwargs) for side in (THEIRS[0], layers))
    of_keras = dir(tf.keras.layers.Layer)
    properties = inspect.getmembers(type(theirs), lambda member: isinstance(member, property))
    for name, _ in properties:
        if name not in of_keras and not name.startswith("_"):
            assert getattr(ours, name) == getattr(theirs, name), name
