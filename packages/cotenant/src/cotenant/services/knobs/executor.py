"""Executes the lease engine's instructions: reads and writes knobs through their ports, updates the state file, appends
to the audit trail.

Reads, writes and syncs block, and must happen in exactly the engine's order. Plain blocking calls, one round at a time,
by one thread; an event loop calls through `local_keeper.py`. A port's error becomes an `InstructionFailure` for the
engine, including unexpected ones: an error must not end the round halfway, since no other could start after it.
Limits: knobs that cannot be undone (memory.reclaim) are not leases: `once` writes them, outside the rounds, because the
kernel may take seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from cotenant.engine.leases.instructions import (
    AuditLine,
    DropLeases,
    FailureKind,
    InstructionFailure,
    KnobReading,
    Persist,
    ReadBack,
    ReadCurrent,
    Restore,
    Write,
)
from cotenant.engine.leases.leases import Leases
from cotenant.engine.node.interfaces import KnobIdentity, KnobPort
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.kubelet.groups import Level, kind_of
from cotenant.model.machine.knob import (
    GiveBack,
    Knob,
    KnobChange,
    KnobLease,
    KnobScope,
    KnobTarget,
    LeaseAnswer,
    LeaseState,
    SetKnob,
    Vanished,
)
from cotenant.model.machine.node_decision import Reason, shortened, storable
from cotenant.services.knobs.rules import SELF, KnobRules, Requester

_log = logging.getLogger(__name__)
_FULL_DISK_RETRY_S = 5.0
_MAX_REFUSED = 4096
_MAX_ASKED = 256  # characters of a refused value in the audit trail
_SWEEP_US = 500_000
_BY_HAND = "it is restored by a start that allows it, or by `cotenant node knobs --restore`"


class LeaseStore(Protocol):
    """Where leases survive the process: `drivers/leasefile`, or nothing for a dry run."""

    def keep(self, leases: Sequence[KnobLease], *, durable: bool) -> None:
        """Store leases. Raises `Transient` where `durable` and they are not on disk."""
        ...

    def drop(self, targets: Sequence[KnobTarget]) -> None:
        """Remove leases that are over."""
        ...

    def flush(self) -> bool:
        """Write what is pending; whether nothing is pending any more."""
        ...


class AuditSink(Protocol):
    """Where changes of knobs are recorded."""

    def write(self, changes: Sequence[KnobChange]) -> None:
        """Append."""
        ...


class TasksOfGroups(Protocol):
    """What is set on each task of the groups that give way to services: `drivers/cgroup/slices`."""

    def follow(self, groups: Sequence[str]) -> int:
        """Set it on tasks of these groups, and undo it in groups of an earlier call. Returns how many tasks changed."""
        ...


@runtime_checkable
class HandsOver(Protocol):
    """A port that holds values by more than the knob's own file."""

    def yielded(self, target: KnobTarget) -> None:
        """The lease of this knob is over, and another process's value is to stay."""
        ...


@dataclass(frozen=True, slots=True)
class Clock:
    """The monotonic clock and the wall clock."""

    monotonic_us: Callable[[], int]
    wall_s: Callable[[], float]


class LeaseExecutor:
    """Holds leases over these ports. Not thread-safe, `once` excepted."""

    def __init__(
        self,
        ports: Mapping[KnobScope, KnobPort],
        memory: LeaseStore,
        trail: AuditSink,
        clock: Clock,
        rules: KnobRules,
        engine: Leases | None = None,
        tasks: TasksOfGroups | None = None,
    ) -> None:
        self._ports = ports
        self._memory = memory
        self._trail = trail
        self._clock = clock
        self.rules = rules
        self._engine = engine or Leases(bound=rules.bound)
        self._identities = {scope: port for scope, port in ports.items() if isinstance(port, KnobIdentity)}
        self._tasks = tasks
        self._followed: tuple[str, ...] = ()
        self._swept_us: int | None = None
        self._pending = False
        self._refused: dict[KnobTarget, tuple[str, str, str]] = {}  # the last refusal recorded

    def hold(self, requested: Sequence[SetKnob], requester: Requester = SELF) -> tuple[LeaseAnswer, ...]:
        """Write and hold what the rules allow. Answers in the order of the requests."""
        requested = [_with_storable_reason(wish) for wish in requested]
        refused = {
            index: why
            for index, wish in enumerate(requested)
            if (why := self.rules.refusal(wish, requester)) is not None
        }
        allowed = [wish for index, wish in enumerate(requested) if index not in refused]
        self._engine.hold(allowed, self._clock.monotonic_us(), self._clock.wall_s(), requester.name)
        self._run_round()
        held = iter(self._engine.answers())
        self._record_refused([(requested[index], why) for index, why in refused.items()], requester)
        return tuple(
            LeaseAnswer(wish.target, LeaseState.REFUSED, refused[index]) if index in refused else next(held)
            for index, wish in enumerate(requested)
        )

    def give_back(self, requests: Sequence[GiveBack], requester: Requester = SELF) -> tuple[LeaseAnswer, ...]:
        """Restore before expiry."""
        requests = [replace(request, reason=storable(request.reason)) for request in requests]
        self._engine.end(requests, self._clock.monotonic_us(), self._clock.wall_s(), requester.name)
        self._run_round()
        return self._engine.answers()

    def check(self, groups: frozenset[str]) -> None:
        """Look at the knobs of groups in which something was written."""
        targets = [lease.target for lease in self._engine.leases() if lease.target.group in groups]
        if targets:
            self._engine.check(targets, self._clock.monotonic_us(), self._clock.wall_s())
            self._run_round()

    def tick(self) -> None:
        """Restore what has expired, retry what failed, write what is pending to the state file."""
        self._engine.tick(self._clock.monotonic_us(), self._clock.wall_s())
        self._run_round()
        self._pending = not self._memory.flush()

    def restart(self, found: Iterable[KnobLease]) -> tuple[LeaseAnswer, ...]:
        """Restore what an earlier process left, within the rules' roots. What is outside stays in the state file,
        and is answered RESTORING.
        """
        within: list[KnobLease] = []
        outside: list[LeaseAnswer] = []
        for lease in found:
            why = None if self.rules.restores_all else self.rules.outside(lease.target)
            if why is None:
                within.append(lease)
            else:
                outside.append(LeaseAnswer(lease.target, LeaseState.RESTORING, f"{why}; {_BY_HAND}"))
        self._engine.restart(within, self._clock.monotonic_us(), self._clock.wall_s())
        self._run_round()
        return (*self._engine.answers(), *outside)

    def give_all_back(self, reason: Reason) -> tuple[LeaseAnswer, ...]:
        """Restore everything. What could not be restored stays RESTORING; `tick` retries it."""
        self._engine.end_all(reason, self._clock.monotonic_us(), self._clock.wall_s())
        self._run_round()
        return self._engine.answers()

    def leases(self) -> tuple[KnobLease, ...]:
        """All live leases."""
        return self._engine.leases()

    def read(self, targets: Sequence[KnobTarget]) -> tuple[str | None, ...]:
        """The canonical values of knobs that the rules allow; None where a knob could not be read."""
        return tuple(self._read(target) if self.rules.out_of_bounds(target) is None else None for target in targets)

    def now_us(self) -> int:
        """The clock of `tick`; from any thread."""
        return self._clock.monotonic_us()

    def next_tick_s(self) -> float | None:
        """Seconds until `tick` has something to do; None while nothing is held or pending."""
        due_us = self._engine.due_at_us()
        if due_us is None:
            return _FULL_DISK_RETRY_S if self._pending else None
        return max(0, due_us - self._clock.monotonic_us()) / 1e6

    def once(self, wish: SetKnob, requester: Requester = SELF) -> LeaseAnswer:
        """Write a knob that cannot be undone. RESTORED: done, nothing to restore."""
        wish = _with_storable_reason(wish)
        why = self.rules.refusal(wish, requester)
        state, detail = LeaseState.REFUSED, why or ""
        if why is None:
            try:
                self._port(wish.target).write(wish.target, wish.value)
                state, detail = LeaseState.RESTORED, "done once, nothing to restore"
            except Exception as error:
                failure = _failure(error)
                detail = failure.detail
                state = LeaseState.GONE if failure.kind is FailureKind.GONE else LeaseState.REFUSED
        change = KnobChange(
            self._clock.wall_s(),
            wish.target,
            wish.reason,
            requester.name,
            "",
            shortened(wish.value, _MAX_ASKED),
            "",
            state,
            detail,
        )
        self._write((change,))
        return LeaseAnswer(wish.target, state, detail)

    def _run_round(self) -> None:
        while stage := self._engine.next():
            changes: list[KnobChange] = []
            for instruction in stage:
                if isinstance(instruction, AuditLine):
                    changes.append(instruction.change)
                    self._hand_over(instruction.change)
                else:
                    self._execute(instruction)
            self._write(changes)
        self._sweep()

    def _hand_over(self, change: KnobChange) -> None:
        """Tell the port of a lease that has yielded."""
        port = self._ports.get(change.target.knob.scope)
        if change.result is LeaseState.YIELDED and isinstance(port, HandsOver):
            port.yielded(change.target)

    def _sweep(self) -> None:
        """Have the tasks of idle groups follow: at once where the groups changed, else no more than twice a second,
        for new tasks.
        """
        if self._tasks is None:
            return
        held = [lease for lease in self._engine.leases() if lease.state is LeaseState.HELD]
        idle = tuple(dict.fromkeys(lease.target.group for lease in held if _yields(lease)))
        now_us = self._clock.monotonic_us()
        is_fresh = self._swept_us is not None and 0 <= now_us - self._swept_us < _SWEEP_US
        if idle == self._followed and (not idle or is_fresh):
            return
        self._followed, self._swept_us = idle, now_us
        try:
            self._tasks.follow(idle)
        except Exception as error:  # it must not end a round either
            _log.error("the tasks of idle groups could not be set", exc_info=error)

    def _execute(self, instruction: ReadCurrent | Persist | DropLeases | Write | Restore | ReadBack) -> None:
        match instruction:
            case Persist(leases=leases, durable=durable):
                try:
                    self._memory.keep(leases, durable=durable)
                    self._engine.persisted()
                except Exception as error:
                    self._engine.not_persisted(_failure(error).detail)
            case DropLeases(targets=targets):
                self._memory.drop(targets)
            case ReadCurrent() | ReadBack() | Write() | Restore():
                try:
                    self._read_or_write(instruction)
                except Exception as error:
                    self._engine.failed(instruction, _failure(error))

    def _read_or_write(self, instruction: ReadCurrent | ReadBack | Write | Restore) -> None:
        target = instruction.target
        port = self._port(target)
        match instruction:
            case Write(value=value):
                port.write(target, value)
                self._engine.written(target)
            case Restore(raw=raw):
                port.restore(target, raw)
                self._engine.written(target)
            case ReadCurrent(raw=raw) | ReadBack(raw=raw):
                port_identity = self._identities.get(target.knob.scope)
                identity = port_identity.identity(target) if port_identity is not None else ""
                try:
                    kept = port.raw(target) if raw else None
                    self._engine.read(target, KnobReading(port.read(target), kept, identity))
                except Exception as error:
                    self._engine.failed(instruction, replace(_failure(error), identity=identity))

    def _read(self, target: KnobTarget) -> str | None:
        try:
            return self._port(target).read(target)
        except (CotenantError, OSError):
            return None

    def _port(self, target: KnobTarget) -> KnobPort:
        scope = target.knob.scope
        if scope not in self._ports:
            raise InvalidInput(f"{target}", scope, f"a knob of {', '.join(self._ports) or 'no tree'}")
        return self._ports[scope]

    def _record_refused(self, refused: Sequence[tuple[SetKnob, str]], requester: Requester) -> None:
        now_s = self._clock.wall_s()
        self._write(
            [
                KnobChange(
                    now_s,
                    wish.target,
                    wish.reason,
                    requester.name,
                    "",
                    shortened(wish.value, _MAX_ASKED),
                    "",
                    LeaseState.REFUSED,
                    why,
                )
                for wish, why in refused
            ]
        )

    def _write(self, changes: Sequence[KnobChange]) -> None:
        """Append to the trail, except repeated identical refusals of a knob: a client that asks every second would
        displace all else.
        """
        recorded: list[KnobChange] = []
        for change in changes:
            refusal = (change.who, change.asked, change.detail)
            if change.result is not LeaseState.REFUSED:
                self._refused.pop(change.target, None)
            elif self._refused.get(change.target) == refusal:
                continue
            else:
                if len(self._refused) >= _MAX_REFUSED:
                    self._refused.clear()
                self._refused[change.target] = refusal
            recorded.append(change)
            _log.info("%s: %s (%s): %s", change.target, change.result, change.cause.rule, change.detail or change.asked)
        self._trail.write(recorded)


def _yields(lease: KnobLease) -> bool:
    """Whether the lease's group gives way to every service: it is held idle, or it is a kubelet's best-effort
    group, which cannot be, with any knob held.
    """
    if lease.state is not LeaseState.HELD:
        return False
    if lease.target.knob is Knob.CPU_IDLE:
        return lease.value == "1"
    kind = kind_of(lease.target.group) if lease.target.knob.scope is KnobScope.CGROUP else None
    return kind is not None and kind.level is Level.QOS and kind.qos is KubernetesQoS.BEST_EFFORT


def _with_storable_reason(wish: SetKnob) -> SetKnob:
    reason = storable(wish.reason)
    return wish if reason is wish.reason else replace(wish, reason=reason)


def _failure(error: Exception) -> InstructionFailure:
    if isinstance(error, Vanished):
        return InstructionFailure(FailureKind.GONE, str(error))
    if isinstance(error, Transient | OSError):
        return InstructionFailure(FailureKind.TRANSIENT, str(error))
    if isinstance(error, CotenantError):
        return InstructionFailure(FailureKind.PERMANENT, str(error))
    _log.error("unexpected error", exc_info=error)
    return InstructionFailure(FailureKind.TRANSIENT, f"{type(error).__name__}: {error}")
