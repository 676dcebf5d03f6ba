"""A reader of a BPF ring buffer through its mapping.

Late waits must reach the agent at once and cost nothing while there are none. The map's own descriptor becomes readable
(poll, epoll, asyncio's add_reader) when something was written; reading needs two mappings and no system call.
Limits: one reader.

Source: Linux, Documentation/bpf/ringbuf.rst: consumer page, producer page, data mapped twice in a row; 8-byte headers
with a length whose two top bits mean "being written" and "discarded".
"""

from __future__ import annotations

import ctypes
import mmap

_BUSY = 1 << 31
_DISCARDED = 1 << 30
_HEADER = 8


class RingReader:
    """The reading side of one ring of `size` bytes."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self._mask = size - 1
        page = mmap.PAGESIZE
        self._consumer = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._producer = mmap.mmap(fd, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)

    def drain(self) -> list[bytes]:
        """Remove and return all records written so far, oldest first."""
        records: list[bytes] = []
        position = int.from_bytes(self._consumer[:8], "little")
        end = int.from_bytes(self._producer[:8], "little")
        while position < end:
            at = mmap.PAGESIZE + (position & self._mask)
            header = int.from_bytes(self._producer[at : at + 4], "little")
            if header & _BUSY:
                break
            size = header & ~_DISCARDED
            if not header & _DISCARDED:
                records.append(self._producer[at + _HEADER : at + _HEADER + size])
            position += (_HEADER + size + 7) & ~7
        consumed = ctypes.c_uint64.from_buffer(self._consumer)  # one store of eight bytes, as the kernel reads it
        consumed.value = position
        del consumed  # a reference would prevent closing the mapping
        return records

    def close(self) -> None:
        """Close the mappings."""
        self._consumer.close()
        self._producer.close()
