"""A terminal into a container, as it goes over the bus: opened once, then read and written by number of bytes.

Output is named by its position since the beginning, so that a question that is asked again gets the same bytes, and
reading on says how much has arrived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

EXEC = "exec"  # the right, and the verb that opens
READ, WRITE = "exec-read", "exec-write"
USUAL_COMMAND = ("sh",)
MAX_INPUT_BYTES = 64 << 10  # of one request
MAX_PAGE_BYTES = 64 << 10
MAX_WAIT_S = 10.0
MAX_SIDE = 1000  # columns or rows
_MAX_COMMAND = 4096
_SESSION = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class WindowSize:
    """Of the window, in characters."""

    columns: int = 80
    rows: int = 24

    def __post_init__(self) -> None:
        for name, value in (("columns", self.columns), ("rows", self.rows)):
            if not 1 <= value <= MAX_SIDE:
                raise InvalidInput(f"size.{name}", value, f"1 to {MAX_SIDE}")


@dataclass(frozen=True, slots=True)
class OpenTerminal:
    """Run a command with a terminal in a container. Answered by `OpenedTerminal`.

    `operator` is set by the controller; `viewer`: who is at the screen, by the operator's word, for the record only.
    """

    guid: str
    command: tuple[str, ...] = USUAL_COMMAND
    size: WindowSize = WindowSize()
    viewer: str = ""
    operator: str = ""

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise InvalidInput("command", "", "a program and its arguments, as sh")
        if sum(len(word) + 1 for word in self.command) > _MAX_COMMAND or any("\0" in word for word in self.command):
            raise InvalidInput("command", self.command[0][:64], f"at most {_MAX_COMMAND} characters without NUL")


@dataclass(frozen=True, slots=True)
class OpenedTerminal:
    """`session` names it from now on; whoever knows it and is the same operator may use it."""

    session: str


@dataclass(frozen=True, slots=True)
class ReadTerminal:
    """Output from `position` on; what lies before has arrived and need not be kept. Answered by `TerminalPage`.

    `wait_s`: for something to come.
    """

    guid: str
    session: str
    position: int = 0
    wait_s: float = 0.0
    operator: str = ""

    def __post_init__(self) -> None:
        check_session(self.session)
        if self.position < 0:
            raise InvalidInput("position", self.position, "0 or more")
        if not 0 <= self.wait_s <= MAX_WAIT_S:
            raise InvalidInput("wait_s", self.wait_s, f"0 to {MAX_WAIT_S:g} seconds")


@dataclass(frozen=True, slots=True)
class TerminalPage:
    """`data` begins at `position`. `is_over`: nothing follows; `why` says why, `exit_code` where the command ended."""

    position: int
    data: bytes
    is_over: bool = False
    why: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class WriteTerminal:
    """What was typed, and the window's size where it changed. `ends`: hang up. Answered by `WrittenTerminal`."""

    guid: str
    session: str
    data: bytes = b""
    size: WindowSize | None = None
    ends: bool = False
    operator: str = ""

    def __post_init__(self) -> None:
        check_session(self.session)
        if len(self.data) > MAX_INPUT_BYTES:
            raise InvalidInput("data", f"{len(self.data)} bytes", f"at most {MAX_INPUT_BYTES}")


@dataclass(frozen=True, slots=True)
class WrittenTerminal:
    """It was handed to the command's terminal."""


def check_session(session: str) -> str:
    """Raises `InvalidInput`."""
    if not _SESSION.fullmatch(session):
        raise InvalidInput("session", session[:64], "a terminal's session")
    return session
