"""The hottest frames of a program as a table, or all as JSON."""

from __future__ import annotations

import msgspec

from cotenant.model.printable import printable
from cotenant.services.profiling.code import CodeProfile

_MAX_FUNCTION, _MAX_PLACE = 32, 50  # columns


def show_code(found: CodeProfile, rows: int, as_json: bool) -> int:
    """Print."""
    if as_json:
        print(msgspec.json.encode(found).decode())
        return 0
    pids = ", ".join(str(pid) for pid in found.pids)
    print(f"{found.samples} samples of {printable(found.target)} (pid {pids}) in {found.seconds} s")
    if not found.samples:
        print("it did nothing: --idle counts waiting threads too")
    else:
        print(" own %  total %  frame")
    for hot in found.frames[:rows]:
        own, total = 100 * hot.own / found.samples, 100 * hot.total / found.samples
        place = printable(f"{hot.frame.file}:{hot.frame.line}" if hot.frame.file else "")
        place = place if len(place) <= _MAX_PLACE else "..." + place[-_MAX_PLACE + 3 :]
        function = printable(hot.frame.function)
        function = function if len(function) <= _MAX_FUNCTION else function[: _MAX_FUNCTION - 3] + "..."
        print(f"{own:6.1f}  {total:7.1f}  {function} {place}")
    left = len(found.frames) - rows
    if left > 0:
        print(f"{left} more frames")
    if found.written:
        print(f"stacks as pprof: {found.written}")
    return 0
