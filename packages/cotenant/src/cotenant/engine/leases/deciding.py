"""The second stage of a round: sort the requests into renewals, writes, restores and refusals.

A request is judged by what stands now, which may be gone, recreated, unreadable, or written by another process. One
method per kind of request; each ends the lease, renews it, refuses the request, or adds a write.
Limits: nothing is written here; a decision is a change of the table and an entry in `RoundState.writes`.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.leases.idle_weight import IdleWeight
from cotenant.engine.leases.instructions import FailureKind, InstructionFailure, KnobReading
from cotenant.engine.leases.round_state import Request, RoundState, foreign, is_put_back, value_of
from cotenant.engine.leases.table import MAX_PUT_BACKS
from cotenant.engine.leases.write_order import PlannedWrite, plan_steps
from cotenant.model.machine.knob import KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.knob_values import is_default

_BLIND_AFTER = 3  # failed readings of a knob to restore; after them its original value is written without one
_RECREATED = "the group was deleted and created again under the same name"
_HIDDEN = "cpu.idle is set, and hides the weight whose original value would have to be saved"


class Deciding:
    """Decides all requests of a round."""

    def __init__(self, state: RoundState, pinned: IdleWeight) -> None:
        self._state = state
        self._pinned = pinned
        self._table = state.table

    def decide(self) -> tuple[KnobLease, ...]:
        """Decide. Returns the leases that the state file has to have before anything is written."""
        leases = self._table.leases
        restores: list[KnobTarget] = []
        ending = self._state.restored_targets()
        for request in self._state.requests:
            if request.desired is not None:
                self._decide_hold(request, request.desired)
            elif request.target not in leases:
                request.answer = LeaseAnswer(request.target, LeaseState.RESTORED, "is not held")
            elif self._decide_restore(request, ending):
                restores.append(request.target)
        self._state.writes += self._ordered_restores(restores)
        changed_weights = self._pinned.decided()
        written = dict.fromkeys(target for target, _ in self._state.writes)
        return (*(leases[target] for target in written), *changed_weights)

    # Requests to hold

    def _decide_hold(self, request: Request, desired: SetKnob) -> None:
        leases, state = self._table.leases, self._state
        lease, seen = leases.get(desired.target), state.readings[desired.target]
        expires_us = state.now_us + desired.lasts_us
        if lease is None:
            self._decide_new(request, desired, seen, expires_us)
        elif isinstance(seen, InstructionFailure):
            if seen.kind is FailureKind.GONE:
                state.finish(lease, LeaseState.GONE, seen.detail, request.reason)
            elif lease.state is LeaseState.HELD and lease.value == desired.value:
                self._renew(lease, desired, expires_us, f"renewed without reading: {seen.detail}")
            else:
                request.answer = LeaseAnswer(desired.target, LeaseState.REFUSED, seen.detail)
        elif _is_recreated(lease, seen):
            state.finish(lease, LeaseState.GONE, _RECREATED, request.reason)
        elif lease.state is not LeaseState.INTENDED and self._pinned.is_foreign(lease, seen):
            self._decide_foreign(request, desired, lease, seen, expires_us)
        elif self._is_renewal(lease, desired):
            self._renew(lease, desired, expires_us, "")
        else:
            self._decide_change(request, lease, desired, expires_us)

    def _decide_foreign(
        self, request: Request, desired: SetKnob, lease: KnobLease, seen: KnobReading, expires_us: int
    ) -> None:
        """Another process wrote a knob that is held: write it again where that was put back, else yield (once the
        holder asks).
        """
        put_back = is_put_back(seen, lease)
        contested = put_back and self._table.put_back(lease.target, self._state.now_us).in_window > MAX_PUT_BACKS
        if put_back and not contested:
            self._decide_change(request, lease, desired, expires_us)
        elif not request.is_check:
            detail = foreign(seen, lease)
            if contested:
                detail = f"another process put back {seen.value!r} more than {MAX_PUT_BACKS} times in a minute"
            self._pinned.idle_ended(lease)
            self._state.finish(lease, LeaseState.YIELDED, detail, request.reason)

    def _is_renewal(self, lease: KnobLease, desired: SetKnob) -> bool:
        is_held = lease.state is LeaseState.HELD and lease.value == desired.value
        if is_held and self._was_overtaken(lease):
            return False
        return is_held and not self._pinned.is_reset(lease.target)

    def _was_overtaken(self, lease: KnobLease) -> bool:
        """Whether another process put it back between our write and our reading of it. A kernel that takes no such
        value looks alike: not for ever.
        """
        stands = lease.stands
        if stands is None or stands == lease.value:
            return False
        if stands != lease.before and not is_default(lease.target.knob, stands):
            return False
        return self._table.put_back(lease.target, self._state.now_us).in_window <= MAX_PUT_BACKS

    def _decide_change(self, request: Request, lease: KnobLease, desired: SetKnob, expires_us: int) -> None:
        """Another value for a knob that has a lease."""
        refused = self._state.bound(desired.target, desired.value, lease.before)
        if refused is not None:
            request.answer = LeaseAnswer(desired.target, LeaseState.REFUSED, refused)
            return
        changed = replace(
            lease,
            value=desired.value,
            reason=desired.reason,
            expires_at_us=expires_us,
            weight_before=self._pinned.original_weight(desired, lease),
        )
        if lease.state is LeaseState.INTENDED:  # requested twice in this round
            self._table.leases[desired.target] = changed
        else:
            self._state.previous[desired.target] = lease
            self._state.transition(changed, LeaseState.INTENDED)
        self._state.writes.append((desired.target, desired.value))

    def _decide_new(
        self, request: Request, desired: SetKnob, seen: KnobReading | InstructionFailure, expires_us: int
    ) -> None:
        """A knob without a lease."""
        state = self._state
        if isinstance(seen, InstructionFailure):
            outcome = LeaseState.GONE if seen.kind is FailureKind.GONE else LeaseState.REFUSED
            state.refuse(request, desired, "", outcome, seen.detail)
        elif self._pinned.is_hidden(desired.target):
            state.refuse(request, desired, "", LeaseState.REFUSED, _HIDDEN)
        elif (refused := state.bound(desired.target, desired.value, seen.value)) is not None:
            state.refuse(request, desired, seen.value, LeaseState.REFUSED, refused)
        elif len(self._table.leases) >= state.most:
            detail = f"{state.most} leases are held already, the limit"
            state.refuse(request, desired, seen.value, LeaseState.REFUSED, detail)
        elif seen.raw is None:  # its lease ended in this round
            detail = "its previous lease ended just now; ask again"
            state.refuse(request, desired, seen.value, LeaseState.REFUSED, detail)
        else:
            lease = KnobLease(
                desired.target,
                raw_before=seen.raw,
                value=desired.value,
                reason=desired.reason,
                state=LeaseState.INTENDED,
                taken_at_s=state.wall_s,
                expires_at_us=expires_us,
                before=seen.value,
                identity=seen.identity,
                weight_before=self._pinned.original_weight(desired, None),
            )
            self._table.add(lease, state.wall_s)
            state.writes.append((desired.target, desired.value))

    def _renew(self, lease: KnobLease, desired: SetKnob, expires_us: int, detail: str) -> None:
        self._table.leases[desired.target] = replace(
            lease, expires_at_us=expires_us, reason=desired.reason, detail=detail or self._put_back_before(lease.target)
        )
        self._table.deferred_weights.discard(desired.target)

    def _put_back_before(self, target: KnobTarget) -> str:
        times = self._table.put_backs.get(target)
        return "" if times is None else put_back_detail(times.total)

    # Requests to restore

    def _decide_restore(self, request: Request, ending: set[KnobTarget]) -> bool:
        """Whether the original value is to be written now."""
        target, state = request.target, self._state
        lease, seen = self._table.leases[target], state.readings[target]
        if _is_recreated(lease, seen):
            state.finish(lease, LeaseState.GONE, _RECREATED, request.reason)
            return False
        if isinstance(seen, InstructionFailure):
            if seen.kind is FailureKind.GONE:
                state.finish(lease, LeaseState.GONE, seen.detail, request.reason)
                return False
            if seen.kind is FailureKind.TRANSIENT and self._table.failures(target) < _BLIND_AFTER:
                if lease.state is not LeaseState.RESTORING:
                    state.transition(lease, LeaseState.RESTORING)
                state.retry_later(self._table.leases[target], f"could not be read: {seen.detail}", request.reason)
                return False
        elif self._pinned.waits(target, ending):
            self._table.deferred_weights.add(target)
            self._table.leases[target] = replace(lease, detail="is restored after cpu.idle, which pins it")
            return False
        elif self._pinned.is_pinned_by_original(target):
            detail = "cpu.idle pins the weight, and is not held"
            state.finish(lease, LeaseState.RESTORED, detail, request.reason)
            return False
        elif not self._pinned.is_pinned(target):
            if self._pinned.is_original(lease, seen):
                self._pinned.idle_ended(lease)
                state.finish(lease, LeaseState.RESTORED, "had its original value already", request.reason)
                return False
            if self._pinned.is_foreign(lease, seen):
                state.finish(lease, LeaseState.YIELDED, foreign(seen, lease), request.reason)
                return False
        if lease.state is not LeaseState.RESTORING:
            state.transition(lease, LeaseState.RESTORING)
        return True

    def _ordered_restores(self, targets: list[KnobTarget]) -> list[tuple[KnobTarget, str | None]]:
        leases = [self._table.leases[target] for target in targets]
        readings = self._state.readings
        planned = [PlannedWrite(lease.target, value_of(readings[lease.target]), lease.before) for lease in leases]
        return [(targets[step.index], step.through) for step in plan_steps(planned)]


def put_back_detail(times: int) -> str:
    """The detail of a lease whose knob others put back."""
    return f"another process put back what stood before {times} times; written again"


def _is_recreated(lease: KnobLease, seen: KnobReading | InstructionFailure) -> bool:
    return bool(lease.identity and seen.identity and lease.identity != seen.identity)
