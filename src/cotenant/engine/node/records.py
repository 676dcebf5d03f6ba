"""What the agent decided and why, in bounded memory: the answer to "why is my job throttled".

Problem: the answer must stand when somebody asks, an hour later or while it happens, and must not grow with uptime. Choice: a ring of
decisions over the whole node, a decision being a change: a knob held at another value or by another policy, one given back, refused or
yielded, an eviction, a rule that speaks and did not before. What stands now is not in the ring: it is told from the engine itself. Limits: a
value that is held for hours is one decision; its terms at the last tick are in the story, those of every tick are not kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import Target
from cotenant.model.machine.node_decision import Reason


class Happened(StrEnum):
    """What a decision was."""

    HELD = "held"  # asked to be held, at another value or by another policy than before
    RELEASED = "released"  # asked to be given back
    REFUSED = "refused"
    YIELDED = "yielded"  # somebody else wrote the knob; stood off
    EVICTED = "evicted"  # asked to leave
    STAYED = "stayed"  # the request to leave was refused
    JUDGED = "judged"  # a policy's rule speaks that did not before
    FAILED = "failed"  # a policy failed, or in another way than before


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the log."""

    number: int  # from 1, without gaps
    at_us: int
    what: Happened
    policy: str  # "" where it was not a policy
    group: str  # "" where it concerns the node
    reason: Reason
    target: Target | None = None
    value: str = ""
    pod: str = ""  # namespace/name


@dataclass(frozen=True, slots=True)
class Hold:
    """A knob as it is held, wanted or refused now."""

    target: Target
    value: str
    state: str  # "asked", "held", "returning", "refused", "yielded", "gone", or in observe mode "would be held"
    policy: str
    reason: Reason
    since_us: int  # of this value
    lost: tuple[tuple[str, str], ...]  # other policies and the values that they wanted
    lifts: str  # what would lift it
    detail: str = ""  # why it was refused or yielded


@dataclass(frozen=True, slots=True)
class Story:
    """A group, or a pod with the groups below and above it."""

    asked: str  # as asked for
    groups: tuple[str, ...]
    pod: str  # namespace/name, "" where the group is no pod's
    text: tuple[str, ...]  # the same in sentences, ready to print
    holds: tuple[Hold, ...]
    stands: tuple[tuple[Target, str], ...]  # knobs that were read, as they stand
    verdicts: tuple[tuple[str, tuple[Reason, ...]], ...]  # each policy's last reasons
    leaves: Reason | None  # why the pod was asked to leave, or waits for it
    decisions: tuple[Decision, ...]  # of these groups, oldest first


class Log:
    """The ring of decisions."""

    def __init__(self, most: int) -> None:
        self._ring: deque[Decision] = deque(maxlen=most)
        self._number = 0

    def __len__(self) -> int:
        return len(self._ring)

    def note(
        self,
        at_us: int,
        what: Happened,
        policy: str,
        group: str,
        reason: Reason,
        target: Target | None = None,
        value: str = "",
        pod: str = "",
    ) -> None:
        """Write one down."""
        self._number += 1
        self._ring.append(Decision(self._number, at_us, what, policy, group, reason, target, value, pod))

    def since(self, number: int) -> tuple[Decision, ...]:
        """Those with a greater number, oldest first."""
        newer = min(len(self._ring), max(0, self._number - number))
        return tuple(self._ring[i] for i in range(len(self._ring) - newer, len(self._ring)))

    def of(self, groups: Sequence[str], pod: str) -> tuple[Decision, ...]:
        """Those that concern one of these groups or this pod."""
        wanted = set(groups)
        return tuple(d for d in self._ring if (d.group and d.group in wanted) or (pod and d.pod == pod))

    def validate(self) -> None:
        """Numbers without gaps, the newest last. Raises `Permanent`."""
        numbers = [decision.number for decision in self._ring]
        if numbers != list(range(self._number - len(numbers) + 1, self._number + 1)):
            raise Permanent("the log of decisions has gaps")


def sentences(story: Story, now_us: int) -> tuple[str, ...]:
    """The story in words, the strongest statement first."""
    who = f"pod {story.pod}" if story.pod else f"group /{story.asked}"
    lines = [story.leaves.text] if story.leaves else []
    if not story.holds:
        lines.append(f"no knob of {who} is held")
    for hold in story.holds:
        lines.append(
            f"{hold.target} is {hold.state} at {hold.value!r} for {_span(now_us - hold.since_us)}"
            + (f", by {hold.policy}: {hold.reason.text}" if hold.policy else f": {hold.reason.text}")
            + (f" ({hold.detail})" if hold.detail else "")
        )
        lines += [f"  {policy} wanted {value!r}, and gave way" for policy, value in hold.lost]
        lines += [f"  {term.name} {term.value} {term.unit}".rstrip() for term in hold.reason.terms]
        if hold.lifts:
            lines.append(f"  it is lifted when {hold.lifts}")
    lines += [f"{target} stands at {value!r}" for target, value in story.stands]
    lines += [f"{policy}: {reason.text}" for policy, reasons in story.verdicts for reason in reasons]
    lines += [f"{_span(now_us - d.at_us)} ago: {_told(d)}" for d in story.decisions]
    return tuple(lines)


def _told(decision: Decision) -> str:
    what = f"{decision.target} {decision.what}" if decision.target else str(decision.what)
    at = f" at {decision.value!r}" if decision.value else ""
    by = f" by {decision.policy}" if decision.policy else ""
    return f"{what}{at}{by}: {decision.reason.text}"


def _span(us: int) -> str:
    seconds = us // 1_000_000
    if seconds < 120:
        return f"{max(0, us) / 1e6:.1f} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
