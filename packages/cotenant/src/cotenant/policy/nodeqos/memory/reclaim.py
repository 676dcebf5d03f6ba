"""Proactive reclaim: the smallest memory limit of best effort that causes no pressure.

Best effort keeps memory that it hardly uses, while services find none. Meta's senpai. The group's stall time is
accumulated; more than a target per interval means the limit is too tight, and it is raised at once, by the square of
the deviation; a quiet interval lowers it by at most one percent. The knob is either a persistent `memory.high`, or a
one-time `memory.reclaim` of the same amount, which leaves no limit behind. When another writer changes the limit, the
controller restarts from the current use.
Limits: best effort only; a group of unknown stall is left alone. The stall is that of the last tick, so with a tick
longer than the interval it acts on one sample.

Source: senpai.py (facebookincubator/senpai): its constants and its two quadratic steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import PPM, GroupUse, NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.memory.protection import PAGE_BYTES
from cotenant.policy.nodeqos.wording import size

RULE = "memory-reclaim"
_RECLAIM_TTL_US = 1_000_000  # a one-time action; shorter than the interval, so that an equal amount is reclaimed again


class ReclaimKnob(StrEnum):
    """The knob by which memory is reclaimed."""

    HIGH = "memory.high"
    RECLAIM = "memory.reclaim"


@dataclass(frozen=True, slots=True)
class ReclaimConfig:
    """senpai's constants."""

    means: ReclaimKnob = ReclaimKnob.HIGH
    interval_us: int = 6_000_000
    target_us: int = 10_000  # tolerated stall ("some") per interval
    probe_max_ppm: int = 10_000  # maximum decrease of the limit per quiet interval
    backoff_max_ppm: int = 1_000_000  # maximum increase of the limit per step
    probe_divisor: int = 10
    backoff_divisor: int = 20
    min_bytes: int = 100 << 20
    max_bytes: int = 100 << 30
    page_bytes: int = PAGE_BYTES

    def __post_init__(self) -> None:
        for name in ("interval_us", "target_us", "probe_divisor", "backoff_divisor", "page_bytes", "min_bytes"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"memory reclaim {name}", getattr(self, name), "a number above 0")
        for name in ("probe_max_ppm", "backoff_max_ppm"):
            if not 0 < getattr(self, name) <= PPM:
                raise InvalidInput(f"memory reclaim {name}", getattr(self, name), "1 to 1000000")
        if self.max_bytes < self.min_bytes:
            raise InvalidInput("memory reclaim max_bytes", self.max_bytes, "at least min_bytes")


@dataclass(frozen=True, slots=True)
class GroupReclaim:
    """One group's controller."""

    group: str
    limit_bytes: int
    stall_us: int = 0  # since the last step
    quiet_since_us: int = 0  # time of the last step


@dataclass(frozen=True, slots=True)
class ReclaimMemory:
    """One controller per best-effort pod; dropped with the pod."""

    groups: tuple[GroupReclaim, ...] = ()


def decide(state: NodeState, config: ReclaimConfig, memory: ReclaimMemory) -> tuple[PolicyVerdict, ReclaimMemory]:
    """The limits of all best-effort pods whose memory and stall are known."""
    if Knob(config.means) not in state.supported:
        return PolicyVerdict((Reason(RULE, f"this machine has no {config.means}"),)), ReclaimMemory()
    before = {one.group: one for one in memory.groups}
    after: list[GroupReclaim] = []
    knobs: list[SetKnob] = []
    reasons: list[Reason] = []
    unknown = 0
    for entry in state.best_effort_pods:
        use, group = entry.use, entry.pod.group
        if entry.pod.phase is NodePodPhase.OVER or not group:
            continue
        known = use.memory_bytes is not None and use.memory_stall_ppm is not None and state.interval_us > 0
        unknown += not known
        if not known or state.alarms:  # with alarms the sample is the last one, which is already counted
            if group in before:
                after.append(before[group])
                knobs += _unchanged(before[group], config, "no new reading of its use: the limit is kept")
            continue
        stands = state.knobs.get(KnobTarget(group, Knob.MEMORY_HIGH)) if config.means is ReclaimKnob.HIGH else None
        controller, reason, asked = step(before.get(group), use, state.at_us, state.interval_us, stands, config)
        after.append(controller)
        reasons.append(reason)
        if config.means is ReclaimKnob.HIGH:
            knobs.append(SetKnob(KnobTarget(group, Knob.MEMORY_HIGH), str(controller.limit_bytes), reason))
        elif asked > 0:
            target = KnobTarget(group, Knob.MEMORY_RECLAIM)
            knobs.append(SetKnob(target, str(asked), reason, ttl_us=_RECLAIM_TTL_US))
    if unknown:
        reasons.append(Reason(RULE, f"memory or its stall is not known for {unknown} best-effort pods"))
    if not reasons:
        reasons.append(Reason(RULE, "no new reading" if state.alarms else "no best-effort work on this node"))
    return PolicyVerdict(tuple(reasons), tuple(knobs)), ReclaimMemory(tuple(after))


def step(
    before: GroupReclaim | None,
    use: GroupUse,
    at_us: int,
    interval_us: int,
    stands: str | None,
    config: ReclaimConfig,
) -> tuple[GroupReclaim, Reason, int]:
    """One tick of one group: its new controller, the reason, and the bytes to reclaim now (0 where the limit was not
    lowered).

    `stands`: the current memory.high; None = unknown, assumed to be ours.
    """
    current = use.memory_bytes or 0
    foreign = before is not None and stands is not None and stands != str(before.limit_bytes)
    if before is None or foreign:
        limit = _bounded(current, config)
        who = f"another writer set {stands}: " if foreign and stands != UNLIMITED else ""
        text = f"{who}start from the current use, {size(current)}"
        terms = (
            DecisionTerm("in use", current, "bytes"),
            DecisionTerm("bounds and whole pages", limit - current, "bytes"),
        )
        return GroupReclaim(use.group, limit, 0, at_us), Reason(RULE, text, terms), 0
    stall = before.stall_us + (use.memory_stall_ppm or 0) * interval_us // PPM
    if stall > config.target_us:
        by_ppm = min(
            config.backoff_max_ppm,
            stall * stall * config.backoff_max_ppm // (config.target_us * config.backoff_divisor) ** 2,
        )
        return _moved(before, by_ppm, stall, at_us, config, "too tight")
    if at_us - before.quiet_since_us < config.interval_us:
        text = (
            f"limit {size(before.limit_bytes)}: stalled {stall} us of the {config.target_us} us tolerated per interval"
        )
        waiting = GroupReclaim(use.group, before.limit_bytes, stall, before.quiet_since_us)
        return waiting, Reason(RULE, text, (DecisionTerm("limit", before.limit_bytes, "bytes"),)), 0
    by_ppm = min(
        config.probe_max_ppm,
        config.target_us**2 * config.probe_max_ppm // (max(stall, 1) * config.probe_divisor) ** 2,
    )
    return _moved(before, -by_ppm, stall, at_us, config, "quiet")


def _moved(
    before: GroupReclaim, by_ppm: int, stall_us: int, at_us: int, config: ReclaimConfig, word: str
) -> tuple[GroupReclaim, Reason, int]:
    limit = _bounded(before.limit_bytes + before.limit_bytes * by_ppm // PPM, config)
    change = limit - before.limit_bytes
    text = (
        f"{word}: stalled {stall_us} us, {config.target_us} us tolerated per interval; limit "
        f"{size(before.limit_bytes)} {'+' if change >= 0 else '-'} {size(abs(change))}"
    )
    terms = (DecisionTerm("limit before", before.limit_bytes, "bytes"), DecisionTerm("step", change, "bytes"))
    return GroupReclaim(before.group, limit, 0, at_us), Reason(RULE, text, terms), max(0, -change)


def _bounded(count_bytes: int, config: ReclaimConfig) -> int:
    """Within the bounds, in whole pages, and never 0."""
    kept = min(max(count_bytes, config.min_bytes), config.max_bytes)
    return max(1, kept // config.page_bytes) * config.page_bytes


def _unchanged(before: GroupReclaim, config: ReclaimConfig, why: str) -> list[SetKnob]:
    if config.means is not ReclaimKnob.HIGH:
        return []
    reason = Reason(RULE, why, (DecisionTerm("limit", before.limit_bytes, "bytes"),))
    return [SetKnob(KnobTarget(before.group, Knob.MEMORY_HIGH), str(before.limit_bytes), reason)]
