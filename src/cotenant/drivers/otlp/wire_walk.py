"""The protobuf wire form of a request, walked by compiled code.

Problem: objects of the protobuf library cost 1.5 us a span, five times what everything after them costs. Choice: one pass over the bytes that fills the columns and numbers the
distinct names; attributes, events and links are skipped by their lengths. What is malformed, or unusual (groups, a resource that is sent in parts), is left to the
library, which then accepts or refuses the request. Limits: the inside of an attribute is not checked.

Source: protobuf encoding, "Message structure"; field numbers from opentelemetry-proto, trace.proto.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotenant.drivers.otlp.resources import DATABASE_KEYS, PEER_KEYS, source_of
from cotenant.drivers.otlp.validity import (
    BAD_PARENT_ID,
    BAD_SPAN_ID,
    BAD_TIME,
    BAD_TRACE_ID,
    LATEST_NS,
    VALID,
    batch_of,
)
from cotenant.model.compiled import njit
from cotenant.model.traces.spans import SpanBatch, SpanColumns, SpanKind, columns_of

Bytes = NDArray[np.uint8]
Whole = int | np.int64  # a place or a number in compiled code
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LEFT_TO_LIBRARY = -1
_MOST_VARINT_BYTES = 10
_CLIENT, _PRODUCER = int(SpanKind.CLIENT), int(SpanKind.PRODUCER)
_KEYS = (*DATABASE_KEYS, *PEER_KEYS)  # the first that a span has names its peer
_KEY_BYTES = np.frombuffer("".join(_KEYS).encode(), np.uint8)
_KEY_ENDS = np.cumsum([len(key) for key in _KEYS])
_DATABASES = len(DATABASE_KEYS)
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def walk(body: bytes) -> SpanBatch | None:
    """The batch, or None where the library must read the body. Raises `DecodeError` where a resource cannot be read."""
    data = np.frombuffer(body, np.uint8)
    spans, resources = _count(data)
    if spans < 0:
        return None
    columns, faults = columns_of(spans), np.zeros(spans, np.uint8)
    resource_at = np.zeros((resources, 2), np.int64)
    name_at = np.zeros((2 * spans, 2), np.int64)  # of each span, and of its peer
    names = _fill(data, columns, faults, resource_at, name_at)
    if names < 0:
        return None
    try:
        texts = tuple(body[start : start + size].decode() for start, size in name_at[:names].tolist())
    except UnicodeDecodeError:
        return None
    sources = tuple(source_of(body[start : start + size]) for start, size in resource_at.tolist())
    return batch_of(columns, faults, texts, sources, body)


@njit
def _varint(data: Bytes, at: Whole, end: Whole) -> tuple[np.uint64, Whole]:
    """The value and where it ends; a negative end where it is malformed."""
    value, shift = np.uint64(0), np.uint64(0)
    last = min(end, at + _MOST_VARINT_BYTES)
    while at < last:
        byte = data[at]
        at += 1
        value |= np.uint64(byte & 127) << shift
        if byte < 128:
            return value, at
        shift += np.uint64(7)
    return value, _LEFT_TO_LIBRARY


@njit
def _field(data: Bytes, at: Whole, end: Whole) -> tuple[Whole, Whole, Whole, Whole]:
    """Number, wire type, where the value begins and where it ends; the end is negative where the field is malformed or unusual."""
    key, at = _varint(data, at, end)
    if at < 0 or key >> np.uint64(3) == 0 or key > np.uint64(0xFFFFFFFF):
        return 0, 0, 0, _LEFT_TO_LIBRARY
    number, wire = np.int64(key >> np.uint64(3)), np.int64(key & np.uint64(7))
    if wire == _LENGTH:
        size, at = _varint(data, at, end)
        if at < 0 or size > np.uint64(end - at):
            return 0, 0, 0, _LEFT_TO_LIBRARY
        return number, wire, at, at + np.int64(size)
    if wire == _VARINT:
        _, after = _varint(data, at, end)
        return number, wire, at, after
    width = 8 if wire == _FIXED64 else 4 if wire == _FIXED32 else end + 1
    if width > end - at:
        return 0, 0, 0, _LEFT_TO_LIBRARY
    return number, wire, at, at + width


@njit
def _count(data: Bytes) -> tuple[int, int]:
    """Spans and resources; (-1, 0) where the library must read the body."""
    spans = resources = 0
    at: Whole = 0
    end = data.size
    while at < end:
        number, wire, inner, at = _field(data, at, end)
        if at < 0:
            return _LEFT_TO_LIBRARY, 0
        if number != 1 or wire != _LENGTH:
            continue
        resources += 1
        described = False
        while inner < at:
            number, wire, scope, inner = _field(data, inner, at)
            if inner < 0:
                return _LEFT_TO_LIBRARY, 0
            if number == 1 and wire == _LENGTH:
                if described:
                    return _LEFT_TO_LIBRARY, 0
                described = True
            if number != 2 or wire != _LENGTH:
                continue
            while scope < inner:
                number, wire, span, scope = _field(data, scope, inner)
                if scope < 0:
                    return _LEFT_TO_LIBRARY, 0
                if number == 2 and wire == _LENGTH:
                    spans += 1
                    if not _is_well_formed(data, span, scope):
                        return _LEFT_TO_LIBRARY, 0
    return spans, resources


@njit
def _is_well_formed(data: Bytes, at: Whole, end: Whole) -> bool:
    """Whether a span, and the status in it, consists of whole fields."""
    while at < end:
        number, wire, inner, at = _field(data, at, end)
        if at < 0:
            return False
        if number == 15 and wire == _LENGTH:
            while inner < at:
                _, _, _, inner = _field(data, inner, at)
                if inner < 0:
                    return False
    return True


@njit
def _big_endian(data: Bytes, at: Whole) -> np.uint64:
    value = np.uint64(0)
    for index in range(at, at + 8):
        value = (value << np.uint64(8)) | np.uint64(data[index])
    return value


@njit
def _little_endian(data: Bytes, at: Whole) -> np.uint64:
    value = np.uint64(0)
    for index in range(8):
        value |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return value


@njit
def _fill(
    data: Bytes, columns: SpanColumns, faults: Bytes, resource_at: NDArray[np.int64], name_at: NDArray[np.int64]
) -> int:
    """Fill the arrays; returns the number of distinct names, or -1 where the library must read the body. Its spans consist of whole fields."""
    slots = 16
    while slots < 4 * faults.size:
        slots *= 2
    table = np.full(slots, -1, np.int32)  # name numbers by hash, open addressing
    peer_at = np.zeros((len(_KEYS), 2), np.int64)
    row = names = 0
    resource = -1
    at: Whole = 0
    while at < data.size:
        number, wire, inner, at = _field(data, at, data.size)
        if number != 1 or wire != _LENGTH:
            continue
        resource += 1
        while inner < at:
            number, wire, scope, inner = _field(data, inner, at)
            if wire != _LENGTH:
                continue
            if number == 1:
                resource_at[resource, 0], resource_at[resource, 1] = scope, inner - scope
            elif number == 2:
                while scope < inner:
                    number, wire, span, scope = _field(data, scope, inner)
                    if number == 2 and wire == _LENGTH:
                        columns.source[row] = resource
                        names = _fill_span(data, span, scope, row, columns, faults, name_at, table, names)
                        if columns.kind[row] == _CLIENT or columns.kind[row] == _PRODUCER:
                            names = _fill_peer(data, span, scope, row, columns, name_at, table, names, peer_at)
                        if names < 0:
                            return _LEFT_TO_LIBRARY
                        row += 1
    return names


@njit
def _fill_span(
    data: Bytes,
    at: Whole,
    end: Whole,
    row: int,
    columns: SpanColumns,
    faults: Bytes,
    name_at: NDArray[np.int64],
    table: NDArray[np.int32],
    names: int,
) -> int:
    """Fill one row; returns the number of distinct names."""
    columns.offset[row], columns.length[row] = at, end - at
    name, name_end = at, at
    start_ns = end_ns = np.uint64(0)
    good_trace = good_span = False
    good_parent = True
    while at < end:
        number, wire, value, at = _field(data, at, end)
        if wire == _LENGTH:
            if number == 1:
                good_trace = at - value == 16
                if good_trace:
                    columns.trace_high[row] = _big_endian(data, value)
                    columns.trace_low[row] = _big_endian(data, value + 8)
            elif number == 2:
                good_span = at - value == 8
                if good_span:
                    columns.span_id[row] = _big_endian(data, value)
            elif number == 4:
                good_parent = at - value in (0, 8)
                columns.parent_id[row] = _big_endian(data, value) if at - value == 8 else np.uint64(0)
            elif number == 5:
                name, name_end = value, at
            elif number == 15:
                while value < at:
                    field, kind, content, value = _field(data, value, at)
                    if field == 3 and kind == _VARINT:
                        code, _ = _varint(data, content, value)
                        columns.failed[row] = np.int32(code & np.uint64(0xFFFFFFFF)) == 2
        elif wire == _FIXED64:
            if number == 7:
                start_ns = _little_endian(data, value)
            elif number == 8:
                end_ns = _little_endian(data, value)
        elif wire == _VARINT and number == 6:
            given, _ = _varint(data, value, at)
            kind_number = given & np.uint64(0xFFFFFFFF)
            columns.kind[row] = np.uint8(kind_number) if kind_number <= np.uint64(5) else np.uint8(0)
    columns.name[row], names = _number_of_name(data, name, name_end, name_at, table, names)
    if not good_trace or (columns.trace_high[row] == 0 and columns.trace_low[row] == 0):
        faults[row] = BAD_TRACE_ID
    elif not good_span or columns.span_id[row] == 0:
        faults[row] = BAD_SPAN_ID
    elif not good_parent:
        faults[row] = BAD_PARENT_ID
    elif start_ns == 0 or start_ns > end_ns or end_ns > LATEST_NS:
        faults[row] = BAD_TIME
    else:
        faults[row] = VALID
        columns.start_ns[row], columns.end_ns[row] = np.int64(start_ns), np.int64(end_ns)
    return names


@njit
def _fill_peer(
    data: Bytes,
    at: Whole,
    end: Whole,
    row: int,
    columns: SpanColumns,
    name_at: NDArray[np.int64],
    table: NDArray[np.int32],
    names: int,
    peer_at: NDArray[np.int64],
) -> int:
    """Fill a row's peer from the span's attributes; returns the number of distinct names, or -1 where an attribute is malformed."""
    peer_at[:] = 0
    while at < end:
        number, wire, attribute, at = _field(data, at, end)
        if number != 9 or wire != _LENGTH:
            continue
        key, start, stop = np.int64(-1), np.int64(0), np.int64(0)
        while attribute < at:
            number, wire, inner, attribute = _field(data, attribute, at)
            if attribute < 0:
                return _LEFT_TO_LIBRARY
            if number == 1 and wire == _LENGTH:
                key = _key_number(data, inner, attribute)
            elif number == 2 and wire == _LENGTH:
                while inner < attribute:
                    number, wire, value, inner = _field(data, inner, attribute)
                    if inner < 0:
                        return _LEFT_TO_LIBRARY
                    if number == 1 and wire == _LENGTH:
                        start, stop = np.int64(value), np.int64(inner)
                    elif (
                        (number in (2, 3) and wire == _VARINT)
                        or (number == 4 and wire == _FIXED64)
                        or (number in (5, 6, 7) and wire == _LENGTH)
                    ):  # another kind of value takes the string's place
                        start, stop = np.int64(0), np.int64(0)
        if key >= 0:
            peer_at[key, 0], peer_at[key, 1] = start, stop
    for rank in range(peer_at.shape[0]):
        if peer_at[rank, 1] > peer_at[rank, 0]:
            columns.to_database[row] = rank < _DATABASES
            columns.peer[row], names = _number_of_name(data, peer_at[rank, 0], peer_at[rank, 1], name_at, table, names)
            break
    return names


@njit
def _key_number(data: Bytes, start: Whole, end: Whole) -> np.int64:
    """Which of `_KEYS` stands here; -1 = none."""
    begin = np.int64(0)
    for number in range(_KEY_ENDS.size):
        size = _KEY_ENDS[number] - begin
        if size == end - start:
            same = True
            for index in range(size):
                if _KEY_BYTES[begin + index] != data[start + index]:
                    same = False
                    break
            if same:
                return np.int64(number)
        begin = np.int64(_KEY_ENDS[number])
    return np.int64(-1)


@njit
def _number_of_name(
    data: Bytes, start: Whole, end: Whole, name_at: NDArray[np.int64], table: NDArray[np.int32], names: int
) -> tuple[int, int]:
    """The number of a name, and how many there are now."""
    hashed = _FNV_OFFSET
    for index in range(start, end):
        hashed = (hashed ^ np.uint64(data[index])) * _FNV_PRIME
    mask = np.uint64(table.size - 1)
    slot = hashed & mask
    while table[slot] >= 0:
        known = table[slot]
        if name_at[known, 1] == end - start:
            same = True
            for index in range(end - start):
                if data[name_at[known, 0] + index] != data[start + index]:
                    same = False
                    break
            if same:
                return known, names
        slot = (slot + np.uint64(1)) & mask
    table[slot] = names
    name_at[names, 0], name_at[names, 1] = start, end - start
    return names, names + 1
