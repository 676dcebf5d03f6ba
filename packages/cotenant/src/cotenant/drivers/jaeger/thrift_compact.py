"""The Thrift compact protocol: a message into plain values, bounded.

A datagram from anybody says how long its lists and strings are and how deep its structs. A reader over the bytes that
trusts no length: every element takes at least a byte, so a count beyond what is left is refused, and structs nest at
most `MAX_DEPTH` deep. Values come without names: a struct is a dict of its field numbers.
Limits: reading only; maps are skipped over and left out.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from cotenant.model.errors import InvalidInput

MAX_DEPTH = 12
MAX_VALUES = 20_000  # of a message; a full datagram of usual spans has 13,000
_PROTOCOL, _VERSION = 0x82, 1
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Value: TypeAlias = bool | int | float | bytes | list["Value"] | dict[int, "Value"]
Struct: TypeAlias = dict[int, Value]


def read_message(body: bytes) -> tuple[str, Struct]:
    """The method's name and its arguments. Raises `InvalidInput`."""
    reader = _Reader(body)
    if reader.byte() != _PROTOCOL:
        raise InvalidInput("Thrift message", body[:8].hex(), "the compact protocol (0x82)")
    version = reader.byte() & 0x1F
    if version != _VERSION:
        raise InvalidInput("Thrift message", version, "version 1 of the compact protocol")
    reader.varint()  # sequence number
    name = reader.binary().decode("utf-8", "replace")
    return name, reader.struct(0)


class _Reader:
    """A position in the bytes of one message."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0
        self._left = MAX_VALUES
        self._values: dict[int, Callable[[int], Value]] = {
            _TRUE: lambda depth: self.byte() == _TRUE,  # of a list: one byte each
            _FALSE: lambda depth: self.byte() == _TRUE,
            _BYTE: lambda depth: (self.byte() ^ 0x80) - 0x80,
            _I16: lambda depth: self.zigzag(),
            _I32: lambda depth: self.zigzag(),
            _I64: lambda depth: self.zigzag(),
            _DOUBLE: lambda depth: float(struct.unpack("<d", self._take(8))[0]),
            _BINARY: lambda depth: self.binary(),
            _LIST: self._list,
            _SET: self._list,
            _MAP: self._map,
            _STRUCT: lambda depth: self.struct(depth),
        }

    def byte(self) -> int:
        return self._take(1)[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
        raise InvalidInput("Thrift message", f"byte {self._at}", "a number of at most ten bytes")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        return self._take(self.varint())

    def struct(self, depth: int) -> Struct:
        if depth > MAX_DEPTH:
            raise InvalidInput("Thrift message", f"byte {self._at}", f"structs at most {MAX_DEPTH} deep")
        fields: Struct = {}
        number = 0
        while head := self.byte():
            kind, delta = head & 0x0F, head >> 4
            number = number + delta if delta else self.zigzag()
            if kind in (_TRUE, _FALSE):
                self._left -= 1
                fields[number] = kind == _TRUE
            else:
                fields[number] = self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Value:
        self._left -= 1
        if self._left < 0:
            raise InvalidInput("Thrift message", f"byte {self._at}", f"at most {MAX_VALUES} values")
        read = self._values.get(kind)
        if read is None:
            raise InvalidInput("Thrift message", f"type {kind}", "a type of the compact protocol")
        return read(depth)

    def _list(self, depth: int) -> Value:
        head = self.byte()
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self.varint()
        self._bound(size)
        if depth > MAX_DEPTH:
            raise InvalidInput("Thrift message", f"byte {self._at}", f"lists at most {MAX_DEPTH} deep")
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _map(self, depth: int) -> Value:
        size = self.varint()
        self._bound(size)
        if size:
            kinds = self.byte()
            if depth > MAX_DEPTH:
                raise InvalidInput("Thrift message", f"byte {self._at}", f"maps at most {MAX_DEPTH} deep")
            for _ in range(size):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 0x0F, depth + 1)
        return {}

    def _bound(self, size: int) -> None:
        """Elements take at least one byte each, but for structs without fields, which take one too."""
        if size > len(self._body) - self._at:
            raise InvalidInput(
                "Thrift message", f"{size} elements", f"at most the {len(self._body) - self._at} bytes left"
            )

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._body):
            raise InvalidInput("Thrift message", f"{len(self._body)} bytes", f"at least {end}")
        taken = self._body[self._at : end]
        self._at = end
        return taken
