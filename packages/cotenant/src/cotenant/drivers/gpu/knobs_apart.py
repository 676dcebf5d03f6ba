"""Knobs whose driver may never answer, read and written apart from who asks.

A keeper holds all its leases in one thread. A call into the driver of a card that fell off its bus would hold up
everything else that is due, so each card's calls are made in a thread of its own, and who asks waits for a moment, once
for each time that the card hangs: while a call is under way all others fail at once, with a sentence. Calls of a card
stay in the order in which they were made. So a write that was given up, and happens after all, is followed by the
restore that the lease engine tries until it succeeds. What was read too late is handed on when it is asked for next,
else a slow tool would never be heard; a write in between makes it void.
Limits: a call that is stuck keeps its thread; a write that takes longer than the patience counts as failed, and is
undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic
from typing import Generic, Protocol, TypeVar, cast

from cotenant.model.errors import Transient
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobTarget

READ_S = 1.0
WRITE_S = 2.0
PROGRAM_S = 5.0  # of a knob that another program sets, or that takes the driver long
LATE_S = 30.0  # for so long an answer that came late says how things are
_Answer = TypeVar("_Answer")


class CardPort(Protocol):
    """What is asked: a knob's port with identities, as engine/node/interfaces has them."""

    def supported(self, knob: Knob) -> Gap | None:
        """None where the machine has it."""
        ...

    def read(self, target: KnobTarget) -> str:
        """What stands, in canonical form."""
        ...

    def raw(self, target: KnobTarget) -> str:
        """What `restore` needs."""
        ...

    def write(self, target: KnobTarget, value: str) -> None:
        """Set it."""
        ...

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Put back what `raw` said."""
        ...

    def identity(self, target: KnobTarget) -> str:
        """Distinguishes the group from a later one of its name."""
        ...


@dataclass(slots=True, eq=False)
class _Call(Generic[_Answer]):
    what: str
    work: Callable[[], _Answer]
    began_s: float
    answer: list[_Answer | Exception] = field(default_factory=list)
    given_up: bool = False


class _Line:
    """The calls of one card, one after another in a thread that does not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = Condition()
        self._call: _Call[object] | None = None
        self._late: dict[str, tuple[float, object | Exception]] = {}
        self._thread: Thread | None = None

    @property
    def busy_with(self) -> str:
        """What has not returned yet; "" for nothing."""
        with self._turn:
            return self._call.what if self._call is not None else ""

    def do(self, what: str, work: Callable[[], _Answer], patience_s: float, *, reads: bool) -> _Answer:
        """The answer. Raises what `work` raises, and `Transient` where it has not returned in time."""
        with self._turn:
            if self._call is not None:
                since_s = monotonic() - self._call.began_s
                raise Transient(
                    f"{what} waits: {self._name} has not answered {self._call.what} for {since_s:.0f} s; "
                    "other knobs go on, and this one once it answers"
                )
            if not reads:
                self._late.clear()
            elif what in self._late:
                at_s, known = self._late.pop(what)
                if monotonic() - at_s <= LATE_S:
                    return cast(_Answer, _told(known))
            call = _Call(what, cast(Callable[[], object], work), monotonic())
            self._call = call
            if self._thread is None:
                self._thread = Thread(target=self._run, name=f"asks {self._name}", daemon=True)
                self._thread.start()
            self._turn.notify_all()
            self._turn.wait_for(lambda: call.answer, patience_s)
            if not call.answer:
                call.given_up = reads
                raise Transient(f"{self._name} has not answered {what} within {patience_s:g} s, and is still asked")
            return cast(_Answer, _told(call.answer[0]))

    def _run(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._call is not None)
                call = self._call
            assert call is not None
            answer: object | Exception
            try:
                answer = call.work()
            except Exception as error:  # handed to who asked
                answer = error
            with self._turn:
                call.answer.append(answer)
                if call.given_up:
                    self._late[call.what] = monotonic(), answer
                self._call = None
                self._turn.notify_all()


def _told(answer: object | Exception) -> object:
    if isinstance(answer, Exception):
        raise answer
    return answer


class KnobsApart:
    """Implements engine/node/interfaces.KnobPort and KnobIdentity over such a port."""

    def __init__(
        self,
        port: CardPort,
        name: Callable[[KnobTarget], str],
        slow: frozenset[Knob] = frozenset(),
        *,
        read_s: float = READ_S,
        write_s: float = WRITE_S,
        program_s: float = PROGRAM_S,
    ) -> None:
        """`name`: who is asked about a target, for sentences; targets of one name share a thread. `slow`: knobs that
        get `program_s`.
        """
        self._port, self._name, self._slow = port, name, slow
        self._read_s, self._write_s, self._program_s = read_s, write_s, program_s
        self._lines: dict[str, _Line] = {}

    def supported(self, knob: Knob) -> Gap | None:
        """As the port; a driver that does not answer counts as one that has it."""
        try:
            return self._line(f"the driver of {knob.scope} knobs").do(
                f"what it supports of {knob}", lambda: self._port.supported(knob), self._read_s, reads=True
            )
        except Transient:
            return None

    def read(self, target: KnobTarget) -> str:
        """As the port."""
        return self._ask(target, "reading", lambda: self._port.read(target))

    def raw(self, target: KnobTarget) -> str:
        """As the port."""
        return self._ask(target, "what stands in", lambda: self._port.raw(target))

    def identity(self, target: KnobTarget) -> str:
        """As the port."""
        return self._ask(target, "whose is", lambda: self._port.identity(target))

    def write(self, target: KnobTarget, value: str) -> None:
        """As the port."""
        self._set(target, lambda: self._port.write(target, value))

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As the port."""
        self._set(target, lambda: self._port.restore(target, raw))

    @property
    def is_stuck(self) -> bool:
        """Whether a call has not returned yet, so that the driver's library must not be shut down."""
        return any(line.busy_with for line in self._lines.values())

    def _ask(self, target: KnobTarget, what: str, work: Callable[[], str]) -> str:
        patience_s = self._program_s if target.knob in self._slow else self._read_s
        return self._line(self._name(target)).do(f"{what} {target}", work, patience_s, reads=True)

    def _set(self, target: KnobTarget, work: Callable[[], None]) -> None:
        patience_s = self._program_s if target.knob in self._slow else self._write_s
        self._line(self._name(target)).do(f"setting {target}", work, patience_s, reads=False)

    def _line(self, name: str) -> _Line:
        return self._lines.setdefault(name, _Line(name))
