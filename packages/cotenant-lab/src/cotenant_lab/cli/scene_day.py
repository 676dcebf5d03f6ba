"""`cotenant lab scenes`: the day of phases, or many of them, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from cotenant.model.errors import InvalidInput
from cotenant_lab.plant import zone_days
from cotenant_lab.plant.zone_day import DAY, MidDay, day, table
from cotenant_lab.seeds import read_seeds
from cotenant_lab.statistics import Interval


def report(seed: int, readings: int, *, scenes: bool, as_json: bool, seeds: str = "", restart: str = "nothing") -> int:
    """Run the day and print it; with `seeds`, one of each. Raises `InvalidInput`."""
    if not 1 <= readings <= 10_000:
        raise InvalidInput("--readings", readings, "1 to 10000")
    if seed < 0:
        raise InvalidInput("--seed", seed, "0 or more")
    if restart not in set(MidDay):
        raise InvalidInput("--restart", restart, ", ".join(MidDay))
    mid_day = MidDay(restart)
    if seeds:
        named = read_seeds(seeds)
        if len(named) < 2:
            raise InvalidInput("--seeds", seeds, "two seeds or more", "--seed plays one day")
        found = zone_days.days(lambda one: day(one, readings, DAY, scenes, mid_day), named)
        for line in [json.dumps(_many(found))] if as_json else zone_days.table(found):
            print(line)
        return 0
    phases = day(seed, readings, scenes=scenes, mid_day=mid_day)
    regret = sum(phase.regret for phase in phases)
    if as_json:
        rows = [
            {
                "phase": phase.phase,
                "fixed": {mode.value: round(outcome, 4) for mode, outcome in phase.fixed.items()},
                "zone": round(phase.learned, 4),
                "settled": round(phase.settled, 4),
                "regret": round(phase.regret, 2),
            }
            for phase in phases
        ]
        print(json.dumps({"phases": rows, "regret": round(regret, 2)}))
        return 0
    for line in table(phases):
        print(line)
    print(f"regret of the day: {regret:.1f} of {sum(phase.readings for phase in phases)} readings")
    return 0


def _many(found: zone_days.Days) -> Mapping[str, object]:
    return {
        "phases": [
            {
                "phase": phase.phase,
                "best": phase.best.value,
                "fixed": round(phase.fixed, 4),
                "whole": _interval(phase.whole, phase.verdict),
                "settled": _interval(phase.settled, phase.settled_verdict),
            }
            for phase in found.phases
        ],
        "wholeDay": {
            "best": found.all_day.value,
            "fixed": round(found.all_day_fixed, 4),
            **_interval(found.all_day_less, zone_days.verdict(found.all_day_less)),
        },
        "regret": {"mean": round(found.regret.mean, 2), "halfWidth": round(found.regret.half_width, 2)},
        "mostRegret": round(found.most_regret, 2),
        "nearestBound": round(found.bound, 2),
        "daysAboveBound": found.broken,
        "days": found.regret.count,
    }


def _interval(found: Interval, verdict: str) -> Mapping[str, object]:
    return {"mean": round(found.mean, 4), "halfWidth": round(found.half_width, 4), "verdict": verdict}
