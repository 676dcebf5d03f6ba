"""Strict gangs as jobs: members on nodes that are of use only together, and how many of them can be spared.

Preemption knows no gangs, only what is lost with a pod (engine/cycle/eviction/losses.py). A bundle of gangs that are
placed together is one job; members that are leaving count neither as placed nor as spared again.
Limits: a bundle can spare what the scarcest of its gangs can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.model.groups.gang import Disruption, GangMode


def job_of_bundle(
    keys: tuple[str, ...], gangs: Sequence[Gang], is_going: Callable[[PodInfo], bool]
) -> PlacedJob | None:
    """The job of gangs that are placed together; None where none of them is Strict, or each member may go by itself."""
    specs = [gang.spec for gang in gangs if gang.spec is not None]
    if not any(spec.mode is GangMode.STRICT and spec.disruption is not Disruption.SINGLE for spec in specs):
        return None
    whole = any(spec.disruption is Disruption.ALL for spec in specs)
    spare: list[int] = []
    members: list[PodInfo] = []
    for gang in gangs:
        stay = [entry for entry in map(gang.members.get, gang.placed) if entry is not None and not is_going(entry)]
        spare.append(len(stay) - (gang.spec.min_available if gang.spec is not None else 0))
        members += stay
    spared = 0 if whole else max(0, min(spare))
    return PlacedJob(keys, tuple(sorted(members, key=_least_important_first)), spared)


def _started_s(entry: PodInfo) -> float:
    started_s = entry.seen.started_s
    return started_s if started_s == started_s else np.inf


def _least_important_first(entry: PodInfo) -> tuple[int, float, str]:
    return entry.seen.pod.priority, -_started_s(entry), entry.seen.uid
