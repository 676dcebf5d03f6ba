"""A ring buffer in a file, in the kernel's layout."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

import pytest

from cotenant.drivers.ebpf.ring import RingReader

SIZE = 4096
BUSY, DISCARDED = 1 << 31, 1 << 30


class Writer:
    """The producing side: its position is at the second page, data from the third on, twice."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("ring")
        os.ftruncate(self.fd, 2 * mmap.PAGESIZE + 2 * SIZE)
        self.end = 0

    def write(self, data: bytes, flags: int = 0) -> None:
        record = struct.pack("=II", len(data) | flags, 0) + data
        record += bytes(-len(record) % 8)
        for place, byte in enumerate(record):
            at = (self.end + place) % SIZE
            for copy in (at, at + SIZE):
                os.pwrite(self.fd, bytes((byte,)), 2 * mmap.PAGESIZE + copy)
        self.end += len(record)
        os.pwrite(self.fd, struct.pack("=Q", self.end), mmap.PAGESIZE)

    def consumed(self) -> int:
        return int.from_bytes(os.pread(self.fd, 8, 0), "little")


@pytest.fixture
def writer() -> Iterator[Writer]:
    made = Writer()
    yield made
    os.close(made.fd)


@pytest.fixture
def ring(writer: Writer) -> Iterator[RingReader]:
    ring = RingReader(writer.fd, SIZE)
    yield ring
    ring.close()


def test_records_are_drained_once_in_order(writer: Writer, ring: RingReader) -> None:
    assert ring.drain() == []
    writer.write(b"one")
    writer.write(b"twotwotwo")
    assert ring.drain() == [b"one", b"twotwotwo"]
    assert writer.consumed() == writer.end
    assert ring.drain() == []


def test_an_unfinished_record_delays_those_after_it(writer: Writer, ring: RingReader) -> None:
    writer.write(b"done")
    writer.write(b"not yet", BUSY)
    writer.write(b"later")
    assert ring.drain() == [b"done"]
    assert writer.consumed() < writer.end


def test_a_discarded_record_is_skipped(writer: Writer, ring: RingReader) -> None:
    writer.write(b"nothing", DISCARDED)
    writer.write(b"something")
    assert ring.drain() == [b"something"]


def test_a_record_that_wraps_around_is_complete(writer: Writer, ring: RingReader) -> None:
    for number in range(40):
        data = bytes((number,)) * 300
        writer.write(data)
        assert ring.drain() == [data]
    assert writer.end > 2 * SIZE
