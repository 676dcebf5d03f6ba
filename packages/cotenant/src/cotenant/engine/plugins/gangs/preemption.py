"""Victims for a whole Strict gang, selected by simulated evictions on the real arrays, which are restored.

Evicting for one member after another costs other pods their nodes although the gang may not fit in the end. The gang is
placed as far as it fits. For each missing member victims are selected as for a single pod (less important ones, gangs
spared first, then pods whose budgets are spent, no more than needed), removed from their nodes for the moment, and the
member is placed there. A Strict gang that cannot spare a victim is evicted whole, and the resources that it frees on
other nodes are used for the next members; since it is evicted in any case, a second simulation starts without it, and
counts if it costs fewer pods. If the minimum is reached, also when all members are placed again without any victim,
victims and nodes are the plan. A gang with a required topology is simulated in one domain after another, and the domain
with the least loss counts. Members that own reservations draw from them in a simulation as when they are placed, and
victims for one of them are searched with its reservations hidden too; where one drew, the same is simulated without
drawing, and the lesser loss counts. Where neither gives a plan, members that draw are placed once more after the
others, which have fewer nodes.
Limits: what a victim drew returns to its reservation, not to the gang; victims for at most `MAX_SEARCHES` members per
simulation; budgets are counted node by node; a preferred topology is not considered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.engine.cycle.access import GroupPlacer
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.losses import AtStake
from cotenant.engine.cycle.eviction.simulated_evictions import EvictionTrial, trial
from cotenant.engine.cycle.placing import PodJudgement
from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.plugins.gangs.topology import TopologyPlace, places_to_clear
from cotenant.model.arrays import Int, Mask
from cotenant.policy.placement.preemption import Preemption

MAX_SEARCHES = 128


def place_each(
    placer: GroupPlacer,
    rows: int,
    expected: Sequence[tuple[PodInfo, int]],
    others: Mask,
    now_s: float,
    drawing: bool,
) -> list[PodJudgement]:
    """Place each on the very row it is expected on, of so many `rows`; those with -1 on rows of `others`; in this
    order.
    """
    every = np.arange(rows)
    return [placer.place([entry], now_s, others if row < 0 else every == row, drawing)[0] for entry, row in expected]


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
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
    jobs: Sequence[PlacedJob]
    place: TopologyPlace
    now_s: float
    drawing: bool = True  # whether members may draw from reservations
    owners_last: bool = False  # whether members that may draw are placed after all others have been


@dataclass(slots=True)
class _Found:
    placed: list[PodInfo] = field(default_factory=list)
    fallen: list[PodInfo] = field(default_factory=list)
    breaks_budgets: int = 0
    of_fallen: int = 0  # those of them for gangs evicted whole
    drew: bool = False  # whether a member was placed on reserved resources


class GangPreempting:
    """Selects victims for whole gangs."""

    def __init__(self, components: ClusterComponents, gangs: GangDirectory, placer: GroupPlacer) -> None:
        self._components = components
        self._gangs = gangs
        self._placer = placer

    def attempt(self, keys: tuple[str, ...], entries: list[PodInfo], now_s: float) -> PreemptionPlan | str:
        """A plan, or why there is none. The nominations of the bundle and of less important pods must be hidden;
        nothing is changed.
        """
        if any(not entry.seen.preempts for entry in entries):
            return "not eligible due to preemptionPolicy=Never"
        priority = min(entry.seen.pod.priority for entry in entries)
        places = places_to_clear(
            self._components.assignments,
            self._gangs,
            keys,
            priority,
            self._min_requests(keys, entries),
            all(entry.seen.pod.is_best_effort for entry in entries),
        )
        jobs = self._components.losses.jobs() if places else ()
        best: PreemptionPlan | None = None
        why = ""
        for place in places:
            found = self._in(_Task(keys, entries, priority, jobs, place, now_s))
            if isinstance(found, str):
                why = found
            elif best is None or found.loss() < best.loss():
                best = found
        return best or why

    def _min_requests(self, keys: tuple[str, ...], entries: list[PodInfo]) -> Int:
        """`int64[R]`: the least that as many members as are missing request beside what they may draw from
        reservations.
        """
        assignments = self._components.assignments
        requests = assignments.ledger.shapes.request[[entry.shape for entry in entries]]
        missing = max(1, sum(tally.lacks() for tally in self._gangs.lacking(keys, ())))
        least: Int = np.sort(requests, axis=0)[:missing].sum(axis=0)
        axis = assignments.encoder.axis
        for name, amount in self._placer.usable(entries):
            if name in axis.names:
                least[axis.column(name)] = max(0, least[axis.column(name)] - amount)
        return least

    def _in(self, task: _Task) -> PreemptionPlan | str:
        """A plan for one set of rows."""
        found = _Found()
        plan = self._cheaper(task, found)
        if not found.drew:
            return plan
        without = self._cheaper(replace(task, drawing=False), _Found())
        if isinstance(plan, PreemptionPlan):
            return without if isinstance(without, PreemptionPlan) and without.loss() < plan.loss() else plan
        if isinstance(without, PreemptionPlan):
            return without
        last = self._cheaper(replace(task, owners_last=True), _Found())
        return last if isinstance(last, PreemptionPlan) else without

    def _cheaper(self, task: _Task, found: _Found) -> PreemptionPlan | str:
        """The first plan, or the one that begins with the gangs that the first evicts whole, if it costs less."""
        first = self._simulate(task, found)
        if isinstance(first, str):
            return first
        best = first
        if len(first.fallen) not in (0, len(first.victims)):
            anyway = _Found(fallen=list(first.fallen), breaks_budgets=found.of_fallen, of_fallen=found.of_fallen)
            second = self._simulate(task, anyway)
            best = second if isinstance(second, PreemptionPlan) and second.loss() < first.loss() else first
        return self._spared(task, best)

    def _spared(self, task: _Task, plan: PreemptionPlan) -> PreemptionPlan:
        """The plan without victims that its members do not need on their nodes, the most important spared first: those
        for a later member may be enough for an earlier one too.
        """
        units = self._units(plan)
        if len(units) < 2:
            return plan
        victims = set(plan.victims)
        for unit in units[:MAX_SEARCHES]:
            kept = [victim for victim in plan.victims if victim in victims and victim not in unit]
            if kept and self._suffices(task, plan, kept):
                victims.difference_update(unit)
        if len(victims) == len(plan.victims):
            return plan
        left = tuple(victim for victim in plan.victims if victim in victims)
        fallen = tuple(victim for victim in plan.fallen if victim in victims)
        return PreemptionPlan(plan.rows, left, self._components.preempting.breaks_budgets(left), fallen)

    def _units(self, plan: PreemptionPlan) -> list[frozenset[PodInfo]]:
        """What can be spared by itself: gangs that are evicted whole, then single pods. What ends already is not."""
        losses, is_going = self._components.losses, self._components.preempting.is_going
        gangs: dict[tuple[str, ...], set[PodInfo]] = {}
        for entry in plan.fallen:
            gangs.setdefault(losses.keys_of(entry), set()).add(entry)
        single = [victim for victim in plan.victims if victim not in plan.fallen and not is_going(victim)]
        single.sort(key=lambda entry: entry.seen.pod.priority, reverse=True)
        return [*map(frozenset, gangs.values()), *(frozenset({entry}) for entry in single)]

    def _suffices(self, task: _Task, plan: PreemptionPlan, victims: Sequence[PodInfo]) -> bool:
        """Whether every member of the plan finds its node without these victims."""
        placing, nodes = self._components.placing, len(self._components.assignments.names)
        mark = placing.mark()
        with trial(self._components.assignments) as off:
            off.remove(victims)
            judged = place_each(self._placer, nodes, plan.rows, task.place.only, task.now_s, task.drawing)
            placed = [entry for (entry, _), judgement in zip(plan.rows, judged, strict=True) if judgement.row >= 0]
            placing.undo(placed, mark)
            self._placer.undo(task.now_s)
        return len(placed) == len(plan.rows)

    def _simulate(self, task: _Task, found: _Found) -> PreemptionPlan | str:
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
                found.drew |= self._placer.drew
                placing.undo(found.placed, mark)
                self._placer.undo(task.now_s)
            if why or not victims:
                return why
            if not self._fits_then(task, dict(rows)):
                return "preemption: members need pods that would be evicted"
        return PreemptionPlan(rows, victims, found.breaks_budgets, tuple(found.fallen))

    def _fits_then(self, task: _Task, rows: Mapping[PodInfo, int]) -> bool:
        """Whether members that were placed before the last victims were removed are placed again without any victim."""
        placing = self._components.placing
        mark = placing.mark()
        ordered = [(entry, rows[entry]) for entry in task.entries if entry in rows]
        nodes = len(self._components.assignments.names)
        judged = place_each(self._placer, nodes, ordered, task.place.only, task.now_s, task.drawing)
        placed = [entry for (entry, _), judgement in zip(ordered, judged, strict=True) if judgement.row >= 0]
        placing.undo(placed, mark)
        self._placer.undo(task.now_s)
        return bool(placed) and not self._gangs.lacking(task.keys, placed)

    def _place_all(self, task: _Task, found: _Found, off: EvictionTrial) -> str:
        """Place members, with evictions where needed, until the minimum is reached; why not."""
        left = MAX_SEARCHES
        for turn in self._turns(task):
            why, left = self._place_turn(turn, task, found, off, left)
            if why:
                return why
        return "" if self._is_enough(task, found) else "preemption: too few members"

    def _turns(self, task: _Task) -> tuple[Sequence[PodInfo], ...]:
        """The members in the order in which they are placed; those of a turn together as far as they fit."""
        if not task.owners_last:
            return (task.entries,)
        owners = [bool(self._placer.usable([entry])) for entry in task.entries]
        return tuple(
            [entry for entry, owns in zip(task.entries, owners, strict=True) if owns is late] for late in (False, True)
        )

    def _place_turn(
        self, entries: Sequence[PodInfo], task: _Task, found: _Found, off: EvictionTrial, left: int
    ) -> tuple[str, int]:
        """Place these members; why one of them has no place, and how many searches for victims are left."""
        assignments, preempting, placer = self._components.assignments, self._components.preempting, self._placer
        placed, place, now_s = found.placed, task.place, task.now_s
        judged = placer.place(entries, now_s, place.only, task.drawing)
        missing: list[PodInfo] = []
        for entry, judgement in zip(entries, judged, strict=True):
            (placed if judgement.row >= 0 else missing).append(entry)
        for entry in missing:
            if self._is_enough(task, found):
                break
            if off.gone() and placer.place([entry], now_s, place.only, task.drawing)[0].row >= 0:
                placed.append(entry)
                continue
            if left == 0:
                return f"preemption: victims are searched for {MAX_SEARCHES} members at most", 0
            left -= 1
            stake = preempting.at_stake(task.jobs, entry, task.priority, gone=off.numbers())
            look, draws = self._look(task, entry, stake)
            if look.row < 0:
                return look.headline(len(assignments.encoder.node_rows)), left
            off.remove(assignments.pods.by_number[number] for number in (*look.victims, *look.rest))
            for u in look.fallen:  # with members of it that went before, as it could spare them
                numbers = set(stake.jobs.members[u])
                job = next(job for job in task.jobs if not numbers.isdisjoint(m.number for m in job.members))
                found.fallen += job.members
            found.breaks_budgets += look.violations
            found.of_fallen += sum(int(stake.jobs.violations[u]) for u in look.fallen)
            only = np.zeros(len(assignments.names), dtype=np.bool_)
            only[look.row] = True
            if placer.place([entry], now_s, only, draws)[0].row < 0:
                return "preemption: a member does not fit even without any less important pod", left
            placed.append(entry)
        return "", left

    def _look(self, task: _Task, entry: PodInfo, stake: AtStake) -> tuple[Preemption, bool]:
        """The victims for one member, and whether it then draws from a reservation."""
        preempting = self._components.preempting
        look = preempting.find_victims(entry, task.priority, stake, task.place.only)
        if not task.drawing:
            return look, False
        with self._placer.offered(entry, task.place.only) as rows:
            drawing = None if rows is None else preempting.find_victims(entry, task.priority, stake, rows)
        if drawing is None or drawing.row < 0:
            return look, False
        if look.row >= 0 and self._loss(look) < self._loss(drawing):
            return look, False
        return drawing, True

    def _loss(self, look: Preemption) -> tuple[bool, int, int, int, int]:
        """As `PreemptionPlan.loss`."""
        priorities = self._components.assignments.pods.priorities[[*look.victims, *look.rest]].tolist()
        return bool(look.fallen), look.violations, max(priorities, default=0), sum(priorities), len(priorities)

    def _is_enough(self, task: _Task, found: _Found) -> bool:
        return bool(found.placed) and not self._gangs.lacking(task.keys, found.placed)
