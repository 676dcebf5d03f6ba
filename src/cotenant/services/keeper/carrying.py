"""Carrying out what the engine of leases asks: knobs by their ports, the state file, the audit trail.

Problem: reads, writes and syncs block, and must happen in exactly the engine's order. Choice: plain blocking calls, one round at a time, by one
thread; who calls from an event loop does so through `here.py`. A port's error becomes a `Failure` for the engine, also one that nobody foresaw: it must not
end the round halfway, since no other could begin after it.
Limits: knobs without an undo (memory.reclaim) are not leases: `once` turns them, outside the rounds, because the kernel may take seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cotenant.engine.leases.leases import Leases
from cotenant.engine.leases.steps import (
    Audit,
    Drop,
    Failure,
    Look,
    Persist,
    ReadBack,
    Restore,
    Standing,
    Trouble,
    Write,
)
from cotenant.engine.node.ports import KnobIdentity, KnobPort
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.machine.knob import (
    GiveBack,
    KnobChange,
    Lease,
    LeaseAnswer,
    LeaseState,
    Scope,
    SetKnob,
    Target,
    Vanished,
)
from cotenant.model.machine.node_decision import Reason, in_unicode
from cotenant.services.keeper.allowed import SELF, Asker, Rules

_log = logging.getLogger(__name__)
_OWING_REST_S = 5.0  # between tries to write to a full disk
_MOST_REFUSED = 4096


class LeaseMemory(Protocol):
    """Where leases outlive the process: `drivers/leasefile`, or nothing at all for a dry run."""

    def keep(self, leases: Sequence[Lease], *, durable: bool) -> None:
        """Raises `Transient` where `durable` and it is not on disk."""
        ...

    def drop(self, targets: Sequence[Target]) -> None:
        """Over."""
        ...

    def settle(self) -> bool:
        """Write what is owed; whether nothing is any more."""
        ...


class Trail(Protocol):
    """Where changes are told."""

    def write(self, changes: Sequence[KnobChange]) -> None:
        """Append."""
        ...


@dataclass(frozen=True, slots=True)
class Clock:
    """The two clocks: one that only grows, and the one of people."""

    monotonic_us: Callable[[], int]
    wall_s: Callable[[], float]


class Carrier:
    """Holds leases over these ports. Not for several threads at once, `once` excepted."""

    def __init__(
        self,
        ports: Mapping[Scope, KnobPort],
        memory: LeaseMemory,
        trail: Trail,
        clock: Clock,
        rules: Rules,
        engine: Leases | None = None,
    ) -> None:
        self._ports = ports
        self._memory = memory
        self._trail = trail
        self._clock = clock
        self._rules = rules
        self._engine = engine or Leases()
        self._tells_groups = {scope: port for scope, port in ports.items() if isinstance(port, KnobIdentity)}
        self._owing = False
        self._refused: dict[Target, tuple[str, str, str]] = {}  # what was last said of a refusal

    def hold(self, wishes: Sequence[SetKnob], asker: Asker = SELF) -> tuple[LeaseAnswer, ...]:
        """Turn and hold what the rules allow. Answers in the order of the wishes."""
        refused = {
            index: why for index, wish in enumerate(wishes) if (why := self._rules.refusal(wish, asker)) is not None
        }
        wanted = [_sayable(wish) for index, wish in enumerate(wishes) if index not in refused]
        self._engine.hold(wanted, self._clock.monotonic_us(), self._clock.wall_s(), asker.name)
        self._carry_out()
        held = iter(self._engine.answers())
        self._tell_refused([(wishes[index], why) for index, why in refused.items()], asker)
        return tuple(
            LeaseAnswer(wish.target, LeaseState.REFUSED, refused[index]) if index in refused else next(held)
            for index, wish in enumerate(wishes)
        )

    def give_back(self, requests: Sequence[GiveBack], asker: Asker = SELF) -> tuple[LeaseAnswer, ...]:
        """Put back before the time."""
        requests = [replace(request, reason=in_unicode(request.reason)) for request in requests]
        self._engine.end(requests, self._clock.monotonic_us(), self._clock.wall_s(), asker.name)
        self._carry_out()
        return self._engine.answers()

    def tick(self) -> None:
        """Put back what has expired, try again what failed, write what is owed to the state file."""
        self._engine.tick(self._clock.monotonic_us(), self._clock.wall_s())
        self._carry_out()
        self._owing = not self._memory.settle()

    def restart(self, found: Iterable[Lease]) -> tuple[LeaseAnswer, ...]:
        """Put back what an earlier process left."""
        self._engine.restart(found, self._clock.monotonic_us(), self._clock.wall_s())
        self._carry_out()
        return self._engine.answers()

    def give_all_back(self, reason: Reason) -> tuple[LeaseAnswer, ...]:
        """Put everything back. Those that could not be are RESTORING; `tick` tries them again."""
        self._engine.end_all(reason, self._clock.monotonic_us(), self._clock.wall_s())
        self._carry_out()
        return self._engine.answers()

    def leases(self) -> tuple[Lease, ...]:
        """All that are not over."""
        return self._engine.leases()

    def read(self, targets: Sequence[Target]) -> tuple[str | None, ...]:
        """What stands, canonical, of knobs that the rules allow; None where it could not be read."""
        return tuple(self._read(target) if self._rules.out_of_bounds(target) is None else None for target in targets)

    def now_us(self) -> int:
        """The clock of `tick`; from any thread."""
        return self._clock.monotonic_us()

    def rest_s(self) -> float | None:
        """Seconds until `tick` has something to do; None while nothing is held or owed."""
        due_us = self._engine.due_at_us()
        if due_us is None:
            return _OWING_REST_S if self._owing else None
        return max(0, due_us - self._clock.monotonic_us()) / 1e6

    def once(self, wish: SetKnob, asker: Asker = SELF) -> LeaseAnswer:
        """Turn a knob that has no undo. RESTORED: done, nothing to put back."""
        why = self._rules.refusal(wish, asker)
        state, detail = LeaseState.REFUSED, why or ""
        if why is None:
            try:
                self._port(wish.target).write(wish.target, wish.value)
                state, detail = LeaseState.RESTORED, "done once, nothing to put back"
            except Exception as error:
                failure = _failure(error)
                detail = failure.detail
                state = LeaseState.GONE if failure.trouble is Trouble.GONE else LeaseState.REFUSED
        change = KnobChange(
            self._clock.wall_s(), wish.target, wish.reason, asker.name, "", wish.value, "", state, detail
        )
        self._write((change,))
        return LeaseAnswer(wish.target, state, detail)

    def _carry_out(self) -> None:
        while stage := self._engine.next():
            changes: list[KnobChange] = []
            for instruction in stage:
                if isinstance(instruction, Audit):
                    changes.append(instruction.change)
                else:
                    self._step(instruction)
            self._write(changes)

    def _step(self, instruction: Look | Persist | Drop | Write | Restore | ReadBack) -> None:
        match instruction:
            case Persist(leases=leases, durable=durable):
                try:
                    self._memory.keep(leases, durable=durable)
                    self._engine.persisted()
                except Exception as error:
                    self._engine.not_persisted(_failure(error).detail)
            case Drop(targets=targets):
                self._memory.drop(targets)
            case Look() | ReadBack() | Write() | Restore():
                try:
                    self._turn(instruction)
                except Exception as error:
                    self._engine.failed(instruction, _failure(error))

    def _turn(self, instruction: Look | ReadBack | Write | Restore) -> None:
        target = instruction.target
        port = self._port(target)
        match instruction:
            case Write(value=value):
                port.write(target, value)
                self._engine.done(target)
            case Restore(raw=raw):
                port.restore(target, raw)
                self._engine.done(target)
            case Look(raw=raw) | ReadBack(raw=raw):
                tells = self._tells_groups.get(target.knob.scope)
                identity = tells.identity(target) if tells is not None else ""
                try:
                    kept = port.raw(target) if raw else None
                    self._engine.saw(target, Standing(port.read(target), kept, identity))
                except Exception as error:
                    self._engine.failed(instruction, replace(_failure(error), identity=identity))

    def _read(self, target: Target) -> str | None:
        try:
            return self._port(target).read(target)
        except (CotenantError, OSError):
            return None

    def _port(self, target: Target) -> KnobPort:
        scope = target.knob.scope
        if scope not in self._ports:
            raise InvalidInput(f"{target}", scope, f"a knob of {', '.join(self._ports) or 'no tree at all'}")
        return self._ports[scope]

    def _tell_refused(self, refused: Sequence[tuple[SetKnob, str]], asker: Asker) -> None:
        now_s = self._clock.wall_s()
        self._write(
            [
                KnobChange(now_s, wish.target, wish.reason, asker.name, "", wish.value, "", LeaseState.REFUSED, why)
                for wish, why in refused
            ]
        )

    def _write(self, changes: Sequence[KnobChange]) -> None:
        """To the trail, but for a refusal in the same words as the last of its knob: who asks every second would wash out all else."""
        news: list[KnobChange] = []
        for change in changes:
            said = (change.who, change.asked, change.detail)
            if change.result is not LeaseState.REFUSED:
                self._refused.pop(change.target, None)
            elif self._refused.get(change.target) == said:
                continue
            else:
                if len(self._refused) >= _MOST_REFUSED:
                    self._refused.clear()
                self._refused[change.target] = said
            news.append(change)
            _log.info("%s: %s (%s): %s", change.target, change.result, change.cause.rule, change.detail or change.asked)
        self._trail.write(news)


def _sayable(wish: SetKnob) -> SetKnob:
    reason = in_unicode(wish.reason)
    return wish if reason is wish.reason else replace(wish, reason=reason)


def _failure(error: Exception) -> Failure:
    if isinstance(error, Vanished):
        return Failure(Trouble.GONE, str(error))
    if isinstance(error, Transient | OSError):
        return Failure(Trouble.LATER, str(error))
    if isinstance(error, CotenantError):
        return Failure(Trouble.NEVER, str(error))
    _log.error("an error that nobody foresaw", exc_info=error)
    return Failure(Trouble.LATER, f"{type(error).__name__}: {error}")
