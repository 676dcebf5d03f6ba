"""The keeper's process: check arguments, drop privileges, restore leftovers of an earlier keeper, and only then open
the socket.

Between a crash and the next start, knobs keep the last keeper's values; no request may be served before they are
restored. Lock the state folder, restore everything, then listen; SIGTERM or SIGINT stops listening and restores
everything again. Leases are not adopted: an agent that still needs one asks again within a second. A state file with
unreadable lines is kept aside and fails this start after the readable leases are restored, so that an operator looks;
the next start continues without it.
Limits: logs are lines on standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import grp
import logging
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.kubelet.roots import KubeletGroups, writable_here
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import FoundLeases, LeaseFile
from cotenant.drivers.leasefile.folder import own_folder
from cotenant.engine.node.interfaces import KnobPort
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobScope
from cotenant.services.heap import freeze_heap
from cotenant.services.keeper.keeper_arguments import KeeperArguments, check
from cotenant.services.keeper.pressure import pressure_triggers
from cotenant.services.keeper.privileges import give_up, join_group, needed
from cotenant.services.keeper.server import KeeperServer, TriggerOpener, WaitsReader
from cotenant.services.keeper.waits import waits_reader
from cotenant.services.knobs.dry_run import DryRunKnobs, NoStateFile
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.host import (
    CLOCK,
    OwnerPaths,
    boot_id,
    groups_of_this_process,
    idle_slices,
    machine_knobs,
    put_back_left,
)
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules
from cotenant.services.logs import log_to_stderr
from cotenant.services.sockets.peers import Peers, peers_of

if TYPE_CHECKING:  # loaders of kernel schedulers come with it: only where zones run
    from cotenant.services.zones.server import ZoneServer

_log = logging.getLogger(__name__)
NOT_ALL_RESTORED = 1


def run(request: KeeperArguments) -> int:
    """Serve until a signal; the exit status. Raises `InvalidInput`, `Unsupported`, `Permanent`, `Transient`."""
    check(request)
    request = with_kubelet_groups(request)
    rules, peers = rules_of(request), _peers(request)
    log_to_stderr(request.log_level, request.log_format)
    join_group(peers.socket_group)
    give_up(needed(request))
    with machine_knobs(
        request.cgroup_root, owners=OwnerPaths(request.bus, request.cpu_manager, request.mps)
    ) as machine:
        rules = replace(rules, facts=machine.facts)
        if request.dry_run:
            return asyncio.run(_serve_dry(request, machine.ports, rules, peers))
        file = LeaseFile(request.state_dir, boot_id())
        try:
            with (
                pressure_triggers(request.cgroup_root) as triggers,
                idle_slices(request.cgroup_root, request.idle_slice_ms) as slices,
                waits_reader(request.cgroup_root, request.waits) as waits,
            ):
                trail = AuditTrail(request.state_dir)
                executor = LeaseExecutor(machine.ports, file, trail, CLOCK, rules, tasks=slices)
                keeper = LocalKeeper(executor, machine.watch)
                zones = _zones(request, keeper, peers) if request.zones else None
                return asyncio.run(serve(keeper, file.found, request.socket, peers, triggers, zones, waits))
        finally:
            file.close()


async def serve(
    keeper: LocalKeeper,
    found: FoundLeases,
    path: Path,
    peers: Peers,
    triggers: TriggerOpener | None = None,
    zones: ZoneServer | None = None,
    waits: WaitsReader | None = None,
) -> int:
    """Restore leftover leases, then serve at `path`, with `zones` where given, until SIGTERM or SIGINT. Raises
    `InvalidInput` for a state file with faults.
    """
    stop = _stop_on_signals()
    await put_back_left(keeper, found)
    server = KeeperServer(path, keeper, peers, triggers, waits=waits)
    await server.start()
    expiring = asyncio.create_task(keeper.run(), name="expiry")
    if zones is not None:
        await zones.start()
        _log.info("zones at %s", zones.path)
    freeze_heap()  # what is there now stays: a full collection would delay a zone's reaction by tens of milliseconds
    _log.info("serving at %s", path)
    _notify_systemd("READY=1")
    await stop.wait()
    _notify_systemd("STOPPING=1")
    await server.stop()
    if zones is not None:
        await zones.stop()
    expiring.cancel()
    await asyncio.gather(expiring, return_exceptions=True)
    left = await keeper.stop()
    for lease in left:
        _log.error("%s could not be restored; the next start tries again: %s", lease.target, lease.detail)
    return NOT_ALL_RESTORED if left else 0


async def _serve_dry(
    request: KeeperArguments, ports: Mapping[KnobScope, KnobPort], rules: KnobRules, peers: Peers
) -> int:
    try:
        own_folder(request.state_dir)
    except OSError as error:
        raise InvalidInput("--state-dir", str(request.state_dir), "a folder that can be created", str(error)) from error
    dry = {scope: DryRunKnobs(port) for scope, port in ports.items()}
    _log.warning("dry run: no knob is written; the audit trail in %s records what would be", request.state_dir)
    keeper = LocalKeeper(LeaseExecutor(dry, NoStateFile(), AuditTrail(request.state_dir), CLOCK, rules))
    return await serve(keeper, FoundLeases(()), request.socket, peers)


def _zones(request: KeeperArguments, keeper: LocalKeeper, peers: Peers) -> ZoneServer:
    from cotenant.drivers.signatures.ed25519 import TrustedKeys
    from cotenant.services.zones.host import ZoneHost
    from cotenant.services.zones.opening import this_host
    from cotenant.services.zones.quota import ZoneQuota
    from cotenant.services.zones.server import ZoneServer

    host = this_host(None if request.cgroup_root is None else str(request.cgroup_root), request.bpf_root)
    roots = tuple(root.strip("/") for root in request.roots)
    # zones' processes have other folders of work
    folder = request.zone_state_dir.expanduser().absolute()
    quota = ZoneQuota(
        request.max_zones,
        memory_mib=request.max_zone_memory_mib,
        vcpus=request.max_zone_vcpus,
        disk_mib=request.max_zone_disk_mib,
    )
    files = request.zone_files.expanduser().absolute() if request.zone_files is not None else None
    keys = None
    if request.zone_signers is not None:
        keys = TrustedKeys.of_folder(request.zone_signers.expanduser().absolute(), "--zone-signers")
    zones = ZoneHost(keeper, host, folder, roots, quota, files=files, keys=keys)
    return ZoneServer(request.zone_socket.expanduser().absolute(), zones, peers)


def with_kubelet_groups(request: KeeperArguments) -> KeeperArguments:
    """The arguments with the groups of this node's kubelet among the roots. Raises `Unsupported` where it has none."""
    if not request.kubelet_groups:
        return request
    layout = detect(None if request.cgroup_root is None else str(request.cgroup_root))
    return replace(request, roots=(*request.roots, *writable_here(layout, KubeletGroups(request.kubelet_groups))))


def rules_of(request: KeeperArguments) -> KnobRules:
    """The rules given by the arguments, which `check` has accepted."""
    known = {str(knob): knob for knob in Knob}
    return KnobRules(
        tuple(root.strip("/") for root in request.roots),
        never=(*groups_of_this_process(), *(group.strip("/") for group in request.never if group.strip("/"))),
        knobs=frozenset(known[name] for name in request.knobs) or frozenset(Knob),
        interfaces=frozenset(request.interfaces),
        classes=frozenset(request.resctrl_classes),
        raises_roots=request.raise_roots,
        gpus=frozenset(request.gpus),
        timeslices=request.gpu_timeslices,
        mig=request.gpu_mig,
        mps=request.mps is not None,
        freezes=request.freeze,
        longest_ttl_us=round(request.longest_ttl_s * 1e6),
    )


def _peers(request: KeeperArguments) -> Peers:
    group: int | None = None
    if request.socket_group:
        try:
            name = request.socket_group
            group = int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
        except KeyError:
            raise InvalidInput("--socket-group", name, "a group's name or number on this machine") from None
    return peers_of(request.allow_users, request.allow_groups, group)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signals in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signals, stop.set)
    return stop


def _notify_systemd(state: str) -> None:
    """The unit is of type notify: it is up once leftover leases are restored and the socket exists."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)
