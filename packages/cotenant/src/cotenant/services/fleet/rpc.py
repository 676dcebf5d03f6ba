"""Typed requests and answers over the bus, with deadlines, typed errors, and keys by which a repeated request acts
once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from cotenant.drivers.nats.contract import (
    ERROR_CODE_HEADER,
    ERROR_HEADER,
    MAX_PAYLOAD,
    Bus,
    BusMessage,
    NoResponder,
)
from cotenant.engine.fleet.answered import Answered
from cotenant.model.document import split_refusal
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient
from cotenant.model.fleet.refusal import FleetRefusal, NobodyAnswers, Overdue, error_of, refusal_of

_log = logging.getLogger(__name__)
T = TypeVar("T")
DEADLINE_HEADER, KEY_HEADER = "Cotenant-Deadline-Ms", "Cotenant-Key"
USUAL_S = 5.0
LONGEST_S = 900.0
_HEADER_BYTES = 4096  # a message's headers count as its payload
MAX_AT_ONCE = 256  # requests under way in one process
_MAX_WAITING = 64  # askers of one of them; those before have given up
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class RpcVerb:
    """What a process answers to:

    The request's type, and what does it. `subject` is passed where the asker stands in it.
    """

    form: type
    handle: Callable[[Any, BusMessage], Awaitable[object]]


class Dispatcher:
    """Answers requests by the last token of their subject.

    Each runs as a task of its own, so a slow one holds up no other. `may_act` raises what a
    request with so many seconds of time is refused with.
    """

    def __init__(
        self,
        verbs: Mapping[str, RpcVerb],
        bus: Bus,
        now: Callable[[], float] = time.monotonic,
        may_act: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._verbs = verbs
        self._bus = bus
        self._now = now
        self._may_act = may_act
        self._answered: Answered[tuple[bytes, dict[str, str]]] = Answered()
        self._waiting: dict[str, list[BusMessage]] = {}  # by subject and key: who is told once it is done
        self._tasks: set[asyncio.Task[None]] = set()

    async def received(self, message: BusMessage) -> None:
        """Handle a request; returns at once.

        One that is asked again while it is under way waits for the same answer and takes no room: askers come again
        every few seconds.
        """
        key = message.headers.get(KEY_HEADER, "")
        key = key and f"{message.subject} {key}"
        if key in self._waiting:
            self._waiting[key] = [*self._waiting[key][-_MAX_WAITING:], message]
            return
        if len(self._tasks) >= MAX_AT_ONCE:
            await self._reply(message, *_refused(Transient(f"{MAX_AT_ONCE} requests are under way here")))
            return
        try:
            self._may_act(_seconds(message.headers.get(DEADLINE_HEADER, "")))
        except CotenantError as error:
            await self._reply(message, *_refused(error))
            return
        if key:
            self._waiting[key] = [message]
        task = asyncio.create_task(self._answer(message, key), name=f"answer {message.subject}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, message: BusMessage, key: str) -> None:
        if not key:
            await self._reply(message, *await self._judged(message))
            return
        try:
            known = self._answered.get(key, self._now()) or await self._judged(message)
            if not _may_change(known[1]):
                self._answered.put(key, known, self._now())
        finally:
            waiting = self._waiting.pop(key)
        for asked in waiting:
            await self._reply(asked, *known)

    async def _judged(self, message: BusMessage) -> tuple[bytes, dict[str, str]]:
        verb = message.subject.rpartition(".")[2]
        entry = self._verbs.get(verb)
        try:
            if entry is None:
                raise InvalidInput("verb", verb, "one of " + ", ".join(sorted(self._verbs)))
            async with asyncio.timeout(_seconds(message.headers.get(DEADLINE_HEADER, ""))):
                answer = await entry.handle(decode(entry.form, message.data, verb), message)
            data = _ENCODER.encode(answer)
            if len(data) > MAX_PAYLOAD:
                raise Permanent(f"the answer has {len(data)} bytes, more than a message holds; ask for less")
            return data, {}
        except TimeoutError:
            return _refused(Overdue(f"{verb} was not done within its deadline"))
        except CotenantError as error:
            return _refused(error)
        except Exception:  # the loop of a process: a defect answers this request and ends nothing
            _log.exception("%s failed", message.subject)
            return _refused(Permanent(f"{verb} failed; the log of the process that was asked says why"))

    async def _reply(self, message: BusMessage, data: bytes, headers: Mapping[str, str]) -> None:
        if message.reply:
            try:
                await self._bus.publish(message.reply, data, headers)
            except CotenantError as error:
                _log.warning("an answer to %s was lost: %s", message.subject, error)


async def call(
    bus: Bus,
    subject: str,
    request: object,
    form: type[T],
    deadline_s: float = USUAL_S,
    key: str = "",
    wait_s: float | None = None,
) -> T:
    """Ask and wait for the answer, at most until the deadline, or for `wait_s`, after which the same key may be asked.

    Raises the error that was answered; `NobodyAnswers` at once where nobody listens, `Overdue` after that time.
    """
    headers = {DEADLINE_HEADER: str(int(deadline_s * 1000))}
    if key:
        headers[KEY_HEADER] = key
    data = encode(request)
    if len(data) > MAX_PAYLOAD - _HEADER_BYTES:
        most = MAX_PAYLOAD - _HEADER_BYTES
        raise InvalidInput("size of the request", len(data), f"at most {most} bytes", "ask in smaller parts")
    try:
        answer = await bus.request(subject, data, headers, wait_s or deadline_s + 0.5)
    except NoResponder as error:
        raise NobodyAnswers(f"nobody answers for {_asked(subject)}") from error
    except TimeoutError:
        raise Overdue(f"no answer from {_asked(subject)} within {wait_s or deadline_s:g} s") from None
    if ERROR_CODE_HEADER in answer.headers:
        raise error_of(decode(FleetRefusal, answer.data, "answer"))
    return decode(form, answer.data, "answer")


def new_key() -> str:
    """A key for one request and its repetitions."""
    return secrets.token_hex(12)


def encode(value: object) -> bytes:
    """As it goes over the bus."""
    return _ENCODER.encode(value)


def decode(form: type[T], data: bytes, name: str) -> T:
    """What came over the bus. Raises `InvalidInput` that says the field."""
    try:
        return msgspec.json.decode(data or b"{}", type=form)
    except msgspec.ValidationError as error:
        said, path = split_refusal(error)
        raise InvalidInput(f"{name}.{path}" if path else name, said, f"a {form.__name__}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(name, str(error), "JSON") from error


def _refused(error: CotenantError) -> tuple[bytes, dict[str, str]]:
    refusal = refusal_of(error)
    line = " ".join(refusal.message.split())
    return _ENCODER.encode(refusal), {ERROR_HEADER: line, ERROR_CODE_HEADER: refusal.kind.value}


def _may_change(headers: Mapping[str, str]) -> bool:
    """Whether the same request may be answered otherwise a moment later."""
    return headers.get(ERROR_CODE_HEADER, "") in ("transient", "deadline")


def _seconds(text: str) -> float:
    return min(int(text) / 1000, LONGEST_S) if text.isdecimal() else USUAL_S


def _asked(subject: str) -> str:
    """The guid or the controllers, from a subject as guid.GUID.rpc.VERB."""
    parts = subject.split(".")
    return parts[1] if parts[0] == "guid" else "the fleet: is a controller running (cotenant fleet serve)?"
