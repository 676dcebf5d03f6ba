"""Changes under way and the latest that ended, with the lines that they said.

Who asks for a change goes away before it is done: a request on the bus has a deadline of seconds, a browser is closed.
So a change is a task of this process, and its report is asked for by a name that nobody can guess.
Limits: a process that ends forgets them, and cancels what is under way; what had been written by then stays.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient

_log = logging.getLogger(__name__)
Say = Callable[[str], None]
Work = Callable[[Say], Awaitable[str]]
MAX_AT_ONCE = 16
MAX_KEPT = 200
MAX_LINES = 2000  # of one change; later ones are not kept
MAX_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """How far a change is. `lines`: what it said from number `start` on; `failure`: with the objects and their reasons
    in the lines before; empty where it came about or is under way.
    """

    id: str
    what: str
    is_done: bool
    failure: str
    start: int
    lines: tuple[str, ...]
    lasted_s: float


@dataclass(slots=True)
class _Change:
    id: str
    of: str
    what: str
    began_s: float
    ended_s: float | None = None
    failure: str = ""
    lines: list[str] = field(default_factory=list)
    said: asyncio.Event = field(default_factory=asyncio.Event)


class ChangeBook:
    """The changes of one process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._changes: dict[str, _Change] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, of: str, what: str, work: Work, by: str = "") -> str:
        """Start a change and return its name. `work` gets who is told its lines, and returns why it failed.

        Raises `Permanent` while another change of the same object is under way, `Transient` where too many are.
        """
        for change in self._changes.values():
            if change.of == of and change.ended_s is None:
                raise Permanent(f"{of} is being changed: {change.what}")
        if len(self._tasks) >= MAX_AT_ONCE:
            raise Transient(f"{MAX_AT_ONCE} changes are under way here")
        change = _Change(secrets.token_hex(12), of, what, self._now())
        self._changes[change.id] = change
        ended = [one.id for one in self._changes.values() if one.ended_s is not None]
        for old in ended[: max(0, len(self._changes) - MAX_KEPT)]:
            del self._changes[old]
        _log.info("%s, asked for by %s", what, by or "an unnamed caller")
        task = asyncio.create_task(self._run(change, work), name=what)
        self._tasks[change.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(change.id, None))
        return change.id

    async def report(self, change_id: str, start: int = 0, wait_s: float = 0.0) -> ChangeReport:
        """How far it is; waits at most `wait_s` for a line from number `start` on, or for its end. Raises
        `InvalidInput`.
        """
        change = self._changes.get(change_id)
        if change is None:
            raise InvalidInput(
                "id", change_id[:64], "a change of this process", "those that ended are kept for a while"
            )
        if not 0.0 <= wait_s <= MAX_WAIT_S:
            raise InvalidInput("wait_s", wait_s, f"0 to {MAX_WAIT_S:g} seconds")
        if start < 0:
            raise InvalidInput("start", start, "0 or more")
        try:
            async with asyncio.timeout(wait_s):
                while change.ended_s is None and len(change.lines) <= start and wait_s:
                    await change.said.wait()
        except TimeoutError:
            pass
        ended_s = self._now() if change.ended_s is None else change.ended_s
        lines = tuple(change.lines[start:])
        is_done = change.ended_s is not None
        return ChangeReport(
            change.id, change.what, is_done, change.failure, start, lines, round(ended_s - change.began_s, 3)
        )

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, change: _Change, work: Work) -> None:
        def say(line: str) -> None:
            if len(change.lines) < MAX_LINES:
                change.lines.append(line)
                _wake(change)

        try:
            change.failure = await work(say)
        except CotenantError as error:
            change.failure = str(error)
        except asyncio.CancelledError:
            change.failure = "the process that made it was ended"
            raise
        except Exception:  # a defect ends this change and nothing else
            _log.exception("%s failed", change.what)
            change.failure = "it failed; the log of the process that made it says why"
        finally:
            change.ended_s = self._now()
            _wake(change)
            _log.info("%s: %s", change.what, change.failure or "done")


def _wake(change: _Change) -> None:
    change.said.set()
    change.said = asyncio.Event()
