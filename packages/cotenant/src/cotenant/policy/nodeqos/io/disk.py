"""Disk QoS of best effort: permanent weights, configured limits, and a limit that follows the services' I/O stalls.

One best-effort group that streams to a disk makes a service wait for its log, and a fixed limit wastes the disk when no
service needs it. While a service stalls on I/O above a threshold and best effort does I/O, best effort is limited to a
part of its current throughput; if that persists after a dwell time, to a part of that; when services have been calm for
a while the limit grows, and is removed once it is far above best effort's last throughput. Fixed limits of the class
and of single pods (annotation `koordinator.sh/blkioQOS`) apply besides. Where a group's limit does not hold for the
groups below it (cgroup v1), the class's limit is divided among its pods' containers.
Limits: reads, writes and all devices are limited alike, because it is unknown which of them a service waits for; bytes
are limited, not latency; on cgroup v1 writes of the page cache are nobody's, and are not limited.

Source: the rule is Heracles' (cut at once, grow slowly), with both steps multiplicative.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import PPM, NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.available import available
from cotenant.policy.nodeqos.io.disk_limits import (
    BLKIO_QOS,
    NO_LIMITS,
    BlockDevice,
    IoLimits,
    disk_groups,
    io_max,
    read_annotation,
    tighter,
)
from cotenant.policy.nodeqos.percentages import check_percent
from cotenant.policy.nodeqos.wording import percent, size

RULE = "io-qos"
_USUAL_WEIGHT = 100
_FIXED = Reason(RULE, "best effort is limited by configuration")


@dataclass(frozen=True, slots=True)
class IoConfig:
    """By default nothing is weighted or limited, as in Koordinator."""

    devices: tuple[BlockDevice, ...] = ()  # that may be limited
    best_effort_weight: int | None = None  # 1..10000, 100 is usual
    service_weight: int | None = None  # of each service pod
    best_effort: IoLimits = NO_LIMITS  # on each device
    follow_services: bool = False
    stall_ppm: int = 100_000  # a service with a larger I/O stall is impaired
    calm_ppm: int = 50_000
    cut_percent: int = 50  # of best effort's throughput
    grow_percent: int = 20
    dwell_us: int = 2_000_000  # between cuts, so that one takes effect before the next
    calm_for_us: int = 10_000_000  # before each increase
    min_bps: int = 1 << 20  # lower bound of the limit
    lift_percent: int = 400  # of best effort's last throughput: a limit above it is removed

    def __post_init__(self) -> None:
        numbers = [device.number for device in self.devices]
        if len(set(numbers)) < len(numbers):
            raise InvalidInput("I/O devices", ", ".join(numbers), "each device once")
        for name in ("best_effort_weight", "service_weight"):
            weight = getattr(self, name)
            if weight is not None and not 1 <= weight <= 10_000:
                raise InvalidInput(f"I/O {name}", weight, "1 to 10000")
        check_percent("I/O cut", self.cut_percent, 1, 99)
        check_percent("I/O grow", self.grow_percent, 1)
        check_percent("I/O lift", self.lift_percent, 101)
        if not 0 <= self.calm_ppm <= self.stall_ppm <= PPM:
            raise InvalidInput("I/O calm_ppm", self.calm_ppm, "0 <= calm_ppm <= stall_ppm <= 1000000")
        if self.min_bps < 1 or self.dwell_us < 0 or self.calm_for_us < 0:
            raise InvalidInput("I/O limits", self.min_bps, "at least 1 byte a second, and times of 0 or more")
        if not self.devices and (self.follow_services or self.best_effort != NO_LIMITS):
            raise InvalidInput("I/O devices", "none", "the devices that are to be limited")


@dataclass(frozen=True, slots=True)
class IoMemory:
    """The limit that follows the services; None = none is set."""

    limit_bps: int | None = None
    moved_bps: int = 0  # best effort's throughput when it was first limited
    changed_at_us: int = 0
    calm_since_us: int | None = None


def decide(state: NodeState, config: IoConfig, memory: IoMemory) -> tuple[PolicyVerdict, IoMemory]:
    """Weights and limits of best effort, of service pods, and of pods with an annotation."""
    reasons: list[Reason] = []
    knobs: list[SetKnob] = []
    memory, following = _follow(state, config, memory)
    reasons.append(following)
    group = state.best_effort_group
    divided = max(1, _sharers(state)) if state.kubelet.cgroup_version == 1 else None
    if group:
        if config.best_effort_weight is not None:
            knobs.append(_weight(group, config.best_effort_weight, "best effort"))
        value = io_max(_of_best_effort(config, memory))
        if value and not divided:
            knobs.append(_limit(group, value, following if memory.limit_bps else _FIXED))
    for entry in state.pods:
        pod = entry.pod
        if pod.phase is NodePodPhase.OVER or not pod.group:
            continue
        own_settings = read_annotation(pod.annotations.get(BLKIO_QOS), config.devices)
        reasons += [Reason(RULE, f"{pod.key}: {wrong}") for wrong in own_settings.wrong]
        weight = own_settings.weight
        if pod.best_effort and weight is not None and not _covered(pod.group, group):
            # Beside services its own word counts only downwards: it has no class's weight above it.
            weight = min(weight, config.best_effort_weight or _USUAL_WEIGHT)
        if weight is None and not pod.best_effort:
            weight = config.service_weight
        if weight is not None:
            knobs.append(_weight(pod.group, weight, pod.key))
        limits = own_settings.limits
        if pod.best_effort and (divided or not _covered(pod.group, group)):
            own = dict(limits)
            limits = tuple(
                (number, tighter(own.get(number, NO_LIMITS), one.divided(divided or 1)))
                for number, one in _of_best_effort(config, memory)
            )
        value = io_max(limits)
        if value:
            reason = Reason(RULE, f"{pod.key} is limited by configuration or annotation")
            knobs += [_limit(name, value, reason) for name in disk_groups(pod, state.kubelet.cgroup_version)]
    kept, lacking = available(state, RULE, knobs)
    return PolicyVerdict((*reasons, *lacking), kept), memory


def _sharers(state: NodeState) -> int:
    """Groups among which the class's limit is divided, where it can be set on no common one."""
    return sum(
        len(disk_groups(entry.pod, state.kubelet.cgroup_version))
        for entry in state.best_effort_pods
        if entry.pod.phase is not NodePodPhase.OVER
    )


def _of_best_effort(config: IoConfig, memory: IoMemory) -> tuple[tuple[str, IoLimits], ...]:
    """Best effort's limits by device: the tighter of the fixed limit and the one that follows the services."""
    limits = tighter(config.best_effort, IoLimits(memory.limit_bps, memory.limit_bps))
    return tuple((device.number, limits) for device in config.devices)


def _follow(state: NodeState, config: IoConfig, memory: IoMemory) -> tuple[IoMemory, Reason]:
    """The following limit after this tick."""
    if not config.follow_services:
        return IoMemory(), Reason(RULE, "best effort's limit does not follow services: switched off")
    stalls = [entry.use.io_stall_ppm for entry in state.services if entry.use.io_stall_ppm is not None]
    if not stalls:
        return memory, Reason(RULE, "no service's I/O stall is known: unchanged")
    worst, now = max(stalls), state.at_us
    moved = _moved(state)
    waits = f"a service stalls on I/O {percent(worst)} of the time"
    if worst > config.stall_ppm:
        if memory.limit_bps is None and moved is None:
            return IoMemory(), Reason(RULE, f"{waits}; best effort's throughput is not known")
        if memory.limit_bps is None and moved is not None and moved <= config.min_bps:
            return IoMemory(), Reason(RULE, f"{waits}; best effort is not the cause: it moves {_rate(moved)}")
        if memory.limit_bps is not None and now - memory.changed_at_us < config.dwell_us:
            return IoMemory(memory.limit_bps, memory.moved_bps, memory.changed_at_us), Reason(
                RULE, f"{waits}; waiting for the effect of the last cut"
            )
        base = moved or 0 if memory.limit_bps is None else memory.limit_bps
        limit = max(config.min_bps, base * config.cut_percent // 100)
        text = f"{waits}, over {percent(config.stall_ppm)}: best effort from {_rate(base)} to {_rate(limit)}"
        terms = (DecisionTerm("before", base, "B/s"), DecisionTerm("cut", limit - base, "B/s"))
        return IoMemory(limit, memory.moved_bps or base, now), Reason(RULE, text, terms)
    if memory.limit_bps is None:
        return IoMemory(), Reason(RULE, f"{waits}: best effort is not limited")
    if worst > config.calm_ppm:
        return IoMemory(memory.limit_bps, memory.moved_bps, memory.changed_at_us), Reason(
            RULE, f"{waits}: the limit stays at {_rate(memory.limit_bps)}"
        )
    since = memory.calm_since_us if memory.calm_since_us is not None else now
    if now - since < config.calm_for_us:
        kept = IoMemory(memory.limit_bps, memory.moved_bps, memory.changed_at_us, since)
        return kept, Reason(RULE, f"{waits}, not long enough: the limit stays at {_rate(memory.limit_bps)}")
    limit = memory.limit_bps + max(1, memory.limit_bps * config.grow_percent // 100)
    if limit > memory.moved_bps * config.lift_percent // 100:
        return IoMemory(), Reason(RULE, f"{waits}: the limit is far above best effort's throughput and is removed")
    text = f"{waits}: best effort from {_rate(memory.limit_bps)} to {_rate(limit)}"
    terms = (DecisionTerm("before", memory.limit_bps, "B/s"), DecisionTerm("grown", limit - memory.limit_bps, "B/s"))
    return IoMemory(limit, memory.moved_bps, now, now), Reason(RULE, text, terms)


def _moved(state: NodeState) -> int | None:
    """Throughput of best effort, the larger of reads and writes, bytes per second; None = unknown."""
    alone = (entry for entry in state.best_effort_pods if not _covered(entry.pod.group, state.best_effort_group))
    uses = [entry.use for entry in alone if entry.pod.phase is not NodePodPhase.OVER]
    if state.best_effort is not None:
        uses.append(state.best_effort)
    if not uses or any(use.io_read_bps is None or use.io_written_bps is None for use in uses):
        return None
    return max(sum(use.io_read_bps or 0 for use in uses), sum(use.io_written_bps or 0 for use in uses))


def _covered(group: str, common: str | None) -> bool:
    """Whether a limit of the common group applies to this one too."""
    return bool(common) and group.startswith(f"{common}/")


def _weight(group: str, weight: int, who: str) -> SetKnob:
    reason = Reason(RULE, f"{who} has I/O weight {weight}", (DecisionTerm("weight", weight),))
    return SetKnob(KnobTarget(group, Knob.IO_WEIGHT), f"default {weight}", reason)


def _limit(group: str, value: str, reason: Reason) -> SetKnob:
    return SetKnob(KnobTarget(group, Knob.IO_MAX), value, reason)


def _rate(bytes_per_s: int) -> str:
    return f"{size(bytes_per_s)}/s"
