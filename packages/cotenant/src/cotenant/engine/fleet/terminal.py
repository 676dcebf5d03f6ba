"""One terminal's output and its end: what was not yet read, whether more may be taken, and when nobody is there.

Nothing is dropped: while the reader is behind, nothing is taken from the command, which then waits as it would at a
slow line.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.terminals import MAX_PAGE_BYTES, TerminalPage


@dataclass(frozen=True, slots=True)
class TerminalLimits:
    """`unread_bytes`: of output, beyond which none is taken. The rest in seconds."""

    unread_bytes: int = 256 << 10
    idle_s: float = 900.0  # without a key pressed
    unread_s: float = 30.0  # without a reader


class TerminalState:
    """Of one session. Times are those of a steady clock."""

    def __init__(self, now_s: float, limits: TerminalLimits) -> None:
        self._limits = limits
        self._unread = bytearray()
        self._begin = 0  # position of the first unread byte
        self._typed_s = self._read_s = now_s
        self.is_over, self.why = False, ""
        self.exit_code: int | None = None

    @property
    def room(self) -> int:
        """Bytes of output that may be taken now."""
        return max(0, self._limits.unread_bytes - len(self._unread))

    @property
    def written(self) -> int:
        """Bytes of output since the beginning."""
        return self._begin + len(self._unread)

    def output(self, data: bytes) -> None:
        """The command said something."""
        self._unread += data

    def typed(self, now_s: float) -> None:
        """Somebody pressed a key."""
        self._typed_s = now_s

    def has_news(self, position: int) -> bool:
        """Whether a reader at this position would be told something."""
        return position < self.written or self.is_over

    def read(self, position: int, now_s: float) -> TerminalPage:
        """What follows a position; what lies before it is forgotten. Raises `InvalidInput` for another reader's."""
        if not self._begin <= position <= self.written:
            raise InvalidInput("position", position, f"{self._begin} to {self.written}", "another reader reads here")
        del self._unread[: position - self._begin]
        self._begin, self._read_s = position, now_s
        data = bytes(self._unread[:MAX_PAGE_BYTES])
        is_over = self.is_over and position + len(data) == self.written
        return TerminalPage(position, data, is_over, self.why if is_over else "", self.exit_code if is_over else None)

    def end(self, why: str, exit_code: int | None = None) -> None:
        """Nothing follows. The first reason stands."""
        if not self.is_over:
            self.is_over, self.why, self.exit_code = True, why, exit_code

    def due(self, now_s: float) -> str:
        """Why it is to be ended now; empty while it may go on."""
        if now_s - self._read_s >= self._limits.unread_s:
            return "nobody reads it any more"
        if now_s - self._typed_s >= self._limits.idle_s:
            return f"no key was pressed for {self._limits.idle_s / 60:g} min"
        return ""
