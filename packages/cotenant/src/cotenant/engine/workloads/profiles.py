"""WorkloadProfiles as the scheduling engine follows them: pods by workload, sums by axis, and statuses that are worth a
write.

A profile is needed per workload, while measurements come per pod and pods may arrive before or after the object; a
status that is written with every window is a load on the API server. A pod belongs to the workload of its controller (a
ReplicaSet with a template hash stands for its Deployment); only workloads that have an object are followed, at most
`MOST`. A status is given when a figure appears, disappears or changed by more than `policy.interference.axes.differs`
asks. A stored figure stays until as many windows support the new one, so a restart does not erase it.
Limits: two objects for one workload: the one with the first key counts; the CPU use of neighbours is that of the pods
which were measured in the same round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import isfinite

from cotenant.engine.state.learned_profiles import Prior
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import (
    NOT_SEEN,
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Reading,
    Unknown,
    WorkloadBound,
    WorkloadProfile,
    WorkloadRef,
    figure,
)
from cotenant.model.machine.node_metric import MeasuredPod
from cotenant.policy.interference.axes import MIN_WINDOWS, AxisMoments, Learned, differs

MOST = 4096
STARTS_WITHIN_S = 120.0
TEMPLATE_HASH = "pod-template-hash"
_Z = 1.96
_NOT_LEARNED = Unknown("the scheduler's placement profile does not learn interference (cotenant-learned does)")
_NO_WINDOWS = Unknown("no window of its own pods was learned from")
_NO_NEIGHBOURS = Unknown("no window of a service beside its pods was learned from")


@dataclass(frozen=True, slots=True)
class WorkloadProfileStatus:
    """What was learned of one workload, to be written to its object."""

    key: str
    uid: str
    generation: int
    pods: int
    axes: Mapping[ProfileAxis, AxisReading]
    overall: Overall
    bound: Mapping[WorkloadBound, Reading]
    at_s: float
    problem: str = ""
    kind: str = "WorkloadProfile"


@dataclass(frozen=True, slots=True)
class PodWindow:
    """One pod's part of a round of measurements."""

    seen: ObservedPod
    node: str
    measured: MeasuredPod


@dataclass(slots=True)
class _Followed:
    profile: WorkloadProfile
    written: Learned
    said: tuple[str, ...] = ()
    moments: AxisMoments | None = None
    pod: Pod | None = None  # the one that was measured last


def workload_of(seen: ObservedPod) -> WorkloadRef | None:
    """The workload of a pod, that of a declared kind where it has one; None where it has no controller."""
    if seen.workload is not None:
        return WorkloadRef(seen.workload.owner.kind, seen.workload.owner.name)
    for owner in seen.owned_by:
        if owner.controller:
            revision = seen.pod.labels.get(TEMPLATE_HASH)
            if owner.kind == "ReplicaSet" and revision:
                return WorkloadRef("Deployment", owner.name.removesuffix(f"-{revision}"))
            return WorkloadRef(owner.kind, owner.name)
    return None


class FollowedProfiles:
    """The objects of a cluster, and what was measured of their workloads."""

    def __init__(self) -> None:
        self._by_key: dict[str, _Followed] = {}
        self._key_of: dict[tuple[str, WorkloadRef], str] = {}
        self.changed = False  # workloads have got or lost a profile: pods must be tagged again

    def __len__(self) -> int:
        return len(self._by_key)

    def seen(self, profile: WorkloadProfile) -> None:
        """An object was created or changed."""
        known = self._by_key.get(profile.key)
        if known is None:
            if len(self._by_key) >= MOST:
                return
            self._by_key[profile.key] = _Followed(profile, _learned(profile))
            self._index()
            return
        moved = known.profile.workload != profile.workload
        if moved or known.profile.uid != profile.uid:
            known.written, known.said = _learned(profile), ()
            known.moments, known.pod = None, None
        known.profile = profile
        if moved:
            self._index()

    def gone(self, key: str) -> None:
        """An object was deleted."""
        if self._by_key.pop(key, None) is not None:
            self._index()

    def _index(self) -> None:
        self.changed = True
        self._key_of = {}
        for key in sorted(self._by_key, reverse=True):
            profile = self._by_key[key].profile
            if profile.workload.name:
                self._key_of[(profile.namespace, profile.workload)] = key

    def key_of(self, seen: ObservedPod) -> str:
        """The profile of a pod's workload; empty without one."""
        workload = workload_of(seen) if self._key_of else None
        return "" if workload is None else self._key_of.get((seen.pod.namespace, workload), "")

    def tagged(self, seen: ObservedPod) -> ObservedPod:
        """The pod with the name of its workload's profile."""
        key = self.key_of(seen)
        return seen if seen.pod.profile == key else replace(seen, pod=replace(seen.pod, profile=key))

    def prior(self, key: str) -> Prior:
        """What placement starts from."""
        followed = self._by_key.get(key)
        if followed is None:
            return Prior()
        overall = followed.profile.overall
        return Prior(*(_fraction(entry) for entry in (overall.sensitivity, overall.pressure, overall.tolerates)))

    def measured(
        self,
        windows: Iterable[PodWindow],
        capacity: Callable[[str], tuple[float, float] | None],
        now_s: float,
    ) -> None:
        """One round. `capacity` of a node: milli-CPU and bytes, None for an unknown node."""
        windows = list(windows)
        used_m: dict[str, float] = {}
        disk: dict[str, float] = {}  # share of the disks' time
        for window in windows:
            used_m[window.node] = used_m.get(window.node, 0.0) + window.measured.use.cpu_m
            disk[window.node] = disk.get(window.node, 0.0) + (window.measured.signals.disk_use or 0.0)
        for window in windows:
            followed = self._by_key.get(self.key_of(window.seen))
            size = capacity(window.node)
            if followed is None or size is None or min(size) <= 0:
                continue
            if followed.moments is None:
                followed.moments = AxisMoments()
            moments, pod, use = followed.moments, window.seen.pod, window.measured.use
            signals = window.measured.signals
            latency = (
                signals.latency_p99_ms / pod.objective_p99_ms
                if signals.latency_p99_ms is not None and pod.objective_p99_ms is not None
                else None
            )
            age_s = max(0.0, now_s - moments.seen_s) if moments.seen_s > 0 else 0.0
            moments.add(
                (use.cpu_m / size[0], use.memory_bytes / size[1], (used_m[window.node] - use.cpu_m) / size[0]),
                (latency, signals.cycles_per_instruction, signals.wait_per_cpu),
                starting=now_s - window.seen.started_s < STARTS_WITHIN_S,
                age_s=age_s,
            )
            if now_s - window.seen.started_s >= STARTS_WITHIN_S:
                moments.add_waits(use.cpu_m, signals, disk[window.node] - (signals.disk_use or 0.0), age_s)
            moments.seen_s = now_s
            followed.pod = pod

    def statuses(
        self, learned: Callable[[Pod], InterferenceProfile | None], pods: Mapping[str, int], now_s: float
    ) -> list[WorkloadProfileStatus]:
        """What is worth a write now. `pods`: by profile, how many were measured in the last round."""
        found = []
        for key, followed in self._by_key.items():
            profile = followed.profile
            if followed.moments is None or followed.pod is None:
                if profile.wrong == followed.said:
                    continue
                axes, overall, bound = followed.written
            else:
                fresh = followed.moments.readings()
                before = followed.written
                axes = {axis: _kept_axis(before[0].get(axis), fresh[axis]) for axis in fresh}
                now = _overall(learned(followed.pod))
                overall = Overall(
                    _kept(before[1].sensitivity, now.sensitivity),
                    _kept(before[1].pressure, now.pressure),
                    _kept(before[1].tolerates, now.tolerates),
                )
                bounds = followed.moments.bounds()
                bound = {name: _kept(before[2].get(name, NOT_SEEN), bounds[name]) for name in bounds}
                if profile.wrong == followed.said and not differs(before, (axes, overall, bound)):
                    continue
            followed.written, followed.said = (axes, overall, bound), profile.wrong
            found.append(
                WorkloadProfileStatus(
                    key,
                    profile.uid,
                    profile.generation,
                    pods.get(key, 0),
                    axes,
                    overall,
                    bound,
                    now_s,
                    "; ".join(profile.wrong),
                )
            )
        return found


def _learned(profile: WorkloadProfile) -> Learned:
    return profile.learned, profile.learned_overall, profile.bound


def _overall(learned: InterferenceProfile | None) -> Overall:
    if learned is None:
        return Overall(_NOT_LEARNED, _NOT_LEARNED, _NOT_LEARNED)
    sensitivity: Reading = _NO_WINDOWS
    pressure: Reading = _NO_NEIGHBOURS
    tolerates: Reading = _NO_WINDOWS
    if learned.windows > 0:
        sensitivity = figure(learned.sensitivity, _Z * learned.sensitivity_sd, learned.windows, FigureSource.LEARNED)
    if learned.neighbour_windows > 0:
        pressure = figure(learned.pressure, _Z * learned.pressure_sd, learned.neighbour_windows, FigureSource.LEARNED)
    if learned.windows > 0 and isfinite(learned.allowance):
        tolerates = figure(learned.allowance, 0.0, learned.windows, FigureSource.LEARNED)
    return Overall(sensitivity, pressure, tolerates)


def _kept_axis(before: AxisReading | None, now: AxisReading) -> AxisReading:
    if before is None:
        return now
    return AxisReading(_kept(before.tendency, now.tendency), _kept(before.sensitivity, now.sensitivity))


def _kept(before: Reading, now: Reading) -> Reading:
    """The stored figure until enough windows support the new one."""
    if not isinstance(before, ProfileFigure) or before.source is not FigureSource.LEARNED:
        return now
    if isinstance(now, Unknown) or now.samples < min(MIN_WINDOWS, before.samples):
        return before
    return now


def _fraction(reading: Reading) -> float | None:
    return reading.value / 1000.0 if isinstance(reading, ProfileFigure) else None
