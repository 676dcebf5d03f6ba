"""Lines of a container's log, where they were read, and how they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

MAX_LINE = 1 << 20  # characters
MAX_SHOWN = 128 << 10  # of one line in an answer, which has to fit into a message
MAX_PATTERN = 1000  # characters


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """A file whatever its name: the inode, and a digest of its first bytes, since inodes are used again."""

    inode: int
    head_bytes: int
    head_digest: str


@dataclass(frozen=True, slots=True)
class LogPlace:
    """From where reading can go on: the end of a record, before which no line is incomplete.

    `skip`: lines that end after it and were taken already, which happens while a line of the other stream is
    incomplete. `at_ns`: time of the last line that was taken.
    """

    file: FileIdentity
    offset: int
    skip: int = 0
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes that were read one after another. `lost`: why lines before it may be missing; empty: none are.

    `is_old`: from before the place where reading was to go on.
    """

    file: FileIdentity
    start: int
    data: bytes
    lost: str = ""
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class ShownLine:
    """One line as it is shown. Ids are lower-case hexadecimal, empty where the line names none."""

    at_ns: int  # Unix time, as the runtime wrote it
    stream: str  # stdout or stderr
    text: str
    trace_id: str = ""
    span_id: str = ""
    cut: int = 0  # characters left out at the end


@dataclass(frozen=True, slots=True)
class LogCursor:
    """Where a reader is: the last line's number in the agent's ring, and its time, should that ring be a new one."""

    ring: str
    number: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class ReadLogs:
    """Lines of a container, oldest first. `guid`: a container's, or a pod as NAME or NAMESPACE/NAME.

    After `cursor`, else since `since_s` (Unix time; None: all that is kept). `grep`: an expression of RE2's syntax.
    `tail`: without a cursor only the last so many. Waits up to `wait_s` for the first line. Answered by `LogPage`.
    """

    guid: str
    since_s: float | None = None
    cursor: LogCursor | None = None
    grep: str = ""
    tail: int | None = None
    max_lines: int = 1000
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LogPage:
    """`cursor`: for the next page. `is_end`: nothing more is here now.

    `missed`: lines that were dropped before this reader came to them. `lost`: gaps in what could be read at all.
    """

    lines: tuple[ShownLine, ...]
    cursor: LogCursor | None
    is_end: bool
    missed: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class FindLogs:
    """Is there a log of this name? Asked of agents for what is no container's guid. Answered by `FoundLogs`."""

    name: str


@dataclass(frozen=True, slots=True)
class FoundLogs:
    """Names by which the logs here can be asked for."""

    names: tuple[str, ...] = ()
