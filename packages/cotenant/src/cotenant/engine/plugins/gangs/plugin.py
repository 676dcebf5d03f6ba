"""The gangs plugin: the extension points through which gangs take part in scheduling.

Gangs take part in every step of scheduling, and each step has rules of its own. One class that the scheduling cycle
calls, over parts with one subject each: the records (membership.py), free resources (min_resources.py), the gate, queue
keys and permits (directory.py), placement of Strict bundles (judging.py) with preemption (preemption.py), and the nodes
that NonStrict members hold (waiting.py).
Source: Koordinator, pkg/scheduler/plugins/coscheduling.
Limits: those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.framework.contracts import Evicting, Grouping, IsGoing, Together
from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.plugin import PluginHost, PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup
from cotenant.engine.plugins.gangs.directory import NAME as NAME
from cotenant.engine.plugins.gangs.directory import GangDirectory
from cotenant.engine.plugins.gangs.gang_placement import GangJudging, of_gang
from cotenant.engine.plugins.gangs.losses import job_of_bundle
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.engine.plugins.gangs.min_resources import shortage
from cotenant.engine.plugins.gangs.status import progress_of
from cotenant.engine.plugins.gangs.waiting import GangWaiting
from cotenant.model.decisions.record import DecisionRecord


class Gangs(GangDirectory, Grouping, Evicting):
    """Every gang of one engine."""

    def __init__(self) -> None:
        super().__init__()
        self._components: ClusterComponents | None = None  # None before `attach`
        self._whole: GangJudging | None = None
        self._waiting: GangWaiting | None = None

    def capture(self) -> Callable[[], Gangs]:
        """A maker of gangs with the same PodGroups, networks, back-offs and ended members, and no pods, for a copy
        of the engine; it reads nothing of these later.
        """
        groups, ended, once = (
            {key: dict(group) for key, group in self._groups.items()},
            dict(self._ended),
            set(self._once),
        )
        networks, back_offs = dict(self._networks), self._back_offs.copy()

        def make() -> Gangs:
            made = Gangs()
            made._groups = {key: dict(group) for key, group in groups.items()}
            made._ended, made._once = ended.copy(), once.copy()
            made._networks, made._back_offs = networks.copy(), back_offs.copy()
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        assert self._whole is not None
        parts = (*self._gangs.values(), self._links, self._back_offs, *self._back_offs.each())
        return Memento((self, *parts, self._whole)).restore

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, PodRefused]:
        """Members of gangs whose `minResources` are not free."""
        if not self._with_min_resources or self._components is None:
            return {}
        found: dict[str, PodRefused | None] = {}
        rejected: dict[int, PodRefused] = {}
        for position, entry in enumerate(pods):
            gang = self._of.get(entry.seen.uid)
            if gang is None or gang.key not in self._with_min_resources:
                continue
            if gang.key not in found:
                found[gang.key] = shortage(self._components.assignments, gang)
            why = found[gang.key]
            if why is not None:
                rejected[position] = why
        return rejected

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`."""
        super().attach(host)
        cycle = host.cycle
        if self._whole is None and isinstance(cycle, CycleAccess):
            self._components = cycle.components
            self._schedulers = cycle.schedulers
            self._whole = GangJudging(cycle, self)
            self._waiting = GangWaiting(cycle, self)

    def start_round(self, now_s: float) -> bool:
        """Bind members whose gang needs no more, and release nodes that were held for too long."""
        return self._waiting is not None and self._waiting.expire(now_s)

    def place_group(self, group: QueuedGroup, now_s: float) -> None:
        """Place a bundle of gangs."""
        assert self._whole is not None
        self._whole.judge(group, now_s)

    def settle_groups(self, now_s: float) -> None:
        """Queue the bundles that were rejected in this round."""
        if self._whole is not None:
            self._whole.queue_rejected(now_s)

    def end_round(self, now_s: float) -> None:
        """Where NonStrict gangs wait for one another, one releases its nodes."""
        if self._waiting is not None:
            self._waiting.end_deadlock(now_s)

    def pre_bind(self, entry: PodInfo, record: DecisionRecord, together: int) -> DecisionRecord:
        """Add the gang that it was placed with."""
        key = self.key_of(entry.seen.uid)
        return replace(record, gang=key, together=together) if key else record

    def post_filter(self, pods: Sequence[PodInfo], verdict: PlacementVerdict, now_s: float) -> PlacementVerdict:
        """Add how many members of its gang have a node."""
        progress = progress_of(self.of(pods[0].seen.uid))
        return of_gang(verdict, progress) if progress else verdict

    def jobs(self, is_going: IsGoing) -> tuple[PlacedJob, ...]:
        """Strict gangs with members on nodes."""
        found: list[PlacedJob] = []
        seen: set[str] = set()
        for gang in self.with_placed():
            if gang.key not in seen:
                seen.update(self._evicted_with(gang))
                job = self._job(gang, is_going)
                if job is not None and job.members:
                    found.append(job)
        return tuple(found)

    def job_of(self, entry: PodInfo, is_going: IsGoing) -> PlacedJob | None:
        """The Strict gang of a placed pod, with its bundle."""
        gang = self._of.get(entry.seen.uid)
        return self._job(gang, is_going) if gang is not None and gang.placed else None

    def _job(self, gang: Gang, is_going: IsGoing) -> PlacedJob | None:
        keys = self._evicted_with(gang)
        return job_of_bundle(keys, [found for found in map(self.get, keys) if found is not None], is_going)

    def _evicted_with(self, gang: Gang) -> tuple[str, ...]:
        return (gang.spec.disrupted_with if gang.spec is not None else ()) or self.bundle_of(gang)

    def together(self, entry: PodInfo) -> Together:
        """See `Grouping`."""
        return Together(self.placed_with(entry), self.lacks(entry))

    def placed_with(self, entry: PodInfo) -> tuple[str, ...]:
        """The gangs that are placed together with the pod's own, that included."""
        gang = self._of.get(entry.seen.uid)
        return self.bundle_of(gang) if gang is not None else ()

    def next_s(self) -> float:
        """When `turn` or `start_round` has something to do."""
        soonest = super().next_s()
        return min(soonest, self._waiting.next_s()) if self._waiting is not None else soonest
