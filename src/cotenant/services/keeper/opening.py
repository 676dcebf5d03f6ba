"""What a keeper stands on: the machine's knobs, and the state file of one folder.

Problem: the keeper's process, an agent that is its own keeper, and the command that puts things back by hand must open the same world. Choice: they all
do it here. Limits: trees that are mounted later are not seen.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.leasefile import file as leasefile
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import Found, LeaseFile
from cotenant.drivers.resctrl.knobs import ResctrlKnobs
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.drivers.tc.knobs import TcKnobs
from cotenant.engine.node.ports import KnobPort
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Lease, LeaseAnswer, LeaseState, Scope
from cotenant.services.keeper.allowed import Rules, own_groups
from cotenant.services.keeper.carrying import Carrier, Clock
from cotenant.services.keeper.here import KeptHere

_log = logging.getLogger(__name__)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CLOCK = Clock(lambda: time.monotonic_ns() // 1000, time.time)


def boot_id() -> str:
    """Of this boot; "" where the kernel does not say, which is then one boot for all."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def groups_of_this_process() -> tuple[str, ...]:
    """Its groups in all trees. In a cgroup namespace of its own they cannot be told, and there are none."""
    return groups_of(os.getpid())


def groups_of(pid: int) -> tuple[str, ...]:
    """The groups of a process in all trees; () where it cannot be seen."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ()
    return own_groups(text.splitlines())


@contextmanager
def machine_knobs(cgroup_root: Path | None, resctrl_root: Path | None = None) -> Iterator[Mapping[Scope, KnobPort]]:
    """The ports of this machine. Raises `Unsupported` where it has no cgroups at `cgroup_root` (None: anywhere); a machine that lacks cache
    control or traffic classes says so when they are asked for."""
    with CgroupKnobs(detect(None if cgroup_root is None else str(cgroup_root))) as cgroups:
        classes = ResctrlKnobs(None if resctrl_root is None else ResctrlTree(str(resctrl_root)))
        yield {Scope.CGROUP: cgroups, Scope.RESCTRL: classes, Scope.TC: TcKnobs()}


@dataclass(frozen=True, slots=True)
class Left:
    """What a folder's state file says, without taking it over."""

    leases: tuple[Lease, ...] = ()  # of this boot
    earlier_boot: int = 0  # of an earlier boot: their groups are gone
    keeper: int | None = None  # the process that has the folder now; 0: one whose number is not known; None: nobody
    faults: tuple[InvalidInput, ...] = ()  # lines that cannot be read
    aside: tuple[Path, ...] = ()  # unreadable files of before, kept until somebody has looked at them


def left_in(state_dir: Path) -> Left:
    """Raises `Transient`, `InvalidInput` (another version's file). Expiries are those of the last change, not of the last renewal."""
    content = leasefile.read_only(state_dir)
    here = content.leases if content.boot in (boot_id(), None) else ()
    return Left(
        here,
        len(content.leases) - len(here),
        leasefile.held_by(state_dir),
        content.faults,
        leasefile.asides(state_dir),
    )


@dataclass(frozen=True, slots=True)
class PutBack:
    """How putting back by hand went."""

    answers: tuple[LeaseAnswer, ...]  # RESTORING: could not be put back, stays in the file
    faults: tuple[InvalidInput, ...]  # lines of the file that could not be read
    aside: Path | None  # where that file is kept


def put_back(state_dir: Path, cgroup_root: Path | None) -> PutBack:
    """Put back everything that a dead keeper left; a folder without a state file is left as it is.

    Raises `Permanent` where a keeper has the folder: stopped (SIGTERM), it puts everything back itself.
    """
    if not (state_dir / leasefile.NAME).exists():
        return PutBack((), (), None)
    with machine_knobs(cgroup_root) as ports:
        file = LeaseFile(state_dir, boot_id())
        try:
            carrier = Carrier(ports, file, AuditTrail(state_dir), CLOCK, Rules(()))
            return PutBack(carrier.restart(file.found.leases), file.found.faults, file.found.aside)
        finally:
            file.close()


async def put_back_left(keeper: KeptHere, found: Found) -> None:
    """What a new keeper does first. Raises `InvalidInput` for a state file that had faults, when all that could be read is back."""
    if found.earlier_boot:
        _log.info("%d leases of an earlier boot dropped: their groups went with it", found.earlier_boot)
    for answer in await keeper.start(found.leases):
        level = logging.ERROR if answer.state is LeaseState.RESTORING else logging.INFO
        _log.log(level, "left by an earlier keeper: %s is %s %s", answer.target, answer.state, answer.detail)
    if found.faults:
        await keeper.stop()
        for fault in found.faults:
            _log.error("%s", fault)
        first = found.faults[0]
        hint = f"{len(found.faults)} such lines; the file is kept as {found.aside}, all readable leases are back, the next start goes on"
        raise InvalidInput(first.field, first.value, first.expected, hint)
