"""Whose a GPU is, and whether anybody uses it.

Three sources say who holds one, from the nearest to the truth down: labels of the exporter, kubelet's list of what
device plugins gave, and the cgroups of its processes. The list alone knows of a GPU that is held without a process,
which is what idle-but-allocated is about.
Limits: a device plugin that shares GPUs by replicas (`UUID::3`, `nvidia0/vgpu3`) gives one GPU to several pods; each
holds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.model.devices.gpu_use import GpuHolder, GpuUse, IdleGpus, device_names, replicated, whole_or_instances

IDLE_BELOW_PERMILLE = 10


def attributed(
    uses: Sequence[GpuUse], given: Mapping[str, Sequence[GpuHolder]], pod_of_pid: Mapping[int, GpuHolder]
) -> list[GpuUse]:
    """With holders. `given`: by device id, as the device plugin names it (`device_names`)."""
    by_device: dict[str, list[GpuHolder]] = {}
    for device, holders in given.items():
        by_device.setdefault(replicated(device), []).extend(holders)
    found = []
    for use in uses:
        number = use.instance.rpartition("#")[2]
        names = device_names(use.index, use.uuid, use.bus, number, use.instance_uuid)
        listed = [holder for name in names for holder in by_device.get(name, ())]
        running = [pod_of_pid[process.pid] for process in use.processes if process.pid in pod_of_pid]
        found.append(replace(use, holders=_different((*use.holders, *listed, *running))))
    return found


def idle_gpus(uses: Sequence[GpuUse], below_permille: int = IDLE_BELOW_PERMILLE) -> IdleGpus:
    """Which of what is held is idle now."""
    held = [use for use in whole_or_instances(uses) if use.holders]
    idle = [use for use in held if use.active_permille is not None and use.active_permille < below_permille]
    return IdleGpus(
        len(held),
        len(idle),
        sum(use.active_permille is None for use in held),
        sum(use.memory_used_bytes or 0 for use in idle),
        tuple(sorted({holder.pod for use in idle for holder in use.holders})),
    )


def _different(holders: Sequence[GpuHolder]) -> tuple[GpuHolder, ...]:
    """Each pod once, the first word on its container."""
    by_pod: dict[str, GpuHolder] = {}
    for holder in holders:
        by_pod.setdefault(holder.pod, holder)
    return tuple(by_pod.values())
