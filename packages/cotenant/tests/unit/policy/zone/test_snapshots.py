"""What policies of this room answer to drawn inputs, as recorded: tests/snapshot."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
from tests.snapshot.room import Room, short

from cotenant.policy.zone import apart, canary, cores, deciding, kernel_choice, protecting, reclaiming, scenes

ROOM = Room(
    Path(__file__).parent,
    (
        apart,
        canary,
        cores,
        deciding,
        kernel_choice,
        protecting,
        reclaiming,
        scenes,
    ),
)


@pytest.mark.parametrize("module", ROOM.modules, ids=short)
def test_answers_as_recorded(module: types.ModuleType) -> None:
    ROOM.compare(module)
