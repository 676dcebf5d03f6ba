"""The host as a keeper opens it: the machine's knobs, this process's cgroups, and the state file of one folder.

The keeper's process, an agent that is its own keeper, and the command that restores knobs by hand must open the same
host. All of them do it here.
Limits: trees that are mounted later are not seen.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.cgroup.processes import first_process
from cotenant.drivers.cgroup.slices import TaskSlices
from cotenant.drivers.cgroup.watch import KnobWatch
from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.gpu.knobs_apart import KnobsApart
from cotenant.drivers.gpu.mig import MigKnobs
from cotenant.drivers.gpu.mps import MpsControl
from cotenant.drivers.gpu.mps_knobs import MpsKnobs
from cotenant.drivers.gpu.nvml_cards import NvmlCards
from cotenant.drivers.gpu.time_slices import PROGRAM, TimeSlices
from cotenant.drivers.kubelet.cpu_manager import STATE
from cotenant.drivers.kubelet.given_devices import POD_RESOURCES, GivenDevices, devices_of_kubelet
from cotenant.drivers.leasefile import file as leasefile
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import FoundLeases, LeaseFile
from cotenant.drivers.resctrl.knobs import ResctrlKnobs
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.drivers.systemd.manager import SOCKET, SystemdManager
from cotenant.drivers.tc.group_knobs import GroupNetworkKnobs
from cotenant.drivers.tc.knobs import TcKnobs
from cotenant.engine.node.interfaces import KnobPort
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob, KnobLease, KnobScope, LeaseAnswer, LeaseState
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.node_facts import NodeFactsReader
from cotenant.services.knobs.owned_knobs import OwnedKnobs
from cotenant.services.knobs.rules import KnobRules, own_groups

_log = logging.getLogger(__name__)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CLOCK = Clock(lambda: time.monotonic_ns() // 1000, time.time)


def boot_id() -> str:
    """The id of this boot; "" where the kernel gives none, and all boots then count as one."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def groups_of_this_process() -> tuple[str, ...]:
    """Its groups in all trees; () in a cgroup namespace of its own, where they are not visible."""
    return groups_of(os.getpid())


def groups_of(pid: int) -> tuple[str, ...]:
    """The groups of a process in all trees; () where it is not visible."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ()
    return own_groups(text.splitlines())


@dataclass(frozen=True, slots=True)
class OwnerPaths:
    """Where the other owners of knobs are asked: the system bus of systemd, the checkpoint of the kubelet's CPU
    manager, and the MPS control daemon.
    """

    bus: Path = SOCKET
    cpu_manager: Path = STATE
    mps: Path | None = None  # pipe directory of an MPS control daemon; None: the one that CUDA looks for


@dataclass(frozen=True, slots=True)
class HostKnobs:
    """The knobs of this machine, what is known of their other owners, and a watch over them; None where the kernel
    grants none.
    """

    ports: Mapping[KnobScope, KnobPort]
    facts: Callable[[], KubeletFacts] = KubeletFacts
    watch: KnobWatch | None = None


@contextmanager
def machine_knobs(
    cgroup_root: Path | None, resctrl_root: Path | None = None, owners: OwnerPaths | None = None
) -> Iterator[HostKnobs]:
    """This machine. One that lacks cache control or traffic classes reports it when those are used.

    Raises `Unsupported` where there are no cgroups at `cgroup_root` (None: anywhere).
    """
    owners = owners or OwnerPaths()
    layout = detect(None if cgroup_root is None else str(cgroup_root))
    with ExitStack() as opened:
        cgroups = opened.enter_context(CgroupKnobs(layout))
        systemd = opened.enter_context(closing(SystemdManager(socket=owners.bus)))
        facts = NodeFactsReader(
            layout.version("cpu"),
            systemd.version,
            owners.cpu_manager,
            devices=GivenDevices(owners.cpu_manager.parent / POD_RESOURCES),
        )
        owned = OwnedKnobs(cgroups, systemd, facts)
        classes = ResctrlKnobs(None if resctrl_root is None else ResctrlTree(str(resctrl_root)))
        watch = _watch(layout)
        if watch is not None:
            opened.enter_context(closing(watch))
        ports: dict[KnobScope, KnobPort] = {
            KnobScope.CGROUP: owned,
            KnobScope.RESCTRL: classes,
            KnobScope.TC: TcKnobs(),
            KnobScope.NETWORK: GroupNetworkKnobs(lambda group: first_process(layout, group)),
            KnobScope.GPU: opened.enter_context(knobs_of_cards(owners.cpu_manager.parent)),
            KnobScope.MPS: _knobs_of_mps(MpsControl(owners.mps)),
        }
        yield HostKnobs(ports, facts, watch)


@contextmanager
def knobs_of_cards(kubelet: Path, library: Any = None, program: str = PROGRAM) -> Iterator[KnobsApart]:
    """Knobs of GPUs, each card's in a thread of its own. `kubelet`: its folder; `library`: pynvml, or a substitute."""
    cards = NvmlCards(library)
    port = GpuKnobs(
        cards=cards,
        slices=TimeSlices(program),
        instances=MigKnobs(cards, lambda: devices_of_kubelet(kubelet)),
    )
    apart = KnobsApart(
        port, lambda target: f"the driver of {target.group}", frozenset({Knob.GPU_TIMESLICE, Knob.GPU_MIG})
    )
    try:
        yield apart
    finally:
        if not apart.is_stuck:
            cards.close()


def _knobs_of_mps(control: MpsControl) -> KnobsApart:
    slow = frozenset({Knob.MPS_THREADS, Knob.MPS_MEMORY})
    return KnobsApart(MpsKnobs(control), lambda _: f"the MPS control daemon at {control.pipe}", slow)


def _watch(layout: CgroupLayout) -> KnobWatch | None:
    try:
        return KnobWatch(layout)
    except OSError as error:
        _log.warning("what others write is looked for each second instead of at once: inotify: %s", error.strerror)
        return None


@contextmanager
def idle_slices(cgroup_root: Path | None, slice_ms: int) -> Iterator[TaskSlices | None]:
    """What gives tasks of idle groups a slice of so many milliseconds; None for 0, or where the machine cannot,
    which is logged.
    """
    if slice_ms == 0:
        yield None
        return
    with closing(TaskSlices(detect(None if cgroup_root is None else str(cgroup_root)), slice_ms * 1000)) as slices:
        if slices.gap is not None:
            _log.info("%s: needs %s", slices.gap.what, slices.gap.needs)
        yield None if slices.gap is not None else slices


@dataclass(frozen=True, slots=True)
class Left:
    """The contents of a folder's state file, read without taking it over."""

    leases: tuple[KnobLease, ...] = ()  # of this boot
    earlier_boot: int = 0  # of an earlier boot: their groups are gone
    keeper: int | None = None  # pid of the process that has the folder locked; 0: pid not known; None: no process
    faults: tuple[InvalidInput, ...] = ()  # lines that cannot be read
    aside: tuple[Path, ...] = ()  # earlier unreadable files, kept for inspection


def read_left(state_dir: Path) -> Left:
    """Leases left in a state folder. Raises `Transient`, `InvalidInput` (another version's file). Expiries are
    those of the last change, not of the last renewal.
    """
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
    """The result of restoring by hand."""

    answers: tuple[LeaseAnswer, ...]  # RESTORING: could not be restored, stays in the file
    faults: tuple[InvalidInput, ...]  # lines of the file that could not be read
    aside: Path | None  # where that file is kept


def put_back(state_dir: Path, cgroup_root: Path | None) -> PutBack:
    """Restore everything that a dead keeper left; a folder without a state file is not touched.

    Raises `Permanent` where a keeper has the folder locked: on SIGTERM it restores everything itself.
    """
    if not (state_dir / leasefile.NAME).exists():
        return PutBack((), (), None)
    with machine_knobs(cgroup_root) as machine:
        file = LeaseFile(state_dir, boot_id())
        try:
            executor = LeaseExecutor(
                machine.ports, file, AuditTrail(state_dir), CLOCK, KnobRules((), restores_all=True)
            )
            return PutBack(executor.restart(file.found.leases), file.found.faults, file.found.aside)
        finally:
            file.close()


async def put_back_left(keeper: LocalKeeper, found: FoundLeases) -> None:
    """What a new keeper does first. Raises `InvalidInput` for a state file with faults, after the readable leases
    are restored.
    """
    if found.earlier_boot:
        _log.info("%d leases of an earlier boot dropped: their groups no longer exist", found.earlier_boot)
    for answer in await keeper.start(found.leases):
        level = logging.ERROR if answer.state is LeaseState.RESTORING else logging.INFO
        _log.log(level, "left by an earlier keeper: %s is %s %s", answer.target, answer.state, answer.detail)
    if found.faults:
        await keeper.stop()
        for fault in found.faults:
            _log.error("%s", fault)
        first = found.faults[0]
        hint = (
            f"{len(found.faults)} such lines; the file is kept as {found.aside}, all readable leases are restored, "
            "the next start continues"
        )
        raise InvalidInput(first.field, first.value, first.expected, hint)
