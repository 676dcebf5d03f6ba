"""The instructions that the node's engine gives its process, and its counters.

A process must be able to execute a whole tick without deciding anything. Three ordered lists; empty lists mean nothing
to do.
Limits: answers are reported through `Agent.answered` and `Agent.evicted`, in the order of the requests.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.knob import GiveBack, SetKnob
from cotenant.model.machine.node_decision import EvictPod


@dataclass(frozen=True, slots=True)
class PolicyFailure:
    """What is wrong with a policy now."""

    policy: str
    error: str
    where: str  # file and line that raised it

    def __str__(self) -> str:
        return f"policy {self.policy} fails: {self.error} ({self.where})"


@dataclass(frozen=True, slots=True)
class Instructions:
    """Execute `give_back`, then `hold`, each in order; then `evict`. Contains only what is new, changed or due for
    renewal.
    """

    hold: tuple[SetKnob, ...] = ()
    give_back: tuple[GiveBack, ...] = ()
    evict: tuple[EvictPod, ...] = ()
    dry: bool = False  # evictions must only be recorded; the keeper is a dry-run one
    failing: tuple[PolicyFailure, ...] = ()  # policies that failed when they last ran

    def __bool__(self) -> bool:
        return bool(self.hold or self.give_back or self.evict)


NOTHING = Instructions()


@dataclass(slots=True)
class AgentCounts:
    """Events since the start; monotonic."""

    ticks: int = 0
    late_ticks: int = 0  # more than twice the period after the previous one
    too_soon: int = 0  # samples less than a twentieth of a period after the last: not used
    clock_went_back: int = 0
    counter_resets: int = 0
    pressed: int = 0
    pressed_ignored: int = 0  # within the minimum gap, or of an unknown group
    health_unknown: int = 0  # reports for an unknown pod
    holds: int = 0  # new or changed
    renewals: int = 0
    given_back: int = 0
    refused: int = 0
    yielded: int = 0
    gone: int = 0
    lost_answers: int = 0
    stray_answers: int = 0
    outside_roots: int = 0  # requests, counted once per target while it is requested
    bad_wishes: int = 0  # values not in the knob's canonical form, counted once per target while requested
    conflicts: int = 0  # different values from two policies, counted once per target while they differ
    policy_failures: int = 0
    evictions_asked: int = 0
    evictions_accepted: int = 0
    evictions_refused: int = 0
    evictions_paced: int = 0  # evictions that had to wait for a limit, counted once per pod while requested
