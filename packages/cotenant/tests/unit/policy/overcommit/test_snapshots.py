"""What policies of this room answer to drawn inputs, as recorded: tests/snapshot."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
from tests.snapshot.room import Room, short

from cotenant.policy.overcommit import (
    amplification,
    batch,
    columns,
    configuration,
    facts,
    gpu_totals,
    histogram,
    hysteresis,
    mid,
    node_ratios,
    node_slo,
    nothing_lent,
    peak,
    predicted_use,
    prediction,
    reclaimable,
    selection,
    strategy,
    writing,
    zones,
)

ROOM = Room(
    Path(__file__).parent,
    (
        amplification,
        batch,
        columns,
        configuration,
        facts,
        gpu_totals,
        histogram,
        hysteresis,
        mid,
        node_ratios,
        node_slo,
        nothing_lent,
        peak,
        predicted_use,
        prediction,
        reclaimable,
        selection,
        strategy,
        writing,
        zones,
    ),
)


@pytest.mark.parametrize("module", ROOM.modules, ids=short)
def test_answers_as_recorded(module: types.ModuleType) -> None:
    ROOM.compare(module)
