"""What cProfile writes (`Profile.dump_stats`), from a program that nobody vouches for.

It is Python's marshal, whose own reader may be made to crash the interpreter by a malicious file. So the few kinds that
a profile consists of are read here, and nothing else; sizes are bounded by the bytes that are there.

Source: CPython, Python/marshal.c (versions 2 to 5), Lib/pstats.py: {(file, line, function): (primitive calls, calls,
own seconds, cumulative seconds, {caller: (calls, primitive calls, own, cumulative)})}.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.stacks import Frame, HotFrame, Stack

MAX_DEPTH, MAX_CALLS = 8, 200_000  # calls: functions by caller; references make more of them than a body has bytes
_FLAG_REFERENCE = 0x80
_DIGIT_BITS, _MAX_DIGITS = 15, 5
_END = object()


@dataclass(frozen=True, slots=True)
class CallProfile:
    """By function: own and cumulative microseconds, and own ones by the caller. `total_us`: own ones of all."""

    total_us: int
    frames: tuple[HotFrame, ...]
    stacks: tuple[Stack, ...]


def read_pstats(body: bytes) -> CallProfile:
    """Raises `InvalidInput`."""
    try:
        found = _Reader(body).whole()
        return _profile(found)
    except (ValueError, IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise InvalidInput("body", body[:20], "what cProfile's dump_stats writes", str(error)[:200]) from None


def _profile(found: object) -> CallProfile:
    if not isinstance(found, dict):
        raise ValueError("not a dictionary of functions")
    frames, stacks, calls = [], [], 0
    for key, value in found.items():
        frame = _frame(key)
        if not isinstance(value, tuple) or len(value) != 5 or not isinstance(value[4], dict):
            raise ValueError(f"{frame.function}: not the five figures of a function")
        calls += len(value[4])
        if calls > MAX_CALLS:
            raise ValueError(f"more than {MAX_CALLS} calls")
        own_us, total_us = _microseconds(value[2]), _microseconds(value[3])
        frames.append(HotFrame(frame, own_us, total_us))
        left_us = own_us
        for caller, figures in value[4].items():
            if not isinstance(figures, tuple) or len(figures) != 4:
                raise ValueError(f"{frame.function}: not the four figures of a caller")
            part_us = min(_microseconds(figures[2]), left_us)
            left_us -= part_us
            if part_us:
                stacks.append(Stack((_frame(caller), frame), part_us))
        if left_us:
            stacks.append(Stack((frame,), left_us))
    frames.sort(key=lambda hot: (-hot.own, -hot.total, hot.frame.file, hot.frame.line, hot.frame.function))
    return CallProfile(sum(hot.own for hot in frames), tuple(frames), tuple(stacks))


def _frame(key: object) -> Frame:
    match key:
        case (str(file), int(line), str(function)):
            return Frame(function, "" if file == "~" else file, max(line, 0))
        case _:
            raise ValueError("not a file, a line and a function")


def _microseconds(value: object) -> int:
    if isinstance(value, int | float) and isfinite(value) and 0 <= value < 1e9:
        return round(value * 1e6)
    raise ValueError("a time that is none")


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0
        self._references: list[object] = []

    def whole(self) -> object:
        found = self._value(0)
        if self._at != len(self._body):
            raise ValueError("something follows the profile")
        return found

    def _take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._body):
            raise ValueError("it ends early")
        self._at += size
        return self._body[self._at - size : self._at]

    def _integer(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def _value(self, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise ValueError("too deep")
        code = self._take(1)[0]
        kind = chr(code & ~_FLAG_REFERENCE)
        if kind == "r":
            return self._references[self._index()]
        place = None
        if code & _FLAG_REFERENCE:  # numbered before what is in it
            place = len(self._references)
            self._references.append(None)
        found = self._of_kind(kind, depth)
        if place is not None:
            self._references[place] = found
        return found

    def _index(self) -> int:
        index = self._integer()
        if index < 0:
            raise ValueError("a reference that is none")
        return index

    def _of_kind(self, kind: str, depth: int) -> object:
        match kind:
            case "0":
                return _END
            case "i":
                return self._integer()
            case "l":
                return self._long()
            case "g":
                return struct.unpack("<d", self._take(8))[0]
            case "z" | "Z":
                return self._take(self._take(1)[0]).decode("ascii")
            case "a" | "A":
                return self._take(self._integer()).decode("ascii")
            case "u" | "t":
                return self._take(self._integer()).decode("utf-8", "surrogatepass").encode("utf-8", "replace").decode()
            case ")":
                return self._tuple(self._take(1)[0], depth)
            case "(":
                return self._tuple(self._integer(), depth)
            case "{":
                return self._dictionary(depth)
            case _:
                raise ValueError(f"it has a value of kind {kind!r}")

    def _long(self) -> int:
        size = self._integer()
        if abs(size) > _MAX_DIGITS:
            raise ValueError("a number that is too large")
        digits = [int.from_bytes(self._take(2), "little") for _ in range(abs(size))]
        value = sum(digit << _DIGIT_BITS * place for place, digit in enumerate(digits))
        return -value if size < 0 else value

    def _tuple(self, size: int, depth: int) -> tuple[object, ...]:
        if not 0 <= size <= len(self._body) - self._at:
            raise ValueError("it ends early")
        found = tuple(self._value(depth + 1) for _ in range(size))
        if _END in found:
            raise ValueError("an end where none may be")
        return found

    def _dictionary(self, depth: int) -> Mapping[object, object]:
        found: dict[object, object] = {}
        while (key := self._value(depth + 1)) is not _END:
            value = self._value(depth + 1)
            if value is _END:
                raise ValueError("an end where none may be")
            if not isinstance(key, tuple) or not all(isinstance(part, str | int) for part in key):
                raise ValueError("a key that names no function")
            found[key] = value
        return found
