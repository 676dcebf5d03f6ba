"""The commands of `cotenant vm` as functions: a verb is told, and the machine watched until it has come about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.openstack.compute import Compute
from cotenant.engine.vms.verbs import is_done, why_failed, why_not
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb
from cotenant.services.vms.kubevirt import MANAGER, KubeVirt
from cotenant.services.vms.openstack import OpenStack
from cotenant.services.vms.platform import Platform

Say = Callable[[str], None]
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class MachineLocation:
    """A cluster and a namespace, empty = the kubeconfig's; or a cloud of clouds.yaml."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    cloud: str = ""


@dataclass(frozen=True, slots=True)
class VerbOutcome:
    """What became of a verb. `failure`: empty where it has come about, or is not waited for."""

    machine: Machine
    failure: str = ""


async def change(
    platform: Platform,
    verb: MachineVerb,
    name: str,
    to: MachineSize,
    timeout_s: float,
    say: Say,
    look_s: float = _LOOK_S,
) -> VerbOutcome:
    """Tell a machine a verb; `timeout_s` 0 = do not wait. Raises `InvalidInput`, `Permanent` with the reason."""
    before = await platform.machine(name)
    if verb is MachineVerb.RESIZE:
        _check_size(before, to)
    why = why_not(verb, before)
    if why:
        raise Permanent(f"{before.key}: {why}")
    await platform.tell(verb, before, to)
    if not timeout_s:
        return VerbOutcome(before)
    until = time.monotonic() + timeout_s
    told, has_moved = "", False
    while True:
        now = await platform.machine(name)
        if is_done(verb, before, now):
            if verb is MachineVerb.RESIZE and now.pending:
                await platform.confirm(now)
            return VerbOutcome(now)
        shown = f"{now.key} is {now.state.value}" + (f": {now.why}" if now.why else "")
        if shown != told:
            say(shown)
            told = shown
        failure = await platform.failure() or why_failed(verb, before, now, has_moved)
        if failure:
            return VerbOutcome(now, failure)
        has_moved = has_moved or now.state is MachineState.MIGRATING
        if time.monotonic() >= until:
            return VerbOutcome(now, f"after {timeout_s:g} s {shown}")
        await asyncio.sleep(look_s)


@asynccontextmanager
async def connected(where: MachineLocation) -> AsyncIterator[Platform]:
    """The platform that is meant. Raises `InvalidInput` where both are."""
    if where.cloud:
        if where.kubeconfig or where.context or where.namespace:
            raise InvalidInput("--cloud", where.cloud, "a cloud or a cluster", "the other options are a cluster's")
        yield OpenStack(Compute(where.cloud))
        return
    access = load_access(where.kubeconfig, where.context)
    async with Client(access, qps=float("inf"), burst=10, in_flight=4, user_agent=MANAGER) as client:
        yield KubeVirt(client, where.namespace or access.namespace or "default")


def _check_size(machine: Machine, to: MachineSize) -> None:
    if not (to.vcpus or to.memory_mib or to.flavor):
        raise InvalidInput("size", "none", "a flavor, or vCPUs, memory or both")
    if to.flavor and (to.vcpus or to.memory_mib):
        raise InvalidInput("flavor", to.flavor, "a name or numbers, not both")
    same = (
        to.flavor == machine.size.flavor
        if to.flavor
        else (
            (to.vcpus or machine.size.vcpus, to.memory_mib or machine.size.memory_mib)
            == (machine.size.vcpus, machine.size.memory_mib)
        )
    )
    if same:
        raise InvalidInput("NAME", machine.name, "another size than it has")
