"""The agent's decisions with their reasons, in bounded memory: the answer to "why is my job throttled".

The answer must be available an hour later or while it happens, and must not grow with uptime. A ring of decisions over
the whole node, where a decision is a change: a knob held at another value or by another policy, one given back, refused
or yielded, an eviction, a new reason of a policy. The current state is not in the ring: it is read from the engine
itself.
Limits: a value that is held for hours is one decision; its terms at the last tick are in the explanation, those of
every tick are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import KnobTarget
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.replica_signal import FRESH_US, ReplicaSignal


class DecisionKind(StrEnum):
    """The kind of a decision."""

    HELD = "held"  # hold requested, at another value or by another policy than before
    RELEASED = "released"  # release requested
    REFUSED = "refused"
    YIELDED = "yielded"  # another process wrote the knob; backed off
    EVICTED = "evicted"  # eviction requested
    STAYED = "stayed"  # the eviction was refused
    JUDGED = "judged"  # a new reason of a policy
    FAILED = "failed"  # a policy failed, or with another error than before


@dataclass(frozen=True, slots=True)
class KnobDecision:
    """One line of the log."""

    number: int  # from 1, without gaps
    at_us: int
    what: DecisionKind
    policy: str  # "" where no policy decided
    group: str  # "" where it concerns the node
    reason: Reason
    target: KnobTarget | None = None
    value: str = ""
    pod: str = ""  # namespace/name


@dataclass(frozen=True, slots=True)
class HeldKnob:
    """A knob that is held, requested or refused now."""

    target: KnobTarget
    value: str
    state: str  # "asked", "held", "returning", "refused", "yielded", "gone", or in observe mode "would be held"
    policy: str
    reason: Reason
    since_us: int  # when this value was first requested
    lost: tuple[tuple[str, str], ...]  # other policies and the values that they wanted
    lifts: str  # the condition under which it is released
    detail: str = ""  # why it was refused or yielded


@dataclass(frozen=True, slots=True)
class GroupExplanation:
    """The explanation of a group, or of a pod with the groups below and above it."""

    asked: str  # as given
    groups: tuple[str, ...]
    pod: str  # namespace/name, "" where the group belongs to no pod
    text: tuple[str, ...]  # the same in sentences, ready to print
    holds: tuple[HeldKnob, ...]
    stands: tuple[tuple[KnobTarget, str], ...]  # knobs that were read, with their values
    verdicts: tuple[tuple[str, tuple[Reason, ...]], ...]  # each policy's last reasons
    leaves: Reason | None  # why the pod's eviction was requested, or is waiting
    decisions: tuple[KnobDecision, ...]  # of these groups, oldest first
    signals: tuple[ReplicaSignal, ...] = ()  # measured of the pod from its spans


class DecisionLog:
    """The ring of decisions."""

    def __init__(self, most: int) -> None:
        self._ring: deque[KnobDecision] = deque(maxlen=most)
        self._number = 0

    def __len__(self) -> int:
        return len(self._ring)

    def note(
        self,
        at_us: int,
        what: DecisionKind,
        policy: str,
        group: str,
        reason: Reason,
        target: KnobTarget | None = None,
        value: str = "",
        pod: str = "",
    ) -> None:
        """Append a decision."""
        self._number += 1
        self._ring.append(KnobDecision(self._number, at_us, what, policy, group, reason, target, value, pod))

    def since(self, number: int) -> tuple[KnobDecision, ...]:
        """Decisions with a greater number, oldest first."""
        newer = min(len(self._ring), max(0, self._number - number))
        return tuple(self._ring[i] for i in range(len(self._ring) - newer, len(self._ring)))

    def of(self, groups: Sequence[str], pod: str) -> tuple[KnobDecision, ...]:
        """Decisions on one of these groups or this pod."""
        wanted = set(groups)
        return tuple(d for d in self._ring if (d.group and d.group in wanted) or (pod and d.pod == pod))

    def validate(self) -> None:
        """Numbers are without gaps, the newest last. Raises `Permanent`."""
        numbers = [decision.number for decision in self._ring]
        if numbers != list(range(self._number - len(numbers) + 1, self._number + 1)):
            raise Permanent("the decision log has gaps")


def sentences(explanation: GroupExplanation, now_us: int) -> tuple[str, ...]:
    """The explanation in sentences, the most important first."""
    who = f"pod {explanation.pod}" if explanation.pod else f"group /{explanation.asked}"
    lines = [explanation.leaves.text] if explanation.leaves else []
    lines += [_signal(signal) for signal in explanation.signals]
    if not explanation.holds:
        lines.append(f"no knob of {who} is held")
    for hold in explanation.holds:
        lines.append(
            f"{hold.target} is {hold.state} at {hold.value!r} for {_span(now_us - hold.since_us)}"
            + (f", by {hold.policy}: {hold.reason.text}" if hold.policy else f": {hold.reason.text}")
            + (f" ({hold.detail})" if hold.detail else "")
        )
        lines += [f"  {policy} wanted {value!r} and was overruled" for policy, value in hold.lost]
        lines += [f"  {term.name} {term.value} {term.unit}".rstrip() for term in hold.reason.terms]
        if hold.lifts:
            lines.append(f"  it is released when {hold.lifts}")
    lines += [f"{target} reads {value!r}" for target, value in explanation.stands]
    lines += [f"{policy}: {reason.text}" for policy, reasons in explanation.verdicts for reason in reasons]
    lines += [f"{_span(now_us - d.at_us)} ago: {_describe(d)}" for d in explanation.decisions]
    return tuple(lines)


def _signal(signal: ReplicaSignal) -> str:
    if signal.age_us > FRESH_US:
        return (
            f"objective {signal.objective}: no signal from the trace process for {_span(signal.age_us)}; run delay "
            "and pressure are used instead"
        )
    burn = signal.burn_milli
    if burn is None:
        return f"objective {signal.objective}: no request within {_span(signal.window_us)}"
    what = (
        ""
        if signal.threshold_us is None
        else f", p99 {signal.p99_us / 1000:.1f} ms against {signal.threshold_us / 1000:g} ms"
    )
    return (
        f"objective {signal.objective}: {signal.bad} of {signal.requests} requests missed it within "
        f"{_span(signal.window_us)}{what}, "
        f"budget burns {burn / 1000:.1f} x (measured {_span(signal.age_us)} ago)"
    )


def _describe(decision: KnobDecision) -> str:
    what = f"{decision.target} {decision.what}" if decision.target else str(decision.what)
    at = f" at {decision.value!r}" if decision.value else ""
    by = f" by {decision.policy}" if decision.policy else ""
    return f"{what}{at}{by}: {decision.reason.text}"


def _span(us: int) -> str:
    seconds = us // 1_000_000
    if seconds < 120:
        return f"{max(0, us) / 1e6:.1f} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
