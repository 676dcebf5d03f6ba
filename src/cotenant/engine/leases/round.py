"""One round of requests: read all knobs, persist all original values, write, read back, settle.

Problem: holding ten knobs one after another would sync the disk ten times, and a crash between two steps must always find the original
values on disk. Choice: four stages. READ reads all knobs of the round; DECIDE sorts the requests into renewals, writes, restores and refusals,
and asks for one durable write of the state file; WRITE writes and reads back in the order that the kernel accepts (`write_order.py`); SETTLE
makes each lease's next state from what was read back, and emits state-file updates and audit lines. Limits: a target requested twice in one
round is written twice; the last value remains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cotenant.engine.leases.instructions import (
    Audit,
    Drop,
    Failure,
    FailureKind,
    Instruction,
    Persist,
    ReadBack,
    ReadCurrent,
    Reading,
    Restore,
    Write,
)
from cotenant.engine.leases.table import LeaseTable, Retry, idle_of, weight_of
from cotenant.engine.leases.write_order import PlannedWrite, plan_steps
from cotenant.model.machine.knob import Knob, KnobChange, KnobLease, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import Reason

NOT_TAKEN = Reason("not-taken", "the kernel did not take the new value as a whole")
_BLIND_AFTER = 3  # failed readings of a knob to restore; after them its original value is written without one
_RECREATED = "the group was deleted and created again under the same name"
_Stage = Callable[[], tuple[Instruction, ...]]


@dataclass(slots=True, eq=False)
class Request:
    """One request of a round."""

    target: Target
    desired: SetKnob | None  # None: restore
    reason: Reason
    answer: LeaseAnswer | None = None


class Round:
    """A round over the table. Readings and failures are reported into it between stages."""

    def __init__(
        self, table: LeaseTable, requests: Sequence[Request], now_us: int, wall_s: float, who: str, most: int
    ) -> None:
        self._table = table
        self._now_us, self._wall_s, self._who = now_us, wall_s, who
        self._most = most
        self._requests = list(requests)
        self._answered = len(requests)  # the first of `_requests`; those after them are implied
        self.readings: dict[Target, Reading | Failure] = {}
        self.write_failures: dict[Target, Failure] = {}
        self.persist_error = ""
        self._previous: dict[Target, KnobLease] = {}  # leases that this round gives another value, as they were
        self._writes: list[tuple[Target, str | None]] = []  # None: the original value
        self._idle_weights: dict[Target, KnobLease] = {}  # weights whose group's cpu.idle is written, as they were
        self._ended: dict[Target, KnobLease] = {}
        self._changes: list[KnobChange] = []
        self._stages: list[_Stage] = [self._read, self._decide, self._write, self._settle] if requests else []
        self._add_deferred_weights()

    @property
    def is_under_way(self) -> bool:
        """Whether stages are left."""
        return bool(self._stages)

    def next(self) -> tuple[Instruction, ...]:
        """The next stage with instructions; () ends the round."""
        while self._stages:
            stage = self._stages.pop(0)()
            if stage:
                return stage
        return ()

    def answers(self) -> tuple[LeaseAnswer, ...]:
        """The outcomes of the requests, in their order."""
        return tuple(request.answer or self._answer(request.target) for request in self._requests[: self._answered])

    def _answer(self, target: Target) -> LeaseAnswer:
        lease = self._table.leases.get(target) or self._ended[target]
        return LeaseAnswer(target, lease.state, lease.detail)

    def _restored_targets(self) -> set[Target]:
        return {request.target for request in self._requests if request.desired is None}

    def _add_deferred_weights(self) -> None:
        """A weight that waits for its group's cpu.idle is restored together with it."""
        ending = {request.target: request.reason for request in self._requests if request.desired is None}
        for idle, reason in ending.items():
            weight = self._table.leases.get(weight_of(idle)) if idle.knob is Knob.CPU_IDLE else None
            if weight is None or weight.target in ending:
                continue
            if weight.target in self._table.deferred_weights or weight.state is LeaseState.RESTORING:
                self._requests.append(Request(weight.target, None, reason))

    # Stage 1: read

    def _read(self) -> tuple[Instruction, ...]:
        leases = self._table.leases
        known = {target for target, lease in leases.items() if lease.state is LeaseState.HELD}
        known -= self._restored_targets()
        targets = dict.fromkeys(
            request.target for request in self._requests if request.desired is not None or request.target in leases
        )
        weights = (weight_of(target) for target in targets if target.knob is Knob.CPU_IDLE)
        targets |= dict.fromkeys(weight for weight in weights if weight in leases)
        return tuple(ReadCurrent(target, raw=target not in known) for target in targets)

    # Stage 2: decide

    def _decide(self) -> tuple[Instruction, ...]:
        leases = self._table.leases
        restores: list[Target] = []
        ending = self._restored_targets()
        for request in self._requests:
            if request.desired is not None:
                self._decide_hold(request, request.desired)
            elif request.target not in leases:
                request.answer = LeaseAnswer(request.target, LeaseState.RESTORED, "is not held")
            elif self._decide_restore(request, ending):
                restores.append(request.target)
        self._writes += self._ordered_restores(restores)
        written = dict.fromkeys(target for target, _ in self._writes)
        for weight in [weight_of(target) for target in written if target.knob is Knob.CPU_IDLE]:
            if weight not in leases or weight in written:
                continue
            lease, seen = leases[weight], self.readings[weight]
            if isinstance(seen, Reading) and lease.stands not in (None, seen.value):
                self._finish(lease, LeaseState.YIELDED, _foreign(seen, lease), lease.reason)
                continue
            self._idle_weights[weight] = lease
            leases[weight] = replace(lease, stands=None)  # until it is read again
        touched = tuple(leases[target] for target in (*written, *self._idle_weights))
        intended = any(lease.state is LeaseState.INTENDED for lease in touched)
        return (Persist(touched, durable=intended),) if touched else ()

    def _decide_hold(self, request: Request, desired: SetKnob) -> None:
        leases = self._table.leases
        lease, seen = leases.get(desired.target), self.readings[desired.target]
        expires_us = self._now_us + desired.lasts_us
        if lease is None:
            self._decide_new(request, desired, seen, expires_us)
        elif isinstance(seen, Failure):
            if seen.kind is FailureKind.GONE:
                self._finish(lease, LeaseState.GONE, seen.detail, request.reason)
            elif lease.state is LeaseState.HELD and lease.value == desired.value:
                self._renew(lease, desired, expires_us, f"renewed without reading: {seen.detail}")
            else:
                request.answer = LeaseAnswer(desired.target, LeaseState.REFUSED, seen.detail)
        elif _is_recreated(lease, seen):
            self._finish(lease, LeaseState.GONE, _RECREATED, request.reason)
        elif lease.state is LeaseState.INTENDED:  # requested twice in this round
            leases[desired.target] = replace(
                lease, value=desired.value, reason=desired.reason, expires_at_us=expires_us
            )
            self._writes.append((desired.target, desired.value))
        elif lease.stands is not None and seen.value != lease.stands:
            self._finish(lease, LeaseState.YIELDED, _foreign(seen, lease), request.reason)
        elif lease.state is LeaseState.HELD and lease.value == desired.value:
            self._renew(lease, desired, expires_us, "")
        else:
            self._previous[desired.target] = lease
            changed = replace(lease, value=desired.value, reason=desired.reason, expires_at_us=expires_us)
            self._transition(changed, LeaseState.INTENDED)
            self._writes.append((desired.target, desired.value))

    def _decide_new(self, request: Request, desired: SetKnob, seen: Reading | Failure, expires_us: int) -> None:
        """A knob without a lease."""
        if isinstance(seen, Failure):
            state = LeaseState.GONE if seen.kind is FailureKind.GONE else LeaseState.REFUSED
            self._refuse(request, desired, "", state, seen.detail)
        elif self._is_hidden(desired.target):
            detail = "cpu.idle is held, and hides the weight whose original value would have to be saved"
            self._refuse(request, desired, "", LeaseState.REFUSED, detail)
        elif len(self._table.leases) >= self._most:
            self._refuse(
                request, desired, seen.value, LeaseState.REFUSED, f"{self._most} leases are held already, the limit"
            )
        elif seen.raw is None:  # its lease ended in this round
            detail = "its previous lease ended just now; ask again"
            self._refuse(request, desired, seen.value, LeaseState.REFUSED, detail)
        else:
            lease = KnobLease(
                desired.target,
                raw_before=seen.raw,
                value=desired.value,
                reason=desired.reason,
                state=LeaseState.INTENDED,
                taken_at_s=self._wall_s,
                expires_at_us=expires_us,
                before=seen.value,
                identity=seen.identity,
            )
            self._table.add(lease, self._wall_s)
            self._writes.append((desired.target, desired.value))

    def _is_hidden(self, target: Target) -> bool:
        """Whether the target is a weight that cannot be read, because its group is idle by a lease of an earlier round."""
        idle = self._table.leases.get(idle_of(target)) if target.knob is Knob.CPU_WEIGHT else None
        before = None if idle is None else self._previous.get(idle.target, idle)
        return before is not None and before.value == "1" and before.state is not LeaseState.INTENDED

    def _renew(self, lease: KnobLease, desired: SetKnob, expires_us: int, detail: str) -> None:
        self._table.leases[desired.target] = replace(
            lease, expires_at_us=expires_us, reason=desired.reason, detail=detail
        )
        self._table.deferred_weights.discard(desired.target)

    def _decide_restore(self, request: Request, ending: set[Target]) -> bool:
        """Whether the original value is to be written now."""
        target = request.target
        lease, seen = self._table.leases[target], self.readings[target]
        if _is_recreated(lease, seen):
            self._finish(lease, LeaseState.GONE, _RECREATED, request.reason)
            return False
        if isinstance(seen, Failure):
            if seen.kind is FailureKind.GONE:
                self._finish(lease, LeaseState.GONE, seen.detail, request.reason)
                return False
            if seen.kind is FailureKind.TRANSIENT and self._table.failures(target) < _BLIND_AFTER:
                if lease.state is not LeaseState.RESTORING:
                    self._transition(lease, LeaseState.RESTORING)
                self._retry_later(self._table.leases[target], f"could not be read: {seen.detail}", request.reason)
                return False
        elif self._waits_for_idle(target, ending):
            self._table.deferred_weights.add(target)
            self._table.leases[target] = replace(lease, detail="is restored after cpu.idle, which pins it")
            return False
        elif seen.raw == lease.raw_before and not _is_pinned(target, ending):
            self._finish(lease, LeaseState.RESTORED, "had its original value already", request.reason)
            return False
        elif lease.stands is not None and seen.value != lease.stands:
            self._finish(lease, LeaseState.YIELDED, _foreign(seen, lease), request.reason)
            return False
        if lease.state is not LeaseState.RESTORING:
            self._transition(lease, LeaseState.RESTORING)
        return True

    def _waits_for_idle(self, target: Target, ending: set[Target]) -> bool:
        idle = self._table.leases.get(idle_of(target)) if target.knob is Knob.CPU_WEIGHT else None
        return idle is not None and idle.state is LeaseState.HELD and idle.value == "1" and idle.target not in ending

    def _ordered_restores(self, targets: list[Target]) -> list[tuple[Target, str | None]]:
        leases = [self._table.leases[target] for target in targets]
        steps = plan_steps(
            [PlannedWrite(lease.target, _value(self.readings[lease.target]), lease.before) for lease in leases]
        )
        return [(targets[step.index], step.through) for step in steps]

    # Stage 3: write

    def _write(self) -> tuple[Instruction, ...]:
        if self.persist_error:
            self._refuse_unpersisted()
        instructions: list[Instruction] = []
        for target, value in self._writes:
            lease = self._table.leases[target]
            if value is None:
                instructions += (Restore(target, lease.raw_before), ReadBack(target, raw=True))
            else:
                instructions += (Write(target, value), ReadBack(target, raw=False))
            if target.knob is Knob.CPU_IDLE:
                instructions += self._write_weight_of(target, value or lease.before)
        return tuple(instructions)

    def _write_weight_of(self, idle: Target, value: str) -> tuple[Instruction, ...]:
        """What a change of cpu.idle requires of a leased weight: it is pinned while idle is on, and lost when idle goes off."""
        weight = weight_of(idle)
        lease = self._table.leases.get(weight)
        if lease is None or not (weight in self._idle_weights or (value == "1" and lease.state is LeaseState.INTENDED)):
            return ()
        read_back = ReadBack(weight, raw=False)
        return (read_back,) if value == "1" else (Write(weight, lease.value), read_back)

    def _refuse_unpersisted(self) -> None:
        detail = f"its original value cannot be saved: {self.persist_error}"
        for target in dict.fromkeys(target for target, _ in self._writes):
            lease = self._table.leases[target]
            if lease.state is not LeaseState.INTENDED:
                continue
            self._writes = [write for write in self._writes if write[0] != target]
            self.write_failures[target] = Failure(FailureKind.TRANSIENT, detail)
            self._settle_refused(lease, untouched=True)

    # Stage 4: settle

    def _settle(self) -> tuple[Instruction, ...]:
        leases = self._table.leases
        written = dict.fromkeys(target for target, _ in self._writes)
        for target in written:
            lease = leases[target]
            if lease.state is LeaseState.INTENDED:
                self._settle_hold(lease)
            elif lease.state is LeaseState.RESTORING:
                self._settle_restore(lease)
        for target, was in self._idle_weights.items():
            stands = _value(self.readings.get(target)) if idle_of(target) in written else was.stands
            leases[target] = replace(leases[target], stands=stands)
        live = tuple(leases[target] for target in (*written, *self._idle_weights) if target in leases)
        persist = (Persist(live, durable=False),) if live else ()
        ended = tuple(target for target in self._ended if target not in leases)
        drop = (Drop(ended),) if ended else ()
        return (*persist, *drop, *map(Audit, self._changes))

    def _gone(self, target: Target) -> Failure | None:
        outcomes = (self.write_failures.get(target), self.readings[target])
        return next((f for f in outcomes if isinstance(f, Failure) and f.kind is FailureKind.GONE), None)

    def _settle_hold(self, lease: KnobLease) -> None:
        seen, gone = self.readings[lease.target], self._gone(lease.target)
        if gone is not None:
            self._finish(lease, LeaseState.GONE, gone.detail, lease.reason)
        elif lease.target in self.write_failures:
            self._settle_refused(lease, untouched=False)
        else:
            stands = _value(seen)
            detail = (
                "" if stands == lease.value else f"reads {stands}" if stands is not None else "could not be read back"
            )
            self._table.deferred_weights.discard(lease.target)
            self._table.retries.pop(lease.target, None)
            self._transition(replace(lease, stands=stands, detail=detail), LeaseState.HELD)
            self._audit(lease, LeaseState.HELD, lease.value, detail, lease.reason)

    def _settle_refused(self, lease: KnobLease, *, untouched: bool) -> None:
        """A write that failed: a value held before stays held; otherwise the original is restored if anything changed."""
        detail = self.write_failures[lease.target].detail
        held, stands = self._previous.get(lease.target), _value(self.readings[lease.target])
        self._audit(lease, LeaseState.REFUSED, lease.value, detail, lease.reason)
        for request in self._requests:
            if request.target == lease.target:
                request.answer = LeaseAnswer(lease.target, LeaseState.REFUSED, detail)
        if held is not None and held.state is LeaseState.HELD:
            self._transition(replace(held, stands=held.stands if untouched else stands), LeaseState.HELD)
        elif held is not None or not (untouched or stands == lease.before):
            self._transition(replace(held or lease, stands=stands, detail=detail), LeaseState.RESTORING)
            self._table.retries[lease.target] = Retry(0, self._now_us, NOT_TAKEN)
        else:
            self._close(lease, LeaseState.REFUSED, detail)

    def _settle_restore(self, lease: KnobLease) -> None:
        failure, seen = self.write_failures.get(lease.target), self.readings[lease.target]
        reason = next(request.reason for request in self._requests if request.target == lease.target)
        gone = self._gone(lease.target)
        if gone is not None:
            self._finish(lease, LeaseState.GONE, gone.detail, reason)
        elif failure is None and isinstance(seen, Reading):
            if seen.raw == lease.raw_before or seen.value == lease.before:
                detail = "" if seen.raw == lease.raw_before else f"reads {seen.raw}"
                self._finish(lease, LeaseState.RESTORED, detail, reason)
            else:
                self._finish(lease, LeaseState.YIELDED, f"reads {seen.value} right after it was restored", reason)
        else:
            unread = seen.detail if isinstance(seen, Failure) else ""
            detail = failure.detail if failure is not None else f"could not be read back: {unread}"
            self._retry_later(replace(lease, stands=_value(seen)), detail, reason)

    # Changes of one lease

    def _retry_later(self, lease: KnobLease, detail: str, cause: Reason) -> None:
        failures = self._table.retry_later(lease.target, self._now_us, cause)
        self._table.leases[lease.target] = replace(lease, detail=detail)
        if failures == 1:
            self._audit(lease, LeaseState.RESTORING, lease.before, detail, cause)

    def _transition(self, lease: KnobLease, state: LeaseState) -> None:
        self._table.transition(lease, state, self._wall_s)

    def _finish(self, lease: KnobLease, state: LeaseState, detail: str, reason: Reason) -> None:
        self._audit(lease, state, lease.before, detail, reason)
        self._close(lease, state, detail)

    def _close(self, lease: KnobLease, state: LeaseState, detail: str) -> None:
        self._table.close(lease.target, state, self._wall_s)
        self._ended[lease.target] = replace(lease, state=state, detail=detail)

    def _refuse(self, request: Request, desired: SetKnob, before: str, state: LeaseState, detail: str) -> None:
        target = desired.target
        request.answer = LeaseAnswer(target, state, detail)
        self._changes.append(
            KnobChange(self._wall_s, target, desired.reason, self._who, before, desired.value, before, state, detail)
        )

    def _audit(self, lease: KnobLease, state: LeaseState, asked: str, detail: str, reason: Reason) -> None:
        stood = self._previous.get(lease.target, lease).stands
        before = lease.before if stood is None else stood
        after = _value(self.readings.get(lease.target)) or ""
        self._changes.append(
            KnobChange(self._wall_s, lease.target, reason, self._who, before, asked, after, state, detail)
        )


def _is_pinned(target: Target, ending: set[Target]) -> bool:
    """Whether the target is a weight hidden by its group's cpu.idle and both are restored: its reading means nothing."""
    return target.knob is Knob.CPU_WEIGHT and idle_of(target) in ending


def _is_recreated(lease: KnobLease, seen: Reading | Failure) -> bool:
    return bool(lease.identity and seen.identity and lease.identity != seen.identity)


def _foreign(seen: Reading, lease: KnobLease) -> str:
    return f"another process wrote {seen.value!r}; {lease.stands!r} was ours"


def _value(seen: Reading | Failure | None) -> str | None:
    return seen.value if isinstance(seen, Reading) else None
