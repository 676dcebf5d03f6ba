"""Counts the kernel's tracepoints by thread, by perf_event_open: nothing is recorded and no file is read in between.

Limits: a thread that begins after the opening is not counted. The number of a tracepoint is read from tracefs, which
must be mounted.

Source: perf_event_open(2), PERF_TYPE_TRACEPOINT; Documentation/trace/events.rst.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from cotenant.drivers.perf.opening import open_tracepoint
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Vanished

_FOLDERS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))


class ThreadTracepoints:
    """Counts these tracepoints of these threads, from now until `close`.

    `names`: `system:event`. `missing`: those that this kernel does not have. Raises `Unsupported` where tracefs is not
    mounted or cannot be read, or counting is not permitted, and `Transient` where descriptors ran out.
    """

    def __init__(self, threads: Iterable[int], names: Sequence[str], folders: Sequence[Path] = _FOLDERS) -> None:
        numbers = _numbers(names, folders)
        self.missing = tuple(name for name in names if name not in numbers)
        self._open: list[tuple[str, int]] = []
        try:
            for thread in threads:
                for name, number in numbers.items():
                    try:
                        self._open.append((name, open_tracepoint(thread, number, name)))
                    except Vanished:
                        break
        except BaseException:
            self.close()
            raise

    def read(self) -> dict[str, int]:
        """How often each came since the opening, over all threads."""
        found: dict[str, int] = {name: 0 for name, _ in self._open}
        for name, descriptor in self._open:
            found[name] += struct.unpack("=Q", os.read(descriptor, 8))[0]
        return found

    def close(self) -> None:
        """Stop counting."""
        while self._open:
            os.close(self._open.pop()[1])


def _numbers(names: Sequence[str], folders: Sequence[Path]) -> dict[str, int]:
    folder = next((folder / "events" for folder in folders if (folder / "events").is_dir()), None)
    if folder is None:
        raise Unsupported("counting tracepoints", f"tracefs: mount -t tracefs nodev {folders[0]}, as root")
    found: dict[str, int] = {}
    for name in names:
        try:
            found[name] = int((folder / name.replace(":", "/", 1) / "id").read_text())
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise Unsupported("counting tracepoints", f"root, to read {folder}: {error}") from None
    return found
