"""Most that the zones of one host may have: zones, groups, and memory, vCPUs and disk of their machines together.

Who may create zones may ask for machines, and the host's administrator says how much of the host they are: options of
the keeper. A machine counts with what its file asks for, whatever it uses, so that one that was created can have it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.services.zones.definition import ZoneDefinition


@dataclass(frozen=True, slots=True)
class ZoneQuota:
    """Most zones, most groups listed by all of them, and most memory, vCPUs and unpacked images of all their virtual
    machines.
    """

    zones: int = 8
    groups: int = 512
    memory_mib: int = 4096
    vcpus: int = 16
    disk_mib: int = 8192


@dataclass(frozen=True, slots=True)
class MachineSums:
    """What machines ask for together. Without pods a machine takes no disk."""

    memory_mib: int = 0
    vcpus: int = 0
    disk_mib: int = 0


def machine_sums(zones: Iterable[ZoneDefinition]) -> MachineSums:
    """Of the machines of these zones."""
    machines = [(zone.vm, bool(zone.pods)) for zone in zones if zone.vm is not None]
    return MachineSums(
        sum(vm.memory_mib for vm, _ in machines),
        sum(vm.cpus for vm, _ in machines),
        sum(vm.disk_mib for vm, unpacks in machines if unpacks),
    )


def check_machine(wanted: ZoneDefinition, running: Iterable[ZoneDefinition], quota: ZoneQuota) -> None:
    """Refuse a machine beyond the quota, or in a group whose limit of CPU time is another machine's. Raises
    `InvalidInput`.
    """
    others = list(running)
    used, own = machine_sums(others), machine_sums([wanted])
    for field, asked, before, most, unit, option in (
        ("vm.memory_mib", own.memory_mib, used.memory_mib, quota.memory_mib, "MiB", "--max-zone-memory-mib"),
        ("vm.cpus", own.vcpus, used.vcpus, quota.vcpus, "vCPUs", "--max-zone-vcpus"),
        ("vm.disk_mib", own.disk_mib, used.disk_mib, quota.disk_mib, "MiB of images", "--max-zone-disk-mib"),
    ):
        if before + asked > most:
            hint = f"{before} are used: ask for less, destroy a zone, or have the keeper started with a larger {option}"
            raise InvalidInput(field, asked, f"at most {most} {unit} in all zones", hint)
    for other in others:
        machines = [zone.vm for zone in (wanted, other) if zone.vm is not None and zone.vm.group]
        shared = len(machines) == 2 and machines[0].group == machines[1].group
        if shared and any(vm.cpu_milli for vm in machines):
            hint = f"the machine of zone {other.zone} is in it, and a limit is of all that is in a group"
            raise InvalidInput("vm.group", machines[0].group, "a group of its own where a machine has cpu_milli", hint)


def quota_shown(
    running: Iterable[ZoneDefinition],
    quota: ZoneQuota,
    env: Mapping[str, str] = os.environ,
    kept_back_bytes: int | None = None,
) -> JsonObject:
    """What machines ask for together, and the most, for the state of a zone. `inPod`: this process, with its machines,
    is in a pod, whose requests Kubernetes counts (its kubelet sets the variable in each). `kept_back_bytes`: memory
    that the node keeps back from pods, as its agent told; None: it told nothing.
    """
    used = machine_sums(running)
    return {
        "memoryMib": [used.memory_mib, quota.memory_mib],
        "vcpus": [used.vcpus, quota.vcpus],
        "diskMib": [used.disk_mib, quota.disk_mib],
        "inPod": "KUBERNETES_SERVICE_HOST" in env,
        **({} if kept_back_bytes is None else {"keptBackMib": kept_back_bytes >> 20}),
    }
