"""The highest epoch of each group that this agent has seen, kept over restarts:

Requests of a controller that lost a group are refused.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cotenant.drivers.http.private_files import write_private
from cotenant.model.errors import Transient
from cotenant.model.fleet.refusal import Fenced
from cotenant.model.fleet.requests import Fence

_MAX_GROUPS = 10_000


class Fences:
    """Epochs by group, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._epochs: dict[str, int] = {}
        if file.exists():
            try:
                self._epochs = msgspec.json.decode(file.read_bytes(), type=dict[str, int])
            except msgspec.DecodeError as error:
                raise Transient(f"{file} is damaged: {error}; move it away to go on without it") from error

    def check(self, fence: Fence) -> None:
        """Let a request through. Raises `Fenced`."""
        seen = self._epochs.get(fence.group, 0)
        if fence.epoch < seen:
            raise Fenced(f"group {fence.group} belongs to a later controller (epoch {seen}, not {fence.epoch})", seen)
        if fence.epoch == seen:
            return
        self._epochs.pop(fence.group, None)
        self._epochs[fence.group] = fence.epoch
        while len(self._epochs) > _MAX_GROUPS:
            del self._epochs[next(iter(self._epochs))]
        try:
            write_private(self._file, msgspec.json.encode(self._epochs).decode())
        except OSError as error:
            raise Transient(f"{self._file} cannot be written: {error.strerror}") from error
