"""`cotenant lab scenes`: the day of phases as a table or as JSON."""

from __future__ import annotations

import json

from cotenant.model.errors import InvalidInput
from cotenant_lab.plant.zone_day import day, table


def report(seed: int, readings: int, *, scenes: bool, as_json: bool) -> int:
    """Run the day and print it. Raises `InvalidInput`."""
    if not 1 <= readings <= 10_000:
        raise InvalidInput("--readings", readings, "1 to 10000")
    if seed < 0:
        raise InvalidInput("--seed", seed, "0 or more")
    phases = day(seed, readings, scenes=scenes)
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
