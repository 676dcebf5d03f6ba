"""The run-queue probe inside the keeper, for agents that may load no program into the kernel.

A container without capabilities cannot attach an eBPF program, and an agent is to have none: so the process that runs
as root anyway measures, and its agent asks for the figures before each of its samples. A probe that cannot be loaded is
no reason to keep nothing: it is said once, and agents are told what it would need. Several may ask (an agent, a fleet's
agent, somebody who looks): what all of them asked for last is watched, and each is told of its own groups. Who asks is
a connection, and its groups are watched until that ends.
Limits: `MAX_WATCHED` groups in all; who would exceed them is refused, the others go on. How much could not be
attributed is of the whole probe.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.ebpf.delays import ProbeDelays
from cotenant.model.errors import CotenantError, InvalidInput, Unsupported
from cotenant.model.machine.run_queue import RunQueueReading
from cotenant.services.keeper.server import NoWaits, WaitsReader

MAX_WATCHED = 1024  # groups, each with all below it
_log = logging.getLogger(__name__)


class ProbedWaits:
    """The waits that a loaded probe counts."""

    needs = ""

    def __init__(self, delays: ProbeDelays) -> None:
        self._delays = delays
        self._asked: dict[int, tuple[str, ...]] = {}  # by asker

    def read(self, asker: int, groups: Sequence[str]) -> RunQueueReading:
        """Watch these groups beside the others' and read; raises `InvalidInput` where they are too many."""
        asked = {**self._asked, asker: tuple(groups)}
        watched = tuple(dict.fromkeys(group for found in asked.values() for group in found))
        if len(watched) > MAX_WATCHED:
            others = len(asked) - 1
            hint = f"{others} other {'client asks' if others == 1 else 'clients ask'} this keeper too"
            raise InvalidInput("groups", len(watched), f"at most {MAX_WATCHED} in all", hint)
        self._delays.read(watched, 0)
        self._asked = asked  # not before: groups that cannot be watched must not stay in the others' way
        reading = self._delays.reading
        assert reading is not None, "it was read just now"
        own = frozenset(groups)
        return replace(
            reading,
            groups=tuple(found for found in reading.groups if found.group in own),
            blame=tuple(found for found in reading.blame if found.victim in own),
        )

    def left(self, asker: int) -> None:
        """Its groups are watched until the next reading of another."""
        self._asked.pop(asker, None)


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
