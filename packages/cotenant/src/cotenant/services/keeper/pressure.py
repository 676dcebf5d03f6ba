"""Pressure triggers opened on an agent's behalf.

Windows under two seconds need CAP_SYS_RESOURCE, and the files belong to root; the agent has neither. The keeper opens
the trigger and passes its descriptor, which is all that polling needs. The agent wraps it in a `PressureTrigger`.
Limits: any group may be watched: pressure reveals how long tasks waited, and nothing else. How many may be opened is
bounded in `server.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.psi.triggers import PressureFiles, PressureResource
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.knobs import wire


class PressureTriggers:
    """Implements `server.Triggers` over the machine's pressure files."""

    def __init__(self, files: PressureFiles) -> None:
        self._files = files

    def open(self, asked: wire.OpenTrigger) -> tuple[int, int]:
        """Open a trigger. Raises `InvalidInput`, `Vanished`, `Unsupported` as the driver does."""
        known = {str(resource): resource for resource in PressureResource}
        if asked.resource not in known:
            raise InvalidInput("resource", asked.resource, f"one of {', '.join(known)}")
        if asked.group is not None:
            KnobTarget(asked.group, Knob.CPU_MAX)  # rejects a path that leads out of the tree
        with self._files.trigger(
            asked.group, known[asked.resource], asked.stall_us, asked.window_us, asked.full
        ) as trigger:
            return os.dup(trigger.pressure_fileno()), trigger.window_us


@contextmanager
def pressure_triggers(cgroup_root: Path | None) -> Iterator[PressureTriggers]:
    """The triggers of this machine. Raises `Unsupported`."""
    files = PressureFiles(detect(None if cgroup_root is None else str(cgroup_root)))
    try:
        yield PressureTriggers(files)
    finally:
        files.close()
