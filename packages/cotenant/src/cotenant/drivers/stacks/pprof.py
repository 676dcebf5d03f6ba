"""Stacks as a pprof profile, for `go tool pprof`, Speedscope, Grafana and Perfetto.

Written by hand: eight fields of four messages; the packages of PyPI for it have had no release since 2022.

Source: github.com/google/pprof, proto/profile.proto.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence

from cotenant.model.machine.stacks import Frame, Stack

_MAX_VARINT = 1 << 64


def encode_pprof(stacks: Sequence[Stack], at_s: float, seconds: float, rate_hz: int) -> bytes:
    """A gzipped Profile: samples, and the nanoseconds that they stand for; labels name the span whose time it was."""
    texts = {"": 0}
    period_ns = 1_000_000_000 // rate_hz

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    def value_type(kind: str, unit: str) -> bytes:
        return _number(1, text(kind)) + _number(2, text(unit))

    body = [_bytes(1, value_type("samples", "count")), _bytes(1, value_type("wall", "nanoseconds"))]
    frames: dict[Frame, int] = {}
    functions: dict[tuple[str, str], int] = {}
    for stack in stacks:
        places = [frames.setdefault(frame, len(frames) + 1) for frame in reversed(stack.frames)]  # the leaf first
        values = (stack.samples, stack.samples * period_ns)
        links = ((key, value) for key, value in (("trace_id", stack.trace_id), ("span_id", stack.span_id)) if value)
        labels = b"".join(_bytes(3, _number(1, text(key)) + _number(2, text(value))) for key, value in links)
        body.append(_bytes(2, _packed(1, places) + _packed(2, values) + labels))
    for frame, number in frames.items():
        function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
        line = _number(1, function) + _number(2, frame.line)
        body.append(_bytes(4, _number(1, number) + _bytes(4, line)))
    for (name, file), number in functions.items():
        body.append(_bytes(5, _number(1, number) + _number(2, text(name)) + _number(4, text(file))))
    period_type = value_type("wall", "nanoseconds")
    body += [_bytes(6, value.encode()) for value in texts]
    body += [_number(9, int(at_s * 1e9)), _number(10, int(seconds * 1e9)), _bytes(11, period_type)]
    body.append(_number(12, period_ns))
    return gzip.compress(b"".join(body), mtime=0)


def _varint(value: int) -> bytes:
    value %= _MAX_VARINT
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(_varint(value) for value in values))
