"""The lines of the state file, and the faults of those that cannot be read.

A file that a crash may cut off anywhere must yield every lease that it still has, and name the wrong field of the rest.
One JSON object per line. The first has the format's version and the boot; each further one keeps a lease or drops one;
the last line on a target counts. Only a line that ends in a line feed was acknowledged, so a last one without is not a
fault.
Limits: a lease altered on disk into another valid one is not noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.machine.knob import KnobLease, KnobTarget, LeaseState

VERSION: Final = 1
LIVE = (LeaseState.INTENDED, LeaseState.HELD, LeaseState.RESTORING)


class Opened(msgspec.Struct, tag_field="op", tag="opened", frozen=True):
    """The first line."""

    version: Literal[1]
    boot: str


class Keep(msgspec.Struct, tag_field="op", tag="keep", frozen=True):
    """The lease as it is now."""

    lease: KnobLease


class DropLine(msgspec.Struct, tag_field="op", tag="drop", frozen=True):
    """The lease is over."""

    target: KnobTarget


Line = Opened | Keep | DropLine


@dataclass(frozen=True, slots=True)
class Content:
    """The contents of a state file."""

    boot: str | None  # None: the first line could not be read, or there is none
    leases: tuple[KnobLease, ...]
    faults: tuple[InvalidInput, ...] = ()
    torn: bool = False  # the last line was cut off
    lines: int = 0


def encode(line: Line) -> bytes:
    """Encode a line with its line feed. Raises `InvalidInput` for a group whose name is not Unicode text."""
    try:
        return msgspec.json.encode(line) + b"\n"
    except UnicodeEncodeError as error:
        raise InvalidInput("group", repr(line), "a name in UTF-8") from error


def read(name: str, data: bytes) -> Content:
    """Decode all readable lines, with a fault for each other line. Raises `InvalidInput` for a file of another
    version.
    """
    *whole, rest = data.split(b"\n")
    boot: str | None = None
    live: dict[KnobTarget, KnobLease] = {}
    faults: list[InvalidInput] = []
    for number, text in enumerate(whole, start=1):
        if number == 1:
            _check_version(name, text)
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.MsgspecError, CotenantError, UnicodeDecodeError, RecursionError) as error:
            faults.append(_fault(name, number, text, error))
            continue
        match line:
            case Opened(boot=boot) if number == 1:
                pass
            case Opened():
                faults.append(InvalidInput(f"{name}:{number}", text.decode(), "a lease", "only line 1 has the version"))
            case Keep(lease=lease) if lease.state not in LIVE:
                faults.append(InvalidInput(f"{name}:{number}: lease.state", lease.state, f"one of {', '.join(LIVE)}"))
            case Keep(lease=lease):
                live[lease.target] = lease
            case DropLine(target=target):
                live.pop(target, None)
    return Content(boot, tuple(live.values()), tuple(faults), bool(rest), len(whole))


def _check_version(name: str, text: bytes) -> None:
    """A file of another version is not modified: the keeper that wrote it can restore its leases."""
    try:
        version = msgspec.json.decode(text, type=_AnyVersion).version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if version != VERSION:
        raise InvalidInput(
            f"{name}: version", version, str(VERSION), "let the keeper that wrote it restore its leases first"
        )


class _AnyVersion(msgspec.Struct):
    version: int


def _fault(name: str, number: int, text: bytes, error: Exception) -> InvalidInput:
    text_of_error = str(error)
    where = (
        text_of_error.rpartition("`$")[2].strip("`.") if "`$" in text_of_error else ""
    )  # msgspec's path of the field
    field = f"{name}:{number}" + (f": {where}" if where else "")
    if isinstance(error, InvalidInput):
        return InvalidInput(f"{field}: {error.field}", str(error.value), error.expected)
    return InvalidInput(field, text[:80].decode("utf-8", "replace"), "a lease kept or dropped", text_of_error)
