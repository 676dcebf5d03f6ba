"""Pinned BPF maps through the bpf(2) system call, without libbpf.

The process that writes policy rows should need neither libbpf nor the scheduler's object, and must not stop working
when a scheduler is replaced. Open the map by its pinned path and call bpf(2) by ctypes: one row takes 2 us.
Limits: look up, update and delete only; the system call's number is known for x86-64 and arm64.

Source: linux/bpf.h, `union bpf_attr`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from cotenant.model.errors import Permanent, Transient, Unsupported

_NUMBERS = {"x86_64": 321, "aarch64": 280}
_LOOK_UP, _UPDATE, _DELETE, _OPEN = 1, 2, 3, 7
_ATTRIBUTES = 128  # bytes; the kernel accepts a longer union whose rest is zero
_ELEMENT = struct.Struct("=I4xQQQ")  # map, key, value, flags
_PATH = struct.Struct("=QII")  # path, descriptor, flags


class PinnedMap:
    """A map that is pinned at `path`. Raises `Unsupported` where it is not there or this machine's bpf(2) is
    unknown.
    """

    def __init__(self, path: Path, key_size: int, value_size: int) -> None:
        number = _NUMBERS.get(platform.machine())
        if number is None:
            raise Unsupported("BPF map", f"a known system call number on {platform.machine()}")
        self._number = number
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._path = path
        self._key_size = key_size
        self._value = ctypes.create_string_buffer(value_size)
        name = ctypes.create_string_buffer(os.fsencode(path))
        self.fd = self._call(_OPEN, _PATH.pack(ctypes.addressof(name), 0, 0))
        if self.fd < 0:
            raise Unsupported("BPF map", f"a map pinned at {path} ({os.strerror(ctypes.get_errno())})")

    def put(self, key: bytes, value: bytes) -> None:
        """Create or replace an entry. Raises `Transient` where the map is full for now or memory is short."""
        if self._element(_UPDATE, key, ctypes.create_string_buffer(value, len(value))) < 0:
            raise self._failure()

    def drop(self, key: bytes) -> None:
        """Remove an entry if it exists."""
        if self._element(_DELETE, key, None) < 0 and ctypes.get_errno() != errno.ENOENT:
            raise self._failure()

    def get(self, key: bytes) -> bytes | None:
        """One value (of all CPUs together for a per-CPU map); None where there is no entry."""
        if self._element(_LOOK_UP, key, self._value) < 0:
            if ctypes.get_errno() == errno.ENOENT:
                return None
            raise self._failure()
        return self._value.raw

    def close(self) -> None:
        """Close the descriptor; the map stays pinned. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _element(self, command: int, key: bytes, value: ctypes.Array[ctypes.c_char] | None) -> int:
        if len(key) != self._key_size:
            raise AssertionError(f"a key of {len(key)} bytes, not {self._key_size}")
        held = ctypes.create_string_buffer(key, len(key))
        at = ctypes.addressof(value) if value is not None else 0
        return self._call(command, _ELEMENT.pack(self.fd, ctypes.addressof(held), at, 0))

    def _call(self, command: int, attributes: bytes) -> int:
        buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES)
        return int(self._libc.syscall(self._number, command, buffer, _ATTRIBUTES))

    def _failure(self) -> Exception:
        code = ctypes.get_errno()
        text = f"BPF map {self._path}: {os.strerror(code)}"
        return Transient(text) if code in (errno.ENOMEM, errno.EBUSY, errno.E2BIG) else Permanent(text)
