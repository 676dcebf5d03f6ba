"""What the node's engine asks of its process, and the figures it counts.

Problem: a process must be able to carry out a whole tick without judging. Choice: three ordered lists; nothing in them means nothing to do.
Limits: answers come back through `Agent.answered` and `Agent.evicted`, in the order in which things were asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.knob import GiveBack, SetKnob
from cotenant.model.machine.node_decision import EvictPod


@dataclass(frozen=True, slots=True)
class Instructions:
    """Carry out `give_back`, then `hold`, each in order; then `evict`. Only what is new, changed or due for renewal stands here."""

    hold: tuple[SetKnob, ...] = ()
    give_back: tuple[GiveBack, ...] = ()
    evict: tuple[EvictPod, ...] = ()
    dry: bool = False  # evictions must only be written down; the keeper is a dry one

    def __bool__(self) -> bool:
        return bool(self.hold or self.give_back or self.evict)


NOTHING = Instructions()


@dataclass(slots=True)
class AgentCounts:
    """What happened since the start; all only grow."""

    ticks: int = 0
    late_ticks: int = 0  # more than twice the period after the one before
    too_soon: int = 0  # samples after less than a twentieth of a period, or none: not judged
    clock_went_back: int = 0
    counter_resets: int = 0
    pressed: int = 0
    pressed_ignored: int = 0  # within the least gap, or of a group that nobody knows
    health_unknown: int = 0  # reports for a pod that nobody knows
    holds: int = 0  # new or changed
    renewals: int = 0
    given_back: int = 0
    refused: int = 0
    yielded: int = 0
    gone: int = 0
    lost_answers: int = 0
    stray_answers: int = 0
    outside_roots: int = 0  # wishes, once a target while it is wished
    bad_wishes: int = 0  # values that are not of the knob's canonical form, once a target while it is wished
    conflicts: int = 0  # two policies wanted different values, once a target while they do
    policy_failures: int = 0
    evictions_asked: int = 0
    evictions_accepted: int = 0
    evictions_refused: int = 0
    evictions_paced: int = 0  # wishes that had to wait for the limits, once a pod while it is wished
