"""Capping of antagonists: a hard cap for a limited time, its effect on the victim, and eviction of repeat offenders.

A cap on the wrong pod costs work and helps no service. While a pod is capped the victim's signal is compared with its
level before; only caps that helped count as offences, and a pod whose cap did not help is exempt from caps for that
victim for a while.
Limits: two pods capped for one victim at the same time share the credit.

Source: Zhang et al., CPI2, EuroSys'13, section 5 (0.1 core, 0.01 for the lowest class, 5 minutes; repeat offenders go
elsewhere).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import USUAL_PERIOD_US, CpuMax
from cotenant.model.machine.node_decision import DecisionTerm, EvictPod, Reason
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.interference.series import SampleSlice
from cotenant.policy.interference.settings import InterferenceSettings

RULE = "antagonist"
MOST_OFFENCES = 64


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap on one pod for one victim."""

    uid: str
    victim: str  # uid
    since_us: int
    until_us: int
    level_before_ppm: int  # the victim's signal that caused the cap
    reason: Reason
    level_sum_ppm: int = 0  # the victim's samples since
    samples: int = 0

    @property
    def level_since_ppm(self) -> int | None:
        """The victim's mean signal under the cap; None before its first sample."""
        return self.level_sum_ppm // self.samples if self.samples else None


@dataclass(frozen=True, slots=True)
class Offence:
    """A cap that has ended."""

    uid: str
    victim: str
    at_us: int
    helped: bool


@dataclass(frozen=True, slots=True)
class Caps:
    """Active caps, and those that have ended."""

    active: tuple[Cap, ...] = ()
    offences: tuple[Offence, ...] = ()


def cap_m(pod: NodePod, settings: InterferenceSettings) -> int:
    """The CPU that a capped pod may use."""
    lowest = pod.priority_class is PriorityClass.FREE
    return settings.cap_lowest_cpu_m if lowest else settings.cap_cpu_m


def observe(caps: Caps, done: SampleSlice, settings: InterferenceSettings) -> Caps:
    """Record the victims' signals under their caps. A sample that began before the cap does not count."""
    active = []
    for cap in caps.active:
        sample = done.victim(cap.victim)
        if sample is not None and done.at_us - settings.sample_us >= cap.since_us:
            cap = replace(cap, level_sum_ppm=cap.level_sum_ppm + sample.level_ppm, samples=cap.samples + 1)
        active.append(cap)
    return replace(caps, active=tuple(active))


def release(caps: Caps, state: NodeState, settings: InterferenceSettings) -> tuple[Caps, tuple[Reason, ...]]:
    """End caps whose time is over, or whose pod or victim left."""
    here = {entry.pod.uid: entry.pod for entry in state.pods}
    active, offences, reasons = [], list(caps.offences), []
    for cap in caps.active:
        pod, victim = here.get(cap.uid), here.get(cap.victim)
        if pod is not None and victim is not None and state.at_us < cap.until_us:
            active.append(cap)
            continue
        since = cap.level_since_ppm
        helped = (
            since is not None and (cap.level_before_ppm - since) * PPM >= settings.helped_ppm * cap.level_before_ppm
        )
        if pod is None or victim is None:
            gone = "it" if pod is None else "its victim"
            reasons.append(Reason(RULE, f"{cap.uid if pod is None else pod.key} is released: {gone} left the node"))
            continue
        offences.append(Offence(cap.uid, cap.victim, state.at_us, helped))
        after = "there is no sample of its victim since" if since is None else f"{victim.key} went to {_ratio(since)}"
        reasons.append(
            Reason(
                RULE,
                f"{pod.key} is released after {(state.at_us - cap.since_us) // 1_000_000} s: {after}"
                f" from {_ratio(cap.level_before_ppm)}, the cap {'helped' if helped else 'did not help'}",
                (DecisionTerm("before", cap.level_before_ppm, "ppm"), DecisionTerm("under the cap", since or 0, "ppm")),
            )
        )
    kept_us = max(settings.offence_window_us, settings.spare_us)
    recent = tuple(offence for offence in offences if state.at_us - offence.at_us <= kept_us)[-MOST_OFFENCES:]
    return Caps(tuple(active), recent), tuple(reasons)


def exempt(caps: Caps, uid: str, victim: str, now_us: int, settings: InterferenceSettings) -> bool:
    """Whether a pod must not be capped for this victim now: it is capped already, or a recent cap did not help."""
    if any(cap.uid == uid for cap in caps.active):
        return True
    return any(
        offence.uid == uid
        and offence.victim == victim
        and not offence.helped
        and now_us - offence.at_us <= settings.spare_us
        for offence in caps.offences
    )


def knobs(caps: Caps, pods: Sequence[PodUse], settings: InterferenceSettings) -> tuple[SetKnob, ...]:
    """The caps as knobs; a pod capped for two victims appears once."""
    groups = {entry.pod.uid: entry.pod for entry in pods if entry.pod.group}
    desired: dict[str, SetKnob] = {}
    for cap in caps.active:
        pod = groups.get(cap.uid)
        if pod is not None:
            quota = CpuMax(cap_m(pod, settings) * USUAL_PERIOD_US // 1000, USUAL_PERIOD_US)
            desired.setdefault(cap.uid, SetKnob(KnobTarget(pod.group, Knob.CPU_MAX), str(quota), cap.reason))
    return tuple(desired.values())


def evictions(caps: Caps, pods: Sequence[PodUse], now_us: int, settings: InterferenceSettings) -> tuple[EvictPod, ...]:
    """Pods to evict because their caps helped often enough recently."""
    counts: dict[str, int] = {}
    for offence in caps.offences:
        if offence.helped and now_us - offence.at_us <= settings.offence_window_us:
            counts[offence.uid] = counts.get(offence.uid, 0) + 1
    desired = []
    for entry in pods:
        count = counts.get(entry.pod.uid, 0)
        if count >= settings.offences and entry.pod.phase is NodePodPhase.RUNNING and entry.pod.is_named:
            text = (
                f"{entry.pod.key} was capped {count} times in {settings.offence_window_us // 60_000_000} min, and "
                "each cap helped its victim"
            )
            reason = Reason(
                RULE, text, (DecisionTerm("caps that helped", count), DecisionTerm("limit", settings.offences))
            )
            desired.append(
                EvictPod(entry.pod.uid, entry.pod.key, reason, entry.use.cpu_m or 0, entry.use.working_set_bytes or 0)
            )
    return tuple(desired)


def _ratio(ppm: int) -> str:
    return f"{ppm / PPM:.2f}"
