"""Takes back at once whatever the engine decides, and keeps what it was.

The picture of a shadow must follow the binds of the scheduler that it watches. So a pod that was placed gives its node
back before the next one is judged, victims of a preemption stay, and a judged pod is *parked*: a gate of its own holds
it out of the queue until it is to be judged again. The engine needs no mode for this: it is a plugin, at the points
PreEnqueue and Bind. A refused pod stays in the queue, which wakes it when an event may help it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.instructions import Bind, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.plugins.reservations.instructions import ReserveNode
from cotenant.model.decisions.record import CandidateNode
from cotenant.model.decisions.shadow import ShadowChoice

PARKED = "judged: another scheduler binds it"
_AGAIN = "Shadow"  # the event under which a pod enters the queue


@dataclass(frozen=True, slots=True)
class JudgedPod:
    """What would have been done with a pod."""

    uid: str
    choice: ShadowChoice
    at_s: float
    node: str = ""
    words: str = ""  # why it waits, or whom it would evict
    plugins: tuple[str, ...] = ()  # that refused it
    best: tuple[CandidateNode, ...] = ()  # of a placed pod


class Parking(Plugin):
    """The plugin."""

    name = "Shadow"

    def __init__(self) -> None:
        self._parked: dict[str, float] = {}  # UID -> since when, the longest first
        self._judged: list[JudgedPod] = []
        self._before: frozenset[EventKind] = frozenset()
        self._cycle: CycleAccess | None = None

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`."""
        super().attach(host)
        self._parked.clear()
        self._cycle = host.cycle if isinstance(host.cycle, CycleAccess) else None

    def capture(self) -> Callable[[], Plugin]:
        """A copy of the engine, for an explanation, decides as a scheduler does."""
        return _Inert

    def take(self) -> tuple[JudgedPod, ...]:
        """What was judged since the last call."""
        judged, self._judged = tuple(self._judged), []
        return judged

    def judge_again(self, uid: str) -> None:
        """Let a pod into the queue, at the engine's next decision; also one whose node the other scheduler has
        nominated it for.
        """
        self._parked.pop(uid, None)
        if self._cycle is not None and (entry := self._cycle.pods.by_uid.get(uid)) is not None:
            self._cycle.pods.drop_nomination(entry, tell=False)
        self.host.reconsider(uid)

    def longest(self) -> tuple[str, float] | None:
        """The pod that has waited longest for the other scheduler since it was judged, and since when."""
        return next(iter(self._parked.items()), None)

    # ---- points

    def pre_enqueue(self, entry: PodInfo) -> str:
        """Judged pods do not enter the queue."""
        return PARKED if entry.seen.uid in self._parked else ""

    def pod_left(self, entry: PodInfo) -> None:
        """A pod is gone, or it changed and is judged as a new one."""
        self._parked.pop(entry.seen.uid, None)

    def turn(self, now_s: float) -> None:
        """Remember what happened in the cluster, before anything is decided."""
        self._before = frozenset(self._cycle.pods.happened) if self._cycle is not None else frozenset()

    def bind(self, instructions: tuple[Instruction, ...], now_s: float) -> tuple[Instruction, ...]:
        """Take everything back; no instruction leaves the engine."""
        cycle = self._cycle
        if cycle is None:
            return instructions
        for uid, record in tuple(cycle.waiting.records.items()):  # a node, until its gang is complete
            entry = cycle.pods.by_uid.get(uid)
            if entry is not None and entry.state is SchedulingState.WAITING:
                self._note(JudgedPod(uid, ShadowChoice.PLACES, now_s, entry.node, best=record.candidates))
                cycle.waiting.reject(entry, _AGAIN, now_s)
        for instruction in instructions:
            if isinstance(instruction, (Bind, ReserveNode)):
                self._take_back(cycle, instruction, now_s)
            elif isinstance(instruction, Preempt):
                self._keep_victims(cycle, instruction, now_s)
            elif isinstance(instruction, Unschedulable) and instruction.message != PARKED:
                self._judged.append(self._refused(cycle, instruction, now_s))
        cycle.pods.happened.intersection_update(self._before)  # what was only supposed is no event
        return ()

    def _note(self, judged: JudgedPod) -> None:
        self._parked.pop(judged.uid, None)
        self._parked[judged.uid] = judged.at_s
        self._judged.append(judged)

    def _take_back(self, cycle: CycleAccess, instruction: Bind | ReserveNode, now_s: float) -> None:
        entry = cycle.pods.by_uid.get(instruction.uid)
        if entry is None or entry.state is not SchedulingState.ASSUMED:
            return
        best = instruction.record.candidates
        self._note(JudgedPod(entry.seen.uid, ShadowChoice.PLACES, now_s, entry.node, best=best))
        cycle.pods.give_back(entry, now_s, _AGAIN)

    def _keep_victims(self, cycle: CycleAccess, found: Preempt, now_s: float) -> None:
        group = cycle.components.queue.group_of(found.uid)
        victims = ", ".join(victim.key for victim in found.victims[:3])
        more = f" and {len(found.victims) - 3} more" if len(found.victims) > 3 else ""
        words = (
            f"{victims}{more} would be evicted on {found.node}" if victims else f"room is being made on {found.node}"
        )
        for uid in tuple(group.pods) if group is not None and group.whole else (found.uid,):
            entry = cycle.pods.by_uid.get(uid)
            if entry is None or entry.state is not SchedulingState.QUEUED:
                continue
            self._note(JudgedPod(uid, ShadowChoice.PREEMPTS, now_s, found.node, words))
            cycle.pods.drop_nomination(entry, tell=False)
            cycle.pods.requeue(entry, now_s)
        for victim in found.victims:
            cycle.pods.nominated.eviction_withdrawn(victim.uid, now_s)

    def _refused(self, cycle: CycleAccess, told: Unschedulable, now_s: float) -> JudgedPod:
        entry = cycle.pods.by_uid.get(told.uid)
        queued = entry is not None and entry.state is SchedulingState.QUEUED
        group = cycle.components.queue.group_of(told.uid) if queued else None
        filters = tuple(sorted(group.verdict.filters)) if group is not None and group.verdict is not None else ()
        choice = ShadowChoice.WAITS if queued else ShadowChoice.NOT_JUDGED
        return JudgedPod(told.uid, choice, now_s, words=told.message, plugins=filters)


class _Inert(Plugin):
    """In a copy of the engine."""

    name = Parking.name
