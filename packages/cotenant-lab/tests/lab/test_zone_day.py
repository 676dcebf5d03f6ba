"""A day of phases: the zone that learns its scenes ends at the best fixed scheduler of each, at a bounded price."""

from __future__ import annotations

import json

import pytest

from cotenant.policy.zone.scenes import TRIAL, wanted_readings
from cotenant_lab.cli.commands import scenes
from cotenant_lab.plant.zone_day import DAY, PHASES, day, table

READINGS = 60


@pytest.mark.slow
def test_a_learned_zone_is_as_good_as_the_best_fixed_scheduler_of_each_phase() -> None:
    phases = day(seed=3, readings=READINGS)
    assert [phase.phase for phase in phases] == list(DAY)
    bests = set()
    for name in PHASES:
        last = [phase for phase in phases if phase.phase == name][-1]
        assert last.settled >= last.best - 0.02, last
        worst_gap = last.best - min(last.fixed.values())
        regret = sum(phase.regret for phase in phases if phase.phase == name)
        occurrences = DAY.count(name)
        # two worse modes, each for its trials and one reading of every change on the way, and the readings at the
        # begin of each phase in which the scene is not known yet
        trials = 2 * (wanted_readings(occurrences * READINGS, 3) + TRIAL)
        assert regret <= worst_gap * (trials + 5 * occurrences), (name, regret)
        bests.add(max(last.fixed, key=lambda mode: last.fixed[mode]))
    assert len(bests) > 1  # no fixed scheduler is best in all phases
    assert len(table(phases)) == len(phases) + 1


@pytest.mark.slow
def test_the_command_prints_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    assert scenes(seed=1, readings=4, json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [phase["phase"] for phase in found["phases"]] == list(DAY)
    assert scenes(seed=1, readings=4) == 0
    assert "batch alone" in capsys.readouterr().out
