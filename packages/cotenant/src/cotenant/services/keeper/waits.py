"""The run-queue probe inside the keeper, for agents that may load no program into the kernel.

A container without capabilities cannot attach an eBPF program, and an agent is to have none: so the process that runs
as root anyway measures, and its agent asks for the figures before each of its samples. A probe that cannot be loaded is
no reason to keep nothing: it is said once, and agents are told what it would need.
Limits: the groups of the last request are watched, so two agents of one keeper would take turns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.ebpf.delays import ProbeDelays
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.run_queue import RunQueueReading
from cotenant.services.keeper.server import NoWaits, WaitsReader

_log = logging.getLogger(__name__)


class ProbedWaits:
    """The waits that a loaded probe counts."""

    needs = ""

    def __init__(self, delays: ProbeDelays) -> None:
        self._delays = delays

    def read(self, groups: Sequence[str]) -> RunQueueReading:
        """Watch exactly these groups, and read."""
        self._delays.read(groups, 0)
        assert self._delays.reading is not None, "it was read just now"
        return self._delays.reading


@contextmanager
def waits_reader(cgroup_root: Path | None, wanted: bool) -> Iterator[WaitsReader]:
    """The probe, where it is wanted and can be loaded; it is removed from the kernel at the end."""
    if not wanted:
        yield NoWaits()
        return
    from cotenant.drivers.ebpf.runqueue import RunQueue

    try:
        layout = detect(None if cgroup_root is None else str(cgroup_root))
        tree = layout.by_controller.get("cpu") or layout.unified
        if tree is None:
            raise Unsupported("the run-queue probe", "a cgroup tree")
        probe = RunQueue(tree.path, tree.version)
    except CotenantError as error:
        _log.warning("agents are not told who ran while services waited: %s", error)
        yield NoWaits(error.needs if isinstance(error, Unsupported) else str(error))
        return
    with probe:
        _log.info("waits for a CPU are counted with who ran meanwhile")
        yield ProbedWaits(ProbeDelays(probe))
