"""The protobuf wire form of a request, walked by compiled code.

Objects of the protobuf library cost 1.5 us a span, five times what everything after them costs. One pass over the bytes
that fills the columns and numbers the distinct names; attributes, events and links are skipped by their lengths. What
is malformed, or unusual (groups, a resource that is sent in parts), is left to the library, which then accepts or
refuses the request.
Limits: the inside of an attribute is not checked, and an answer's code is seen where its key stands first, as encoders
write it; of names whose hashes meet on purpose some get several numbers.

Source: protobuf encoding, "Message structure"; field numbers from opentelemetry-proto, trace.proto.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cotenant.drivers.otlp.resources import CODE_KEYS, DATABASE_KEYS, FAILED_FROM, PEER_KEYS, source_of
from cotenant.drivers.otlp.validity import (
    BAD_PARENT_ID,
    BAD_SPAN_ID,
    BAD_TIME,
    BAD_TRACE_ID,
    LATEST_NS,
    MAX_PARTS,
    TOO_MANY_PARTS,
    VALID,
    batch_of,
)
from cotenant.drivers.otlp.wire_fields import (
    FIXED64,
    LEFT_TO_LIBRARY,
    LENGTH,
    VARINT,
    Bytes,
    TooLarge,
    Whole,
    count,
    read_field,
    read_varint,
)
from cotenant.model.compiled import njit
from cotenant.model.traces.spans import SpanBatch, SpanColumns, SpanKind, columns_of

_CLIENT, _PRODUCER, _SERVER = int(SpanKind.CLIENT), int(SpanKind.PRODUCER), int(SpanKind.SERVER)
_CODE_BYTES = np.frombuffer("".join(CODE_KEYS).encode(), np.uint8)
_CODE_SIZES = tuple(len(key) for key in CODE_KEYS)  # one byte of length each
_KEY_FIRST = 10  # the byte with which an attribute begins whose key stands first, as every encoder writes it
_KEYS = (*DATABASE_KEYS, *PEER_KEYS)  # the first that a span has names its peer
_KEY_BYTES = np.frombuffer("".join(_KEYS).encode(), np.uint8)
_KEY_ENDS = np.cumsum([len(key) for key in _KEYS])
_DATABASES = len(DATABASE_KEYS)
_MAX_PROBES = 64
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def walk(body: bytes) -> SpanBatch | None:
    """The batch, or None where the library must read the body. Raises `TooLarge`, and `DecodeError` where a
    resource cannot be read.
    """
    data = np.frombuffer(body, np.uint8)
    counts = count(data)
    if (beyond := counts.beyond()) is not None:
        raise TooLarge(*beyond)
    spans, resources, *_ = counts
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
    """Fill the arrays; returns the number of distinct names, or -1 where the library must read the body. Its spans
    consist of whole fields.
    """
    slots = 16
    while slots < 4 * faults.size:
        slots *= 2
    table = np.full(slots, -1, np.int32)  # name numbers by hash, open addressing
    peer_at = np.zeros((len(_KEYS), 2), np.int64)
    row = names = 0
    resource = -1
    at: Whole = 0
    while at < data.size:
        number, wire, inner, at = read_field(data, at, data.size)
        if number != 1 or wire != LENGTH:
            continue
        resource += 1
        while inner < at:
            number, wire, scope, inner = read_field(data, inner, at)
            if wire != LENGTH:
                continue
            if number == 1:
                resource_at[resource, 0], resource_at[resource, 1] = scope, inner - scope
            elif number == 2:
                while scope < inner:
                    number, wire, span, scope = read_field(data, scope, inner)
                    if number == 2 and wire == LENGTH:
                        columns.source[row] = resource
                        names = _fill_span(data, span, scope, row, columns, faults, name_at, table, names)
                        if columns.kind[row] == _CLIENT or columns.kind[row] == _PRODUCER:
                            names = _fill_peer(data, span, scope, row, columns, name_at, table, names, peer_at)
                        if names < 0:
                            return LEFT_TO_LIBRARY
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
    attributes = events = links = 0
    status, answer = np.int32(0), np.int64(0)
    while at < end:
        number, wire, value, at = read_field(data, at, end)
        if wire == LENGTH:
            if number == 9:
                attributes += 1
                if at - value > 2 and data[value] == _KEY_FIRST and data[value + 1] in _CODE_SIZES:
                    answer = max(answer, _answer_code(data, value, at))
            elif number == 1:
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
                    field, kind, content, value = read_field(data, value, at)
                    if field == 3 and kind == VARINT:
                        code, _ = read_varint(data, content, value)
                        status = np.int32(code & np.uint64(0xFFFFFFFF))
            events += number == 11
            links += number == 13
        elif wire == FIXED64:
            if number == 7:
                start_ns = _little_endian(data, value)
            elif number == 8:
                end_ns = _little_endian(data, value)
        elif wire == VARINT and number == 6:
            given, _ = read_varint(data, value, at)
            kind_number = given & np.uint64(0xFFFFFFFF)
            columns.kind[row] = np.uint8(kind_number) if kind_number <= np.uint64(5) else np.uint8(0)
    has_answer = columns.kind[row] == _SERVER or columns.kind[row] == _CLIENT
    columns.failed[row] = status == 2 or (status == 0 and has_answer and answer >= FAILED_FROM)
    columns.name[row], names = _number_of_name(data, name, name_end, name_at, table, names)
    if not good_trace or (columns.trace_high[row] == 0 and columns.trace_low[row] == 0):
        faults[row] = BAD_TRACE_ID
    elif not good_span or columns.span_id[row] == 0:
        faults[row] = BAD_SPAN_ID
    elif not good_parent:
        faults[row] = BAD_PARENT_ID
    elif start_ns == 0 or start_ns > end_ns or end_ns > LATEST_NS:
        faults[row] = BAD_TIME
    elif max(attributes, events, links) > MAX_PARTS:
        faults[row] = TOO_MANY_PARTS
    else:
        faults[row] = VALID
        columns.start_ns[row], columns.end_ns[row] = np.int64(start_ns), np.int64(end_ns)
    return names


@njit
def _answer_code(data: Bytes, at: Whole, end: Whole) -> np.int64:
    """The HTTP status of an answer that an attribute says; 0 where it says none."""
    _, _, key, at = read_field(data, at, end)
    begin = np.int64(0) if at - key == _CODE_SIZES[0] else np.int64(_CODE_SIZES[0])
    for index in range(at - key):
        if data[key + index] != _CODE_BYTES[begin + index]:
            return np.int64(0)
    found = np.int64(0)
    while 0 <= at < end:
        number, wire, value, at = read_field(data, at, end)
        if number != 2 or wire != LENGTH or at < 0:
            continue
        while 0 <= value < at:
            number, wire, text, value = read_field(data, value, at)
            found = np.int64(0)
            if number == 1 and wire == LENGTH and value - text == 3:
                for index in range(3):
                    if data[text + index] < 48 or data[text + index] > 57:
                        found = np.int64(0)
                        break
                    found = 10 * found + np.int64(data[text + index]) - 48
            elif number == 3 and wire == VARINT:
                given, _ = read_varint(data, text, value)
                found = np.int64(given) if given < np.uint64(1000) else np.int64(0)
    return found


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
    """Fill a row's peer from the span's attributes; returns the number of distinct names, or -1 where an attribute
    is malformed.
    """
    peer_at[:] = 0
    while at < end:
        number, wire, attribute, at = read_field(data, at, end)
        if number != 9 or wire != LENGTH:
            continue
        key, start, stop = np.int64(-1), np.int64(0), np.int64(0)
        while attribute < at:
            number, wire, inner, attribute = read_field(data, attribute, at)
            if attribute < 0:
                return LEFT_TO_LIBRARY
            if number == 1 and wire == LENGTH:
                key = _key_number(data, inner, attribute)
            elif number == 2 and wire == LENGTH:
                while inner < attribute:
                    number, wire, value, inner = read_field(data, inner, attribute)
                    if inner < 0:
                        return LEFT_TO_LIBRARY
                    if number == 1 and wire == LENGTH:
                        start, stop = np.int64(value), np.int64(inner)
                    elif (
                        (number in (2, 3) and wire == VARINT)
                        or (number == 4 and wire == FIXED64)
                        or (number in (5, 6, 7) and wire == LENGTH)
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
    probes = 0
    while table[slot] >= 0 and probes < _MAX_PROBES:
        probes += 1
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
    if table[slot] < 0:
        table[slot] = names
    name_at[names, 0], name_at[names, 1] = start, end - start
    return names, names + 1
