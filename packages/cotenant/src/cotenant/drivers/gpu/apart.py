"""Readings of something that may never answer, such as the driver of a card that fell off its bus.

A call into a driver cannot be ended from outside: it returns when the kernel lets it, after minutes or never. So the
calls are made in a thread of their own, and who wants a reading waits for it a moment only, once: while one is under
way nobody waits again, and what comes late is handed on when it is asked for next.
Limits: a thread that is stuck stays; one source has one. What is handed on late is as old as the time between two
questions.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread
from time import monotonic
from typing import Generic, TypeVar

from cotenant.model.errors import Transient

PATIENCE_S = 0.5
_Answer = TypeVar("_Answer")


class ReadApart(Generic[_Answer]):
    """Readings by `read` in a thread of its own; it does not keep the process from ending."""

    def __init__(self, read: Callable[[], _Answer], what: str, patience_s: float = PATIENCE_S) -> None:
        """`what`: who is asked, for the message."""
        self._read, self._what, self._patience_s = read, what, patience_s
        self._turn = Condition()
        self._thread: Thread | None = None
        self._wanted = False  # a reading is asked for or under way
        self._answers: list[_Answer | Exception] = []  # one at most
        self._took_s = 0.0
        self._is_slow = False

    def take(self, patience_s: float | None = None) -> _Answer:
        """A reading. Raises what `read` raises, and `Transient` where it has not answered yet."""
        waits_s = self._patience_s if patience_s is None else patience_s
        with self._turn:
            if not self._wanted and not self._answers:
                self._begin()
                self._turn.wait_for(lambda: self._answers, waits_s)
            elif patience_s is not None:
                self._turn.wait_for(lambda: self._answers, patience_s)
            if not self._answers:
                self._is_slow = True
                raise Transient(f"{self._what} has not answered within {waits_s:g} s, and is still asked")
            answer = self._answers.pop()
            self._is_slow = self._is_slow and self._took_s > self._patience_s
            if self._is_slow:
                self._begin()  # so that it is there when it is asked for next
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def is_asked(self) -> bool:
        """Whether a reading is under way, which then has the driver to itself."""
        with self._turn:
            return self._wanted

    def _begin(self) -> None:
        self._wanted = True
        if self._thread is None:
            self._thread = Thread(target=self._run, name=f"asks {self._what}", daemon=True)
            self._thread.start()
        self._turn.notify_all()

    def _run(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._wanted)
            began_s = monotonic()
            answer: _Answer | Exception
            try:
                answer = self._read()
            except Exception as error:  # handed to who asked
                answer = error
            with self._turn:
                self._took_s = monotonic() - began_s
                self._answers, self._wanted = [answer], False
                self._turn.notify_all()
