"""Lending by predicted use: from `peak` to the quantile of the next hour, and what of it is said to hold for longer."""

from __future__ import annotations

import json
from math import pi, sin
from typing import Any

import pytest
from tests.fakes.processes.managed_world import World

from cotenant.policy.overcommit.facts import Policy


def _world(hours: int) -> World:
    """A node whose services use 20 to 60 of 100 cores by the time of day, measured every twenty minutes."""
    world = World(cpuCalculatePolicy="predicted", degradeTimeMinutes=60)
    world.now_s = 480_000 * 3600.0
    world.node()
    world.pod("a", cores=80)
    for step in range(3 * hours):
        hour = step / 3
        world.measure(a=round(40_000 + 20_000 * sin(2 * pi * hour / 24) + 500 * (step * 7 % 5)))
        world.step(1200)
    return world


def _written(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.nodes["n"].written)
    return found


def test_a_node_that_is_not_known_lends_by_peak_and_says_so() -> None:
    written = _written(_world(3))
    assert written["amounts"]["batch-cpu"]["policy"] == Policy.PEAK
    assert "holds" not in written


@pytest.mark.slow
def test_a_known_node_lends_what_holds_for_the_next_hour_and_less_for_longer() -> None:
    world = _world(7 * 24)  # ends where use begins to rise
    written = _written(world)
    amount = written["amounts"]["batch-cpu"]
    assert amount["policy"] == Policy.PREDICTED
    assert sum(term for _, term in amount["terms"]) == amount["value"] == world.lent()["batch-cpu"]
    for hours, ahead in written["holds"]["batch-cpu"].items():
        assert ahead <= amount["value"], hours
    assert 15_000 <= written["holds"]["batch-cpu"]["24"] <= 42_000  # the day takes 60 of 100
    assert amount["value"] > written["holds"]["batch-cpu"]["24"] + 5_000


@pytest.mark.slow
def test_memory_keeps_its_own_policy() -> None:
    assert _written(_world(7 * 24))["amounts"]["batch-memory"]["policy"] == Policy.USAGE
