"""Limits of containers, each a lease of the keeper's:

It ends by itself, and what stood before is restored, whoever asked and whether they still live.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.proc.host import HostReader
from cotenant.engine.node.interfaces import Keeper
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.limits import io_value, shown_limit, wanted_limits
from cotenant.model.fleet.requests import Limit, Limited
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Beat
from cotenant.services.fleet.functions.group_paths import group_paths
from cotenant.services.fleet.functions.keeper_here import LONGEST_S, SOCKET, open_keeper
from cotenant.services.fleet.rpc import RpcVerb

_log = logging.getLogger(__name__)
_READ_AGAIN_S = 2.0  # how often what stands is read for the heartbeat
_CAUSE = "fleet limit"
_DEVICES = Path("/sys/class/block")


class LimitFunction:
    """Implements `Function`."""

    name = "limits"

    def __init__(self, containers: ContainerFunction, state_dir: Path, cgroup_root: Path | None = None) -> None:
        self._containers = containers
        self._state_dir = state_dir / "keeper"
        self._cgroup_root = cgroup_root
        self._root = None if cgroup_root is None else str(cgroup_root)
        self._socket = SOCKET
        self._keeper: Keeper | None = None
        self._opened = AsyncExitStack()
        self._groups: dict[str, str] = {}  # container -> group
        self._held: dict[str, tuple[str, ...]] = {}  # group -> limits, for the heartbeat
        self._reading: asyncio.Task[None] | None = None
        self.fault = ""
        self.verbs: Mapping[str, RpcVerb] = {"limit": RpcVerb(Limit, self._limit)}

    def configure(self, configuration: AgentConfiguration) -> None:
        """As the Protocol."""
        self._socket = Path(configuration.keeper) if configuration.keeper else SOCKET

    async def start(self) -> None:
        """As the Protocol."""
        try:
            self._keeper = await self._opened.enter_async_context(
                open_keeper(self._socket, self._state_dir, self._cgroup_root)
            )
        except CotenantError as error:
            self.fault = str(error)
            raise
        except OSError as error:
            self.fault = f"no keeper: {error}"
            raise Unsupported("limits", f"a keeper, or the right to write cgroups: {error}") from error
        self.fault = ""
        self._reading = asyncio.create_task(self._read(), name="limits")

    async def stop(self) -> None:
        """As the Protocol. A keeper in this process gives all knobs back."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._keeper, self._reading = None, None
        await self._opened.aclose()

    async def add_to(self, beat: Beat) -> None:
        """As the Protocol."""
        for guid, group in self._groups.items():
            held = self._held.get(group)
            if held and guid in beat.containers:
                beat.containers[guid] = replace(beat.containers[guid], limits=held)

    async def experiment(self, request: Limit, _: BusMessage) -> Limited:
        """Delay and loss: of the function `experiments`."""
        return await self._hold(request, experiments=True)

    async def _limit(self, request: Limit, _: BusMessage) -> Limited:
        return await self._hold(request)

    async def _hold(self, request: Limit, experiments: bool = False) -> Limited:
        keeper = self._keeper
        if keeper is None:
            raise Transient(self.fault or "the keeper is not ready yet")
        if not 1 <= request.lasts_s <= LONGEST_S:
            raise InvalidInput("for", f"{request.lasts_s:g} s", f"1 second to {LONGEST_S / 3600:g} hours")
        group = await self._group_of(request.guid)
        reason = Reason(_CAUSE, f"{request.guid} for {request.lasts_s:g} s")
        held = {
            Knob(lease.target.knob): lease
            for lease in await keeper.leases()
            if lease.target.group == group and lease.state is LeaseState.HELD
        }
        values: dict[Knob, str] = {}
        given_back = [*held] if request.lift else []
        if request.limits:
            wanted = wanted_limits(request.limits, experiments)
            values, given_back = dict(wanted.values), [*given_back, *wanted.given_back]
            if wanted.io:
                before = held[Knob.IO_MAX].value if Knob.IO_MAX in held and not request.lift else ""
                io = io_value(before, wanted.io, _disks(), _device_number)
                if io:
                    values[Knob.IO_MAX] = io
                if not io or any(wish.amount is None for wish in wanted.io):
                    given_back.append(Knob.IO_MAX)  # a device or limit that the new value does not name stays otherwise
        if given_back:
            back = [GiveBack(KnobTarget(group, knob), reason) for knob in dict.fromkeys(given_back) if knob in held]
            if back:
                await keeper.give_back(back)
        if values:
            ttl_us = int(request.lasts_s * 1e6)
            asked = [SetKnob(KnobTarget(group, knob), value, reason, ttl_us) for knob, value in values.items()]
            for answer in await keeper.hold(asked):
                if answer.state is not LeaseState.HELD:
                    raise Permanent(f"{answer.target} is {answer.state}: {answer.detail or 'no reason given'}")
        leases = await self._leases(keeper)
        return Limited(leases.get(group, ()))

    async def _group_of(self, guid: str) -> str:
        container = await self._containers.process_of(guid)
        group = group_paths(detect(self._root), {guid: container.id}).get(guid)
        if group is None:
            raise Permanent(
                f"the cgroup of container {container.id[:12]} is not visible here; the agent needs the host's"
            )
        return group

    async def _leases(self, keeper: Keeper) -> dict[str, tuple[str, ...]]:
        now_us = time.monotonic_ns() // 1000
        found: dict[str, tuple[str, ...]] = {}
        for lease in await keeper.leases():
            if lease.state is LeaseState.HELD:
                found[lease.target.group] = (*found.get(lease.target.group, ()), _shown(lease, now_us))
        self._held = found
        return found

    async def _read(self) -> None:
        while self._keeper is not None:
            self._groups = group_paths(detect(self._root), self._containers.ids())
            try:
                await self._leases(self._keeper)
                self.fault = ""
            except CotenantError as error:
                self.fault = str(error)
            await asyncio.sleep(_READ_AGAIN_S)


def _shown(lease: KnobLease, now_us: int) -> str:
    left_s = max(0, (lease.expires_at_us - now_us) // 1_000_000)
    knob = Knob(lease.target.knob)
    value = lease.value if knob is Knob.IO_MAX else lease.stands or lease.value
    return f"{shown_limit(knob, value)} for {left_s // 60}m{left_s % 60:02d}s"


def _disks() -> tuple[str, ...]:
    """Whole disks that this host has used."""
    host = HostReader()
    try:
        return host.read().disks
    finally:
        host.close()


def _device_number(name: str) -> str:
    """MAJOR:MINOR of a disk's name, or itself."""
    if name.replace(":", "").isdecimal() and ":" in name:
        return name
    if "/" in name or name.startswith("."):
        raise InvalidInput("limits", f"@{name}", "a disk's name as vda, or MAJOR:MINOR")
    try:
        return (_DEVICES / name / "dev").read_text().strip()
    except OSError as error:
        raise InvalidInput("limits", f"@{name}", "a disk of this host") from error
