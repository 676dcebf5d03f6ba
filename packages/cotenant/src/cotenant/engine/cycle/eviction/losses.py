"""What a preemption would break: jobs that need all of their members, as reported by plugins.

Evicting one member of a job ends the job and frees one place. A job can spare the members above its minimum; evicting
one more loses all of its placed members. It may be lost only if every one of its members may be evicted; otherwise only
the spare members of lowest priority are candidates. The choice itself is pure (policy/placement/preemption.py,
policy/quota/preemption.py).
Limits: a job that needs another one which does not name it in turn is not lost with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.roster import Roster
from cotenant.model.arrays import Int, Mask
from cotenant.policy.placement.preemption import NO_JOBS, JobTotals, importance

Covering = Callable[[Int], tuple[Int, Mask, Int]]  # numbers of pods -> as `Candidates.group`, `covered` and `bears`


@dataclass(frozen=True, slots=True)
class AtStake:
    """The jobs that one preemptor may break. P pods by number."""

    jobs: JobTotals
    of: Int  # [P] which job, -1 = none
    spared: Int  # numbers that are not to be evicted


NOTHING_AT_STAKE = AtStake(NO_JOBS, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class JobLosses:
    """The jobs of one cluster."""

    def __init__(self, roster: Roster, is_going: Callable[[PodInfo], bool]) -> None:
        """`is_going`: whether a pod is ending, or its eviction was requested."""
        self._roster = roster
        self._is_going = is_going

    def job_of(self, entry: PodInfo) -> PlacedJob | None:
        """The job that a placed pod is a member of; None for a pod that runs on its own."""
        found = (evicting.job_of(entry, self._is_going) for evicting in self._roster.evicting)
        return next((job for job in found if job is not None), None)

    def keys_of(self, entry: PodInfo) -> tuple[str, ...]:
        """The keys of the groups that are placed together with a pod, its own included."""
        return tuple(key for grouping in self._roster.grouping for key in grouping.together(entry).keys)

    def jobs(self) -> tuple[PlacedJob, ...]:
        """Every job with members on nodes."""
        return tuple(job for evicting in self._roster.evicting for job in evicting.jobs(self._is_going))

    def at_stake(
        self,
        jobs: Iterable[PlacedJob],
        priorities: Int,
        priority: int,
        covering: Covering,
        own: Iterable[str] = (),
        none_falls: bool = False,
        gone: frozenset[int] = frozenset(),
    ) -> AtStake:
        """For a preemptor of this priority, of the gangs `own`. `priorities` are by number, as the preemptor sees
        them. `none_falls`: no member that a job needs is a candidate; `gone`: numbers of pods that are removed
        already.
        """
        own = frozenset(own)
        whole: list[tuple[list[PodInfo], int]] = []
        of, spared = np.full(len(priorities), -1, dtype=np.int64), list[int]()
        for job in jobs:
            left = [entry for entry in job.members if entry.number not in gone]
            lower = [entry for entry in left if priorities[entry.number] < priority]
            if not lower:
                continue
            spare = max(0, job.spare - (len(job.members) - len(left)))
            if none_falls or len(lower) < len(left) or not own.isdisjoint(job.keys):
                spared += [entry.number for entry in lower[spare:]]
                continue
            of[[entry.number for entry in left]] = len(whole)
            whole.append((left, spare))
        if not whole:
            return AtStake(NO_JOBS, of, np.array(spared, dtype=np.int64))
        return AtStake(_table(whole, covering), of, np.array(spared, dtype=np.int64))


def _table(whole: Sequence[tuple[Sequence[PodInfo], int]], covering: Covering) -> JobTotals:
    ranks = [[_importance(entry) for entry in members] for members, _ in whole]
    highest = [max(rank) for rank in ranks]
    earliest = [
        min(_started_s(entry) for entry, own in zip(members, element, strict=True) if own == top)
        for (members, _), element, top in zip(whole, ranks, highest, strict=True)
    ]
    numbers = tuple(tuple(entry.number for entry in members) for members, _ in whole)
    group, covered, bears = covering(np.array([number for element in numbers for number in element], dtype=np.int64))
    ends = np.cumsum([len(element) for element in numbers])[:-1]
    over = [
        int((covered[groups] & (covered[groups].cumsum(axis=0) > bears)).any(axis=1).sum())
        for groups in np.split(group, ends)
    ]
    return JobTotals(
        np.array([spare for _, spare in whole], dtype=np.int64),
        np.array(over, dtype=np.int64),
        np.array(highest, dtype=np.int64),
        np.array([sum(rank) for rank in ranks], dtype=np.int64),
        np.array([len(element) for element in numbers], dtype=np.int64),
        np.array(earliest, dtype=np.float64),
        numbers,
    )


def _importance(entry: PodInfo) -> int:
    return int(importance(np.array(entry.seen.pod.priority), np.array(entry.seen.pod.sub_priority)))


def _started_s(entry: PodInfo) -> float:
    started_s = entry.seen.started_s
    return started_s if started_s == started_s else np.inf
