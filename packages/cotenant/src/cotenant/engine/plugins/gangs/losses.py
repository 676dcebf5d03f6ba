"""Strict gangs as jobs: members on nodes that are of use only together, and how many of them can be spared.

Problem: preemption knows no gangs, only what is lost with a pod (engine/cycle/eviction/losses.py). Choice: a bundle of
gangs that are placed together is one job; members that are leaving count neither as placed nor as spared again. Limits:
a bundle can spare what the scarcest of its gangs can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cotenant.engine.framework.jobs import Job
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.members import Gang


def job_of_bundle(keys: tuple[str, ...], gangs: Sequence[Gang], is_going: Callable[[PodInfo], bool]) -> Job | None:
    """The job of gangs that are placed together; None where none of them is Strict."""
    if not any(gang.is_strict() and gang.spec is not None for gang in gangs):
        return None
    spare: list[int] = []
    members: list[PodInfo] = []
    for gang in gangs:
        stay = [entry for entry in map(gang.members.get, gang.placed) if entry is not None and not is_going(entry)]
        spare.append(len(stay) - (gang.spec.min_available if gang.spec is not None else 0))
        members += stay
    return Job(keys, tuple(sorted(members, key=_least_important_first)), max(0, min(spare)))


def _started_s(entry: PodInfo) -> float:
    started_s = entry.seen.started_s
    return started_s if started_s == started_s else np.inf


def _least_important_first(entry: PodInfo) -> tuple[int, float, str]:
    return entry.seen.pod.priority, -_started_s(entry), entry.seen.uid
