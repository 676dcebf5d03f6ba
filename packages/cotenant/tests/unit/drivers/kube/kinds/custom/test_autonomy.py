"""Autonomy as it is written by people: what is understood, and what a freeze survives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cotenant.drivers.kube.kinds.custom.autonomy import AutonomyObject, read_autonomy
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.autonomy.autonomy import Action, Autonomy, AutonomyRung, Freeze


def read(spec: Any) -> Autonomy:
    return read_autonomy(AutonomyObject(metadata=ObjectMeta(name="a"), spec=spec))


def test_every_field_is_read() -> None:
    found = read(
        {
            "namespaces": ["shop"],
            "actions": ["sizes"],
            "ceiling": "approve",
            "windows": [{"days": ["mon", "fri"], "from": "22:00", "to": "6:30", "timeZone": "Europe/Berlin"}],
            "blackouts": [{"from": "2026-12-24", "to": "2026-12-27T12:00:00Z", "why": "holidays"}],
            "freeze": {"why": "w", "by": "ada"},
        }
    )
    assert (found.wrong, found.namespaces, found.actions) == ((), {"shop"}, {Action.SIZES})
    assert (found.ceiling, found.freeze) == (AutonomyRung.APPROVE, Freeze("w", "ada"))
    (window,), (blackout,) = found.windows, found.blackouts
    assert (window.days, window.from_min, window.until_min) == ({0, 4}, 1320, 390)
    assert blackout.from_s == datetime(2026, 12, 24, tzinfo=UTC).timestamp()
    assert blackout.until_s - blackout.from_s == 84 * 3600


def test_an_empty_object_allows_everything() -> None:
    assert read(None) == Autonomy("a")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespaces", "shop"),
        ("namespaces", [""]),
        ("actions", ["sleep"]),
        ("ceiling", "fly"),
        ("windows", [{"days": ["monday"]}]),
        ("windows", [{"days": []}]),
        ("windows", [{"from": "25:00"}]),
        ("windows", [{"from": "9"}]),
        ("windows", [{"timeZone": "Mars/Olympus"}]),
        ("windows", [{"timeZone": "../../etc/passwd"}]),
        ("blackouts", [{"from": "2026-12-24"}]),
        ("blackouts", [{"from": "2026-12-24", "to": "2026-12-24"}]),
        ("blackouts", [{"from": "soon", "to": "later"}]),
    ],
)
def test_what_cannot_be_read_is_said_and_a_freeze_beside_it_counts(field: str, value: object) -> None:
    found = read({field: value, "freeze": {"why": "w"}})
    assert len(found.wrong) == 1
    assert found.wrong[0].startswith(f"spec.{field}")
    assert found.freeze == Freeze("w")


@pytest.mark.parametrize(("written", "why"), [("now", "now"), ({}, ""), (True, "True"), ([], "[]")])
def test_a_freeze_is_understood_from_whatever_stands_there(written: object, why: str) -> None:
    assert read({"freeze": written}).freeze == Freeze(why)
