"""The highest use of any replica by the hour, as it is stored in a status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cotenant.model.assess.history import Float32
from cotenant.model.machine.node_metric import Use
from cotenant.model.sizes.right_sizing import MAX_HOURS, HourlyUse

HOUR_S = 3600.0
_MIB = 1 << 20


def observed(history: HourlyUse, uses: Iterable[Use], at_s: float) -> HourlyUse:
    """With one report of the replicas' use. Reports of the hour before the last that is stored are left out: the clocks
    of two leaders may be as far apart. Hours that lie further ahead were stored by a clock that was wrong: the last of
    them counts as now.
    """
    worst = [*uses]
    if not worst:
        return history
    cpu_m = max(use.cpu_m for use in worst)
    memory_mib = -(-max(use.memory_bytes for use in worst) // _MIB)
    hour = int(at_s // HOUR_S)
    last = history.first_hour + len(history.cpu_m) - 1
    if history.cpu_m and hour == last - 1:
        return history
    if history.cpu_m and hour < last:
        ahead = last - hour
        since_s = min(history.since_s - ahead * HOUR_S, at_s)
        history, last = replace(history, first_hour=history.first_hour - ahead, since_s=since_s), hour
    if not history.cpu_m or hour - last > MAX_HOURS:
        return HourlyUse(hour, (cpu_m,), (memory_mib,), at_s)
    gap = (-1,) * (hour - last - 1)
    if hour == last:
        cpu = (*history.cpu_m[:-1], max(history.cpu_m[-1], cpu_m))
        memory = (*history.memory_mib[:-1], max(history.memory_mib[-1], memory_mib))
    else:
        cpu, memory = (*history.cpu_m, *gap, cpu_m), (*history.memory_mib, *gap, memory_mib)
    over = max(0, len(cpu) - MAX_HOURS)
    return replace(history, first_hour=history.first_hour + over, cpu_m=cpu[over:], memory_mib=memory[over:])


def known_s(history: HourlyUse, now_s: float) -> float:
    """For how long the use is known: of hours that are counted, and not of the gaps between them."""
    if history.since_s <= 0:
        return 0.0
    return min(now_s - history.since_s, HOUR_S * sum(value >= 0 for value in history.cpu_m))


def rows(history: HourlyUse) -> tuple[Float32, Float32]:
    """CPU and memory as rows of one series; NaN where unknown."""
    both = []
    for values in (history.cpu_m, history.memory_mib):
        found = np.array(values, np.float32).reshape(1, -1)
        both.append(np.where(found < 0, np.float32(np.nan), found))
    return both[0], both[1]
