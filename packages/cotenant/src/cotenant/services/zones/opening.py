"""One zone with everything that its loop needs on this host: back ends, counters, the agent's view.

A zone needs parts of several drivers, and a host that cannot run one must say what is missing before anything is
opened. `check_host` first, then `opened`, which closes all of it at the end.
Limits: kernel schedulers are loaded by the process that opens the zone, which is the keeper.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import version
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.drivers.ebpf.sub_scheduler import check_sub_schedulers
from cotenant.drivers.ebpf.zone_scheduler import BPF_FILES
from cotenant.drivers.proc.topology import read_last_level_caches, read_topology
from cotenant.engine.node.interfaces import Keeper
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Unsupported
from cotenant.model.zones.apart import ApartTable
from cotenant.model.zones.setting import Backend, ZoneMode
from cotenant.model.zones.state import ZoneChange
from cotenant.policy.zone.apart import apart_table
from cotenant.policy.zone.cores import own_cpus, siblings_of
from cotenant.services.zones.agent_view import ZoneAgentView
from cotenant.services.zones.backends import (
    RootBackend,
    SubBackend,
    WeightsBackend,
    ZoneBackend,
    can_load,
    can_load_sub,
)
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.machine_signs import SignReader
from cotenant.services.zones.protection import guard
from cotenant.services.zones.runner import ZoneRunner


@dataclass(frozen=True, slots=True)
class ZoneSupport:
    """What this host can do. `root`, `sub`: load schedulers for the machine, for one cgroup; `bpf_files`: where its
    BPF file system is mounted; `lacks`: a sentence on what `auto` passes over because of the kernel or libbpf.
    """

    layout: CgroupLayout
    root: bool
    sub: bool
    bpf_files: Path = BPF_FILES
    lacks: str = ""

    @property
    def tree(self) -> Path:
        """Where the CPU controller's groups are."""
        return Path(self.layout.by_controller["cpu"].path)

    def has_group(self, group: str) -> bool:
        """Whether the group exists."""
        return (self.tree / group).is_dir()


def this_host(cgroup_root: str | None = None, bpf_files: Path = BPF_FILES) -> ZoneSupport:
    """Detect the host's layout and abilities. Raises `Unsupported` where there are no cgroups."""
    layout = detect(cgroup_root)
    on_v2 = layout.version("cpu") == 2
    return ZoneSupport(layout, on_v2 and can_load(), on_v2 and can_load_sub(), bpf_files, _lacks())


def _lacks() -> str:
    try:
        sched_ext.read_state()
        check_sub_schedulers(os.uname().release, version())
    except Unsupported as error:
        return str(error)
    return ""


def check_host(definition: ZoneDefinition, host: ZoneSupport, agent: str | None) -> None:
    """Refuse a zone that this host cannot run. Raises `Permanent`, `Unsupported` or `InvalidInput` with what is
    missing.
    """
    if definition.applications and agent is None:
        raise InvalidInput(
            "applications",
            f"{len(definition.applications)} selectors",
            "an agent that lists this node's pods (--agent)",
        )
    loads = host.root or definition.backend in (BackendChoice.ROOT, BackendChoice.SUB)
    loads = loads and definition.backend is not BackendChoice.WEIGHTS
    if loads and ZoneMode.EXCLUSIVE in definition.modes:
        own_cpus(read_topology(), definition.exclusive)  # raises where this machine has too few cores
    if loads and ZoneMode.SIBLINGS in definition.modes:
        siblings_of(read_topology())  # raises where its cores have other than two threads
    if loads:
        _apart(definition)  # raises where this machine lacks what the rules name
    if definition.backend is BackendChoice.ROOT and not host.root:
        sched_ext.read_state()  # raises with what is missing where it is the kernel
        raise Permanent("a root scheduler needs root, cgroup v2 for the CPU controller, and built objects (make bpf)")
    if definition.backend is BackendChoice.SUB and not host.sub:
        check_sub_schedulers(os.uname().release, version())
        raise Permanent("a sub-scheduler needs root, cgroup v2 for the CPU controller, and built objects (make bpf)")


@asynccontextmanager
async def opened(
    definition: ZoneDefinition,
    host: ZoneSupport,
    keeper: Keeper,
    agent: str | None,
    changed: Callable[[ZoneChange], None],
    log: Callable[[str], None],
    warn: Callable[[str], None],
) -> AsyncIterator[ZoneRunner]:
    """The zone's runner; not started. `agent`: HOST:PORT or unix:/PATH, for burn rates and selected pods; `warn`:
    called with what this host cannot measure.
    """
    tree, name, files = host.tree, definition.zone, host.bpf_files
    if definition.backend is BackendChoice.AUTO and host.lacks:
        log(host.lacks)
    counter = _wait_counter(host.layout, warn)
    backends: dict[Backend, ZoneBackend] = {}
    if host.sub and definition.common_group:
        backends[Backend.SUB] = SubBackend(
            name, definition.modes, tree, definition.common_group, definition.exclusive, files, _apart(definition)
        )
    if host.root:
        backends[Backend.ROOT] = RootBackend(
            name, definition.modes, tree, definition.exclusive, files, _apart(definition)
        )
    backends[Backend.WEIGHTS] = WeightsBackend(keeper, counter)
    zone = definition.machine(Backend.ROOT in backends, Backend.SUB in backends)
    try:
        with CgroupReader(host.layout) as reader:
            details: dict[str, object] = {}

            def unprotected(why: str) -> None:
                details["unprotected"] = why
                warn(why)

            guarded = guard(host.layout.version("memory"), keeper, log, unprotected)

            def used() -> Mapping[str, int]:
                found = list(reader.read(list(zone.rows)))
                if guarded is not None:
                    guarded[0].seen(found)
                return {counters.group: counters.cpu_us or 0 for counters in found}

            runner = ZoneRunner(zone, backends, used, changed, log=log)
            runner.details = details
            if guarded is not None:
                waits, protection = guarded
                runner.resources = lambda: waits.latest
                runner.protect, runner.reclaim = protection.protect, protection.reclaim
            if definition.policy.scenes:
                runner.signs = SignReader().read
            if agent is not None:
                view = ZoneAgentView(agent, definition, host.has_group)
                runner.burns = view.burns
                if definition.applications:
                    runner.members = view.members
            yield runner
    finally:
        if counter is not None:
            counter.close()


def _apart(definition: ZoneDefinition) -> ApartTable | None:
    """The zone's rules on this machine; None where it has none."""
    if not definition.apart:
        return None
    return apart_table(definition.apart, read_topology(), read_last_level_caches())


def _wait_counter(layout: CgroupLayout, warn: Callable[[str], None]) -> RunQueue | None:
    """The run-queue probe, for readings under the fair class; None, with a line, where this host has none."""
    tree = layout.by_controller["cpu"]
    try:
        return RunQueue(tree.path, tree.version)
    except CotenantError as error:
        warn(f"late dispatches are not counted under weights: {error}")
        return None
