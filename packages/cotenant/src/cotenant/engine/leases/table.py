"""The table of live leases: one lease per knob, with its history, its retry and its deferral.

A lease's state is changed from many places of a round, and a change that forgets the history or a pending retry leaves
a knob throttled. All changes of state go through `add`, `transition` and `close`, which keep the parts of a lease
together.
Limits: no decisions here; the rules are in `round.py`, the legal transitions in `transitions.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.leases.transitions import OVER, LeaseHistory
from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import Reason


@dataclass(frozen=True, slots=True)
class RestoreRetry:
    """A restore that failed this many times in a row, and when it is tried again."""

    failures: int
    at_us: int
    cause: Reason


MAX_PUT_BACKS = 600
PUT_BACK_WINDOW_US = 60_000_000


@dataclass(frozen=True, slots=True)
class PutBacks:
    """How often another process put a held knob back: in all, and in the window that began at `since_us`."""

    total: int
    in_window: int
    since_us: int


class LeaseTable:
    """Live leases by target."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self.leases: dict[KnobTarget, KnobLease] = {}
        self.histories: dict[KnobTarget, LeaseHistory] = {}
        self.retries: dict[KnobTarget, RestoreRetry] = {}  # failed restores
        self.put_backs: dict[KnobTarget, PutBacks] = {}
        self.deferred_weights: set[KnobTarget] = (
            set()
        )  # released while cpu.idle of their group is held: restored after it

    def add(self, lease: KnobLease, wall_s: float) -> None:
        """A new lease."""
        self.histories[lease.target] = LeaseHistory(lease.target)
        self.transition(lease, lease.state, wall_s)

    def transition(self, lease: KnobLease, state: LeaseState, wall_s: float) -> None:
        """Store the lease in this state. Raises `Permanent` where the transition is not legal."""
        self.histories[lease.target].transition(state, wall_s)
        self.leases[lease.target] = replace(lease, state=state)

    def close(self, target: KnobTarget, state: LeaseState, wall_s: float) -> None:
        """End the lease in this state, and forget it."""
        self.histories[target].transition(state, wall_s)
        for kept in (self.leases, self.histories, self.retries, self.put_backs):
            kept.pop(target, None)
        self.deferred_weights.discard(target)

    def failures(self, target: KnobTarget) -> int:
        """How many restores failed in a row."""
        return self.retries[target].failures if target in self.retries else 0

    def retry_cause(self, target: KnobTarget) -> Reason | None:
        """Why the lease is being restored, where a restore failed."""
        return self.retries[target].cause if target in self.retries else None

    def retry_later(self, target: KnobTarget, now_us: int, cause: Reason) -> int:
        """Schedule the next try after a back-off. Returns the number of failures."""
        failures = self.failures(target) + 1
        backoff_us = round(self._backoff.rest_s(failures) * 1e6)
        self.retries[target] = RestoreRetry(failures, now_us + backoff_us, cause)
        return failures

    def put_back(self, target: KnobTarget, now_us: int) -> PutBacks:
        """Count that another process put it back."""
        before = self.put_backs.get(target, PutBacks(0, 0, now_us))
        is_new = now_us - before.since_us >= PUT_BACK_WINDOW_US
        window = (0, now_us) if is_new else (before.in_window, before.since_us)
        self.put_backs[target] = PutBacks(before.total + 1, window[0] + 1, window[1])
        return self.put_backs[target]

    def due_us(self, target: KnobTarget) -> int:
        """When this lease expires or is retried."""
        if target in self.retries:
            return self.retries[target].at_us
        lease = self.leases[target]
        if target in self.deferred_weights:
            idle = self.leases.get(idle_of(target))
            return lease.expires_at_us if idle is None else max(lease.expires_at_us, idle.expires_at_us)
        return lease.expires_at_us

    def validate(self) -> None:
        """Check the invariants between rounds. Raises `Permanent`."""
        for target, lease in self.leases.items():
            history = self.histories.get(target)
            if lease.target != target or history is None or history.state is not lease.state:
                raise Permanent(f"lease of {target}: state and history disagree")
            if lease.state is LeaseState.INTENDED or lease.state in OVER:
                raise Permanent(f"lease of {target} is {lease.state} between rounds: {'; '.join(history.lines())}")
        for kept in (self.histories.keys(), self.retries.keys(), self.put_backs.keys(), self.deferred_weights):
            if not set(kept) <= self.leases.keys():
                raise Permanent("the table has entries of a lease that is over")


def idle_of(target: KnobTarget) -> KnobTarget:
    """cpu.idle of the same group."""
    return KnobTarget(target.group, Knob.CPU_IDLE)


def weight_of(target: KnobTarget) -> KnobTarget:
    """cpu.weight of the same group."""
    return KnobTarget(target.group, Knob.CPU_WEIGHT)


def partner_of(target: KnobTarget) -> KnobTarget | None:
    """The other of cpu.idle and cpu.weight of the same group, which the kernel couples; None for other knobs."""
    if target.knob is Knob.CPU_IDLE:
        return weight_of(target)
    return idle_of(target) if target.knob is Knob.CPU_WEIGHT else None
