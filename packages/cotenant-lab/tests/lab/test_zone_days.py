"""Days of many seeds: what is said of each phase, the bound of the regret, and what a kept table is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.zones.setting import USUAL_MODES, ZoneMode
from cotenant.policy.zone.scenes import PRICE
from cotenant_lab.cli.commands import scenes
from cotenant_lab.plant.zone_day import DAY, MidDay, PhaseOutcome, day
from cotenant_lab.plant.zone_days import bound_of, days, table

FIXED = {ZoneMode.LATENCY: 0.9, ZoneMode.WEIGHTED: 0.8, ZoneMode.THROUGHPUT: 0.1}


def phase(name: str, learned: float, settled: float) -> PhaseOutcome:
    return PhaseOutcome(name, FIXED, learned, settled, 100, FIXED)


def told(*outcomes: tuple[float, float]) -> dict[str, tuple[str, str]]:
    """The verdicts on a day of one phase, whose seeds have these outcomes."""
    found = days(lambda seed: [phase("one", *outcomes[seed])], range(len(outcomes)))
    return {one.phase: (one.verdict, one.settled_verdict) for one in found.phases}


def test_a_verdict_needs_the_whole_interval() -> None:
    assert told((0.80, 0.90), (0.81, 0.901), (0.79, 0.899)) == {"one": ("loses", "as good")}
    assert told((0.95, 0.90), (0.96, 0.70), (0.95, 1.00)) == {"one": ("better", "not told apart")}
    lines = table(days(lambda seed: [phase("one", 0.8, 0.9)], (1, 2)))
    assert lines[1].split()[:3] == ["one", "latency", "0.900"]
    assert "-0.100 ± 0.000 loses" in lines[1]
    assert "latency 0.900     -0.100 ± 0.000 loses" in lines[2]
    assert lines[3] == "regret of a day: 10.0 ± 0.0 of 100 readings, 10.0 at most; above its bound on 0 of 2 days"


def test_a_day_above_its_bound_is_counted() -> None:
    bound = bound_of([phase("one", 0.9, 0.9)])
    # two worse modes, three trials each of 100 readings and one more, five readings at the begin, 0.8 apart
    assert bound == pytest.approx(0.8 * (2 * (15 + 5) + 5) + PRICE)
    found = days(lambda seed: [phase("one", (0.9, 0.2)[seed], 0.9)], (0, 1))
    assert (found.broken, found.most_regret) == (1, pytest.approx(70.0))


@pytest.mark.slow
def test_what_was_learned_is_worth_its_trials_after_a_restart() -> None:
    def rest(mid_day: MidDay) -> Sequence[PhaseOutcome]:
        return day(seed=5, readings=30, mid_day=mid_day)[len(DAY) // 2 :]

    kept, lost = (sum(one.regret for one in rest(mid_day)) for mid_day in (MidDay.KEPT, MidDay.LOST))
    assert kept < lost, (kept, lost)


@pytest.mark.slow
def test_the_command_tells_of_many_days(capsys: pytest.CaptureFixture[str]) -> None:
    assert scenes(seeds="1-2", readings=4, restart="kept", json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["phase"] for one in found["phases"]] == list(DAY)
    assert found["days"] == 2
    assert found["phases"][0]["best"] in set(USUAL_MODES)
    assert scenes(seeds="1-2", readings=4) == 0
    assert "regret of a day" in capsys.readouterr().out
    for wrong in ({"seeds": "7-7"}, {"seeds": "x"}, {"restart": "often"}):
        with pytest.raises(InvalidInput):
            scenes(readings=4, **wrong)  # type: ignore[arg-type]
