"""Fields of protobuf's wire form, and how many messages a request would become, by compiled code.

Two bytes make a message, so a small compressed body asks for ten million objects. One pass that makes nothing counts
what would become objects, stops at the first bound, and says where the body is malformed or unusual.
Limits: the insides of attributes, events and links are not looked at; nothing is made of them when a request arrives.

Source: protobuf encoding, "Message structure"; field numbers from opentelemetry-proto, trace.proto and resource.proto.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput

Bytes = NDArray[np.uint8]
Whole = int | np.int64  # a place or a number in compiled code
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
LEFT_TO_LIBRARY = -1
_MAX_VARINT_BYTES = 10

MAX_SPANS = 65_536  # of a request; 20 MiB of usual spans have as many
MAX_RESOURCES = 5_000
MAX_RESOURCE_ATTRIBUTES = 50_000  # of all resources of a request
MAX_RESOURCE_BYTES = 64 << 10  # of one


class TooLarge(InvalidInput):
    """A request has more of something than is taken at once."""

    def __init__(self, what: str, found: Whole, most: int) -> None:
        super().__init__("body", f"{found} {what}", f"at most {most}", "send smaller batches")


class WireCounts(NamedTuple):
    """What a request has; counting ends where a bound is passed. `spans` is negative where the library must read
    the body.
    """

    spans: int
    resources: int
    resource_attributes: int
    largest_resource: Whole  # bytes

    def beyond(self) -> tuple[str, Whole, int] | None:
        """The first bound that is passed: of what, how many (at least), and how many there may be."""
        bounds = (MAX_SPANS, MAX_RESOURCES, MAX_RESOURCE_ATTRIBUTES, MAX_RESOURCE_BYTES)
        names = ("spans", "resources", "attributes of resources", "bytes of a resource")
        for name, found, most in zip(names, self, bounds, strict=True):
            if found > most:
                return name, found, most
        return None


def count(data: Bytes) -> WireCounts:
    """How much a request has."""
    return WireCounts(*_count(data, MAX_SPANS, MAX_RESOURCES, MAX_RESOURCE_ATTRIBUTES, MAX_RESOURCE_BYTES))


@njit
def read_varint(data: Bytes, at: Whole, end: Whole) -> tuple[np.uint64, Whole]:
    """The value and where it ends; a negative end where it is malformed."""
    value, shift = np.uint64(0), np.uint64(0)
    last = min(end, at + _MAX_VARINT_BYTES)
    while at < last:
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 127) << shift
        if byte < 128:
            return value, at
        shift += np.uint64(7)
    return value, LEFT_TO_LIBRARY


@njit
def read_field(data: Bytes, at: Whole, end: Whole) -> tuple[Whole, Whole, Whole, Whole]:
    """Number, wire type, where the value begins and where it ends; the end is negative where the field is malformed
    or unusual.
    """
    key, at = read_varint(data, at, end)
    if at < 0 or key >> np.uint64(3) == 0 or key > np.uint64(0xFFFFFFFF):
        return 0, 0, 0, LEFT_TO_LIBRARY
    number, wire = np.int64(key >> np.uint64(3)), np.int64(key & np.uint64(7))
    if wire == LENGTH:
        size, at = read_varint(data, at, end)
        if at < 0 or size > np.uint64(end - at):
            return 0, 0, 0, LEFT_TO_LIBRARY
        return number, wire, at, at + np.int64(size)
    if wire == VARINT:
        _, after = read_varint(data, at, end)
        return number, wire, at, after
    width = 8 if wire == FIXED64 else 4 if wire == FIXED32 else end + 1
    if width > end - at:
        return 0, 0, 0, LEFT_TO_LIBRARY
    return number, wire, at, at + width


@njit
def _count(
    data: Bytes, max_spans: int, max_resources: int, max_attributes: int, max_bytes: int
) -> tuple[int, int, int, Whole]:
    spans = resources = attributes = 0
    largest: Whole = 0
    at: Whole = 0
    end = data.size
    while at < end:
        number, wire, inner, at = read_field(data, at, end)
        if at < 0:
            return LEFT_TO_LIBRARY, 0, 0, 0
        if number != 1 or wire != LENGTH:
            continue
        resources += 1
        described = False
        while inner < at:
            number, wire, scope, inner = read_field(data, inner, at)
            if inner < 0:
                return LEFT_TO_LIBRARY, 0, 0, 0
            if number == 1 and wire == LENGTH:
                if described:
                    return LEFT_TO_LIBRARY, 0, 0, 0
                described = True
                largest = max(largest, inner - scope)
                while scope < inner:
                    number, wire, _, scope = read_field(data, scope, inner)
                    if scope < 0:
                        return LEFT_TO_LIBRARY, 0, 0, 0
                    attributes += number == 1
                continue
            if number != 2 or wire != LENGTH:
                continue
            while scope < inner:
                number, wire, span, scope = read_field(data, scope, inner)
                if scope < 0:
                    return LEFT_TO_LIBRARY, 0, 0, 0
                if number == 2 and wire == LENGTH:
                    spans += 1
                    if not _is_well_formed(data, span, scope):
                        return LEFT_TO_LIBRARY, 0, 0, 0
                    if spans > max_spans:
                        return spans, resources, attributes, largest
        if resources > max_resources or attributes > max_attributes or largest > max_bytes:
            return spans, resources, attributes, largest
    return spans, resources, attributes, largest


@njit
def _is_well_formed(data: Bytes, at: Whole, end: Whole) -> bool:
    """Whether a span, and the status in it, consists of whole fields."""
    while at < end:
        number, wire, inner, at = read_field(data, at, end)
        if at < 0:
            return False
        if number == 15 and wire == LENGTH:
            while inner < at:
                _, _, _, inner = read_field(data, inner, at)
                if inner < 0:
                    return False
    return True
