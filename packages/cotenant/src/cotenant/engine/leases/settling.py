"""The last stage of a round: each written lease's next state, from what was read back.

A write may fail, take effect in part, or be rounded, and the group may vanish meanwhile. The reading after the write
decides. A new value that was refused leaves the value held before, or the original is restored; a failed restore is
retried after a back-off.
Limits: a value that differs from the original right after it was restored is the kernel's form of it (an emptied CPU
set, a rounded limit): the lease is over.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.leases.idle_weight import IdleWeight
from cotenant.engine.leases.instructions import FailureKind, InstructionFailure, KnobReading
from cotenant.engine.leases.round_state import RoundState, value_of
from cotenant.engine.leases.table import RestoreRetry
from cotenant.model.machine.knob import KnobLease, LeaseAnswer, LeaseState
from cotenant.model.machine.knob_values import is_default, is_form_of
from cotenant.model.machine.node_decision import Reason

NOT_TAKEN = Reason("not-taken", "the kernel did not take the new value as a whole")


class Settling:
    """Settles the written leases of a round."""

    def __init__(self, state: RoundState, pinned: IdleWeight) -> None:
        self._state = state
        self._pinned = pinned
        self._table = state.table

    def refuse_unpersisted(self) -> None:
        """The state file does not have the originals: give up the writes that depend on it."""
        state = self._state
        detail = f"its original value cannot be saved: {state.persist_error}"
        for target in dict.fromkeys(target for target, _ in state.writes):
            lease = self._table.leases[target]
            if lease.state is not LeaseState.INTENDED:
                continue
            state.writes = [write for write in state.writes if write[0] != target]
            state.write_failures[target] = InstructionFailure(FailureKind.TRANSIENT, detail)
            self._settle_refused(lease, untouched=True)

    def settle(self) -> tuple[KnobLease, ...]:
        """Settle all written leases. Returns the live ones that changed."""
        leases = self._table.leases
        written = dict.fromkeys(target for target, _ in self._state.writes)
        for target in written:
            lease = leases[target]
            if lease.state is LeaseState.INTENDED:
                self._settle_hold(lease)
            elif lease.state is LeaseState.RESTORING:
                self._settle_restore(lease)
        changed = (*written, *self._pinned.settled())
        return tuple(leases[target] for target in changed if target in leases)

    def _settle_hold(self, lease: KnobLease) -> None:
        state = self._state
        seen, gone = state.readings[lease.target], state.gone(lease.target)
        if gone is not None:
            state.finish(lease, LeaseState.GONE, gone.detail, lease.reason)
        elif lease.target in state.write_failures:
            self._settle_refused(lease, untouched=False)
        else:
            unrestored = self._pinned.failure_after(lease.target)
            stands = None if unrestored else _ours(lease, value_of(seen))
            detail = unrestored or _difference(lease, value_of(seen))
            self._table.deferred_weights.discard(lease.target)
            self._table.retries.pop(lease.target, None)
            state.transition(replace(lease, stands=stands, detail=detail), LeaseState.HELD)
            state.audit(lease, LeaseState.HELD, lease.value, detail, lease.reason)

    def _settle_refused(self, lease: KnobLease, *, untouched: bool) -> None:
        """A write that failed: a value held before stays held; otherwise the original is restored if anything
        changed.
        """
        state = self._state
        detail = state.write_failures[lease.target].detail
        held, stands = state.previous.get(lease.target), value_of(state.readings[lease.target])
        state.audit(lease, LeaseState.REFUSED, lease.value, detail, lease.reason)
        for request in state.requests:
            if request.target == lease.target:
                request.answer = LeaseAnswer(lease.target, LeaseState.REFUSED, detail)
        if held is not None and held.state is LeaseState.HELD:
            state.transition(replace(held, stands=held.stands if untouched else stands), LeaseState.HELD)
        elif held is not None or not (untouched or stands == lease.before):
            state.transition(replace(held or lease, stands=stands, detail=detail), LeaseState.RESTORING)
            self._table.retries[lease.target] = RestoreRetry(0, state.now_us, NOT_TAKEN)
        else:
            state.close(lease, LeaseState.REFUSED, detail)

    def _settle_restore(self, lease: KnobLease) -> None:
        state = self._state
        failure, seen = state.write_failures.get(lease.target), state.readings[lease.target]
        reason = next(request.reason for request in state.requests if request.target == lease.target)
        gone, unrestored = state.gone(lease.target), self._pinned.failure_after(lease.target)
        if gone is not None:
            state.finish(lease, LeaseState.GONE, gone.detail, reason)
        elif failure is None and isinstance(seen, KnobReading) and not unrestored:
            is_exact = seen.raw == lease.raw_before or (self._pinned.is_idle(lease) and seen.value == lease.before)
            detail = "" if is_exact else f"reads {seen.raw if seen.value == lease.before else seen.value}"
            state.finish(lease, LeaseState.RESTORED, detail, reason)
        else:
            unread = seen.detail if isinstance(seen, InstructionFailure) else ""
            detail = failure.detail if failure is not None else unrestored or f"could not be read back: {unread}"
            state.retry_later(replace(lease, stands=None if unrestored else value_of(seen)), detail, reason)


def _ours(lease: KnobLease, stands: str | None) -> str | None:
    """What stands by our write. A value that no kernel makes of ours is another process's, which wrote between our
    write and our reading: the next reading finds it.
    """
    if stands is None or stands in (lease.value, lease.before):
        return stands
    knob = lease.target.knob
    return stands if is_default(knob, stands) or is_form_of(knob, stands, lease.value) else lease.value


def _difference(lease: KnobLease, stands: str | None) -> str:
    if stands == lease.value:
        return ""
    return f"reads {stands}" if stands is not None else "could not be read back"
