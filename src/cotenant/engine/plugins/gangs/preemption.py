"""Victims for a whole Strict gang, selected by simulated evictions on the real arrays, which are restored.

Problem: evicting for one member after another costs other pods their nodes although the gang may not fit in the end. Choice: the gang is placed as far as it fits.
For each missing member victims are selected as for a single pod (less important ones, gangs spared first, then pods whose budgets are spent, no more than needed), removed from
their nodes for the moment, and the member is placed there. A Strict gang that cannot spare a victim is evicted whole, and the resources that it frees on other nodes are used
for the next members; since it is evicted in any case, a second simulation starts without it, and counts if it costs fewer pods. If the minimum is reached, also when all
members are placed again without any victim, victims and nodes are the plan. A gang with a required topology is simulated in one domain after another, and the domain with the
least loss counts. Limits: victims for at most `MOST_SEARCHES` members per simulation; budgets are counted node by node; a preferred topology is not considered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cotenant.engine.cycle.components import Components
from cotenant.engine.cycle.placing import Judgement
from cotenant.engine.cycle.simulated_evictions import Trial, trial
from cotenant.engine.framework.jobs import Job
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.plugins.gangs.topology import Place, places_to_clear
from cotenant.model.arrays import Int, Mask

MOST_SEARCHES = 128


def place_each(
    components: Components, expected: Sequence[tuple[PodInfo, int]], others: Mask, now_s: float
) -> list[Judgement]:
    """Place each on the very row it is expected on, those with -1 on rows of `others`, in this order."""
    every = np.arange(len(components.assignments.names))
    return [components.placing.place([entry], now_s, others if row < 0 else every == row)[0] for entry, row in expected]


@dataclass(frozen=True, slots=True)
class Plan:
    """The victims, and the rows of the gang's members."""

    rows: tuple[tuple[PodInfo, int], ...]
    victims: tuple[PodInfo, ...]
    breaks_budgets: int
    fallen: tuple[PodInfo, ...] = ()  # those of the victims that are members of gangs evicted whole

    def loss(self) -> tuple[int, int, int, int, int]:
        """Sort key: whether a gang is lost, then as kube-scheduler compares nodes."""
        priorities = [victim.seen.pod.priority for victim in self.victims]
        return bool(self.fallen), self.breaks_budgets, max(priorities), sum(priorities), len(priorities)


@dataclass(frozen=True, slots=True)
class _Task:
    keys: tuple[str, ...]
    entries: Sequence[PodInfo]
    priority: int
    jobs: Sequence[Job]
    place: Place
    now_s: float


@dataclass(slots=True)
class _Found:
    placed: list[PodInfo] = field(default_factory=list)
    fallen: list[PodInfo] = field(default_factory=list)
    breaks_budgets: int = 0
    of_fallen: int = 0  # those of them for gangs evicted whole


class GangPreempting:
    """Selects victims for whole gangs."""

    def __init__(self, components: Components, gangs: GangDirectory) -> None:
        self._components = components
        self._gangs = gangs

    def attempt(self, keys: tuple[str, ...], entries: list[PodInfo], now_s: float) -> Plan | str:
        """A plan, or why there is none. The nominations of the bundle and of less important pods must be hidden; nothing is changed."""
        if any(not entry.seen.preempts for entry in entries):
            return "not eligible due to preemptionPolicy=Never"
        priority = min(entry.seen.pod.priority for entry in entries)
        places = places_to_clear(
            self._components.assignments, self._gangs, keys, priority, self._least_requests(keys, entries)
        )
        jobs = self._components.losses.jobs() if places else ()
        best: Plan | None = None
        why = ""
        for place in places:
            found = self._in(_Task(keys, entries, priority, jobs, place, now_s))
            if isinstance(found, str):
                why = found
            elif best is None or found.loss() < best.loss():
                best = found
        return best or why

    def _least_requests(self, keys: tuple[str, ...], entries: list[PodInfo]) -> Int:
        """`int64[R]`: the least that as many members as are missing request."""
        requests = self._components.assignments.ledger.shapes.request[[entry.shape for entry in entries]]
        missing = max(1, sum(tally.lacks() for tally in self._gangs.lacking(keys, ())))
        return np.sort(requests, axis=0)[:missing].sum(axis=0)

    def _in(self, task: _Task) -> Plan | str:
        """A plan for one set of rows."""
        found = _Found()
        first = self._simulate(task, found)
        if isinstance(first, str) or len(first.fallen) in (0, len(first.victims)):
            return first
        anyway = _Found(fallen=list(first.fallen), breaks_budgets=found.of_fallen, of_fallen=found.of_fallen)
        second = self._simulate(task, anyway)
        return second if isinstance(second, Plan) and second.loss() < first.loss() else first

    def _simulate(self, task: _Task, found: _Found) -> Plan | str:
        """A plan by simulated evictions; those that are `fallen` already are evicted in any case."""
        assignments, placing = self._components.assignments, self._components.placing
        mark = placing.mark()
        with trial(assignments) as off:
            off.remove(found.fallen)
            try:
                why = self._place_all(task, found, off)
                rows = tuple((entry, int(assignments.ledger.row[entry.number])) for entry in found.placed)
                victims = off.gone()
            finally:
                placing.undo(found.placed, mark)
            if why or not victims:
                return why
            if not self._fits_then(task, dict(rows)):
                return "preemption: members need pods that would be evicted"
        return Plan(rows, victims, found.breaks_budgets, tuple(found.fallen))

    def _fits_then(self, task: _Task, rows: Mapping[PodInfo, int]) -> bool:
        """Whether members that were placed before the last victims were removed are placed again without any victim."""
        placing = self._components.placing
        mark = placing.mark()
        ordered = [(entry, rows[entry]) for entry in task.entries if entry in rows]
        judged = place_each(self._components, ordered, task.place.only, task.now_s)
        placed = [entry for (entry, _), judgement in zip(ordered, judged, strict=True) if judgement.row >= 0]
        placing.undo(placed, mark)
        return bool(placed) and not self._gangs.lacking(task.keys, placed)

    def _place_all(self, task: _Task, found: _Found, off: Trial) -> str:
        """Place members, with evictions where needed, until the minimum is reached; why not."""
        assignments, placing, preempting = (
            self._components.assignments,
            self._components.placing,
            self._components.preempting,
        )
        placed, place, now_s = found.placed, task.place, task.now_s
        judged = placing.place(task.entries, now_s, place.only)
        missing: list[PodInfo] = []
        for entry, judgement in zip(task.entries, judged, strict=True):
            (placed if judgement.row >= 0 else missing).append(entry)
        looks = 0
        for entry in missing:
            if self._is_enough(task, found):
                return ""
            if off.gone() and placing.place([entry], now_s, place.only)[0].row >= 0:
                placed.append(entry)
                continue
            looks += 1
            if looks > MOST_SEARCHES:
                return f"preemption: victims are searched for {MOST_SEARCHES} members at most"
            stake = preempting.at_stake(task.jobs, entry, task.priority, gone=off.numbers())
            look = preempting.look(entry, task.priority, stake, place.only)
            if look.row < 0:
                return look.headline(len(assignments.encoder.node_rows))
            off.remove(assignments.pods.by_number[number] for number in (*look.victims, *look.rest))
            found.fallen += [
                assignments.pods.by_number[number] for u in look.fallen for number in stake.jobs.members[u]
            ]
            found.breaks_budgets += look.violations
            found.of_fallen += sum(int(stake.jobs.violations[u]) for u in look.fallen)
            only = np.zeros(len(assignments.names), dtype=np.bool_)
            only[look.row] = True
            if placing.place([entry], now_s, only)[0].row < 0:
                return "preemption: a member does not fit even without any less important pod"
            placed.append(entry)
        return "" if self._is_enough(task, found) else "preemption: too few members"

    def _is_enough(self, task: _Task, found: _Found) -> bool:
        return bool(found.placed) and not self._gangs.lacking(task.keys, found.placed)
