"""Which sections an ELF file has: whether a program still has its symbols, and whether Go built it.

Source: System V ABI, "Object Files": the ELF header and section headers.
"""

from __future__ import annotations

import struct
from pathlib import Path

SYMBOLS, GO = ".symtab", ".gopclntab"
_HEADER = 64
_MAX_SECTIONS, _MAX_NAMES = 4096, 1 << 20  # of a file that nobody vouches for


def section_names(path: Path) -> frozenset[str]:
    """Of a 64-bit file; empty where it is none, or cannot be read."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEADER)
            if len(head) < _HEADER or head[:5] != b"\x7fELF\x02":
                return frozenset()
            order = "<" if head[5] == 1 else ">"
            (table_at,) = struct.unpack_from(order + "Q", head, 40)
            size, count, names_in = struct.unpack_from(order + "HHH", head, 58)
            if size < _HEADER or not names_in < count <= _MAX_SECTIONS:
                return frozenset()
            stream.seek(table_at)
            table = stream.read(size * count)
            names_at, names_size = struct.unpack_from(order + "QQ", table, size * names_in + 24)
            stream.seek(names_at)
            names = stream.read(min(names_size, _MAX_NAMES))
            found = (struct.unpack_from(order + "I", table, size * number)[0] for number in range(count))
            return frozenset(names[at:].partition(b"\0")[0].decode("latin-1") for at in found) - {""}
    except (OSError, struct.error, OverflowError):
        return frozenset()
