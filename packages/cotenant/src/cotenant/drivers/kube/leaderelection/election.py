"""Leader election by a Lease that several processes compete for: a state machine without I/O.

At most one scheduler should act, machines' clocks disagree and jump, and requests hang. As in
client-go, another's lease is judged only by how long this process has seen it unchanged, never by the times written in
it, and every write names the version it was decided on, so of two writers one gets a conflict. A leader that has not
renewed for `renew_deadline_s`, counted from the start of its last successful write, stops leading; that is shorter than
the lease, so it stops before another may start. Its term lasts until another is seen to have held the
lease: a leader that was merely slow renews and leads on, with all that it knows.
- The time for which a lease was seen unchanged grows by at most two retry periods per read, so a clock that jumps does
  not expire it.
- A clock that goes back makes a leader stop (it cannot know for how long it has led) and a candidate restart its wait.
- `release` empties the holder's name, so that the next leader need not wait.
Limits: a leader that is paused between a check and an act (a stopped process) may act once too late; a bind names the
pod's UID and is refused the second time, so nothing is bound twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf

from cotenant.drivers.kube.kinds.lease import Lease, LeaseSpec
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput

LONGEST_LEASE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Shorter than the defaults of Kubernetes' own components (15, 10, 2): pods wait for a successor,
    within 8 s of a leader's death.
    """

    lease_s: float = 6.0
    renew_deadline_s: float = 4.0
    retry_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s < self.renew_deadline_s < self.lease_s <= LONGEST_LEASE_S:
            raise InvalidInput(
                "leader election",
                f"lease {self.lease_s:g} s, renew deadline {self.renew_deadline_s:g} s, retry {self.retry_s:g} s",
                f"lease > renew deadline > retry > 0, the lease at most {LONGEST_LEASE_S:g} s",
            )


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the lease and `observe` it."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write this lease: create it where it has no version, else replace just that version. Then `wrote` or `failed`."""

    lease: Lease

    @property
    def creates(self) -> bool:
        """Whether there is none yet."""
        return not self.lease.metadata.resource_version


@dataclass(frozen=True, slots=True)
class Wait:
    """Send no request for so long."""

    seconds: float


Instruction = ReadLease | WriteLease | Wait


class Election:
    """The view of one candidate. Times are seconds of a clock that also runs while the machine sleeps; `wall_s` is
    only written and shown.
    """

    def __init__(self, namespace: str, name: str, identity: str, timing: Timing | None = None) -> None:
        if not identity:
            raise InvalidInput("leader election identity", "", "a name that no other candidate has")
        self.identity = identity
        self.timing = timing or Timing()
        self.leading = False
        self.in_term = False  # has led, and nobody else is known to have held the lease since
        self._transitions = 0  # of the lease during the term: every other holder adds one
        self._meta = ObjectMeta(name=name, namespace=namespace)
        self._seen: Lease | None = None  # as last read or written; None = there is none
        self._unchanged_s = 0.0  # for how long the record has been seen as it is
        self._renewed_s = -inf  # when our last successful write began
        self._now_s = -inf
        self._read_s = -inf  # when the lease was last read
        self._has_read = False  # since the last write or wait
        self._current = False  # what was seen is what we ourselves wrote last
        self._next_s = -inf  # when to try again

    @property
    def holder(self) -> str:
        """The last known holder of the lease; empty = none."""
        spec = self._seen.spec if self._seen is not None else None
        return (spec.holder_identity or "") if spec is not None else ""

    def unrenewed_s(self, now_s: float) -> float:
        """For how long the lease has not been renewed, in a term."""
        return now_s - self._renewed_s

    def left_s(self, now_s: float) -> float:
        """For how long the leadership lasts without another renewal."""
        return self._renewed_s + self.timing.renew_deadline_s - now_s if self.leading else 0.0

    def step(self, now_s: float, wall_s: float) -> Instruction:
        """The next instruction. Check `leading` afterwards: time alone may have ended it."""
        self._tick(now_s)
        if now_s < self._next_s:
            wait_s = self._next_s - now_s
            return Wait(min(wait_s, max(0.0, self.left_s(now_s))) if self.leading else wait_s)
        if not self._has_read and not (self.leading and self._current):
            return ReadLease()
        self._has_read = False
        if self._may_take():
            return self._claim(wall_s)
        self._next_s = now_s + self.timing.retry_s
        return Wait(self.timing.retry_s)

    def observe(self, lease: Lease | None, now_s: float) -> None:
        """The lease as it was read; None = there is none."""
        self._tick(now_s)
        elapsed_s, self._read_s = now_s - self._read_s, now_s
        old, self._seen = self._seen, lease
        # The version, not the times: a holder whose clock stands still renews all the same.
        same = (
            old is not None
            and lease is not None
            and old.metadata.resource_version == lease.metadata.resource_version
            and old.spec == lease.spec
        )
        self._unchanged_s = self._unchanged_s + min(elapsed_s, 2.0 * self.timing.retry_s) if same else 0.0
        self._has_read = True
        self._current = False
        if self.in_term and (self.holder != self.identity or _transitions(lease) != self._transitions):
            self._lose()
            self.in_term = False

    def wrote(self, lease: Lease, began_s: float, now_s: float) -> None:
        """A write succeeded: the lease as stored, and when the request began."""
        self._tick(now_s)
        self._seen = lease
        self._has_read = False
        self._unchanged_s = 0.0
        if self.holder == self.identity:
            self.leading = now_s - began_s < self.timing.renew_deadline_s
            self._renewed_s = began_s
            self._transitions = _transitions(lease)
            self.in_term = self.in_term or self.leading
        self._current = self.leading
        self._next_s = began_s + self.timing.retry_s

    def failed(self, now_s: float) -> None:
        """A read or a write failed or met a conflict: read again, after a while."""
        self._tick(now_s)
        self._has_read = self._current = False  # a leader reads, too: another process may have written
        self._next_s = now_s + self.timing.retry_s

    def release(self, wall_s: float) -> WriteLease | None:
        """Stop leading. The write that lets another start at once; None where the lease, as last seen, is not held by
        this process.

        A conflict means that this view was old (a renewal whose answer was not awaited): observe and release again.
        """
        self._lose()
        self.in_term = False
        if self._seen is None or self._seen.spec is None or self.holder != self.identity:
            return None
        now = _micro_time(wall_s)
        spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=self._seen.spec.lease_transitions or 0,
        )
        return WriteLease(Lease(metadata=self._written_meta(), spec=spec))

    def _tick(self, now_s: float) -> None:
        """Advance the time. Ends a leadership that has run out, or whose age is unknown because the clock went back."""
        if now_s < self._now_s:
            self._unchanged_s = 0.0
            self._read_s = min(self._read_s, now_s)
            self._next_s = min(self._next_s, now_s + self.timing.retry_s)
            self._lose()
        elif self.leading and self.left_s(now_s) <= 0:
            self._lose()
        self._now_s = now_s

    def _may_take(self) -> bool:
        spec = self._seen.spec if self._seen is not None else None
        if spec is None or not spec.holder_identity or spec.holder_identity == self.identity:
            return True
        return self._unchanged_s >= (spec.lease_duration_seconds or self.timing.lease_s)

    def _claim(self, wall_s: float) -> WriteLease:
        now = _micro_time(wall_s)
        old = (self._seen.spec if self._seen is not None else None) or LeaseSpec()
        ours = old.holder_identity == self.identity
        transitions = old.lease_transitions or 0
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, round(self.timing.lease_s)),
            acquire_time=(old.acquire_time or now) if ours else now,
            renew_time=now,
            lease_transitions=transitions if ours or self._seen is None else transitions + 1,
        )
        return WriteLease(Lease(metadata=self._written_meta(), spec=spec))

    def _written_meta(self) -> ObjectMeta:
        """The metadata as read, so that labels and owners stay; its version makes the write conditional."""
        return self._seen.metadata if self._seen is not None else self._meta

    def _lose(self) -> None:
        self.leading = False


def _transitions(lease: Lease | None) -> int:
    return (lease.spec.lease_transitions or 0) if lease is not None and lease.spec is not None else 0


def _micro_time(wall_s: float) -> str:
    """Kubernetes' MicroTime."""
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
