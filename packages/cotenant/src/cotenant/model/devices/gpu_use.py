"""How much of a GPU is really used, whoever measured it: DCGM's exporter, nvidia-smi, amd-smi.

The usual utilisation says that some kernel ran, on however few of the multiprocessors, so it is apart from what the
multiprocessors, the tensor units and the memory did. Shares are integers in thousandths. None: this source does not
say, which is not 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

_GKE_REPLICA = re.compile(r"/vgpu[0-9]+\Z")
_COMPUTE_INSTANCES = 8  # of a GPU instance, at most


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU."""

    pid: int
    memory_bytes: int | None = None
    mps: bool = False  # a client of the Multi-Process Service: it shares the GPU's time
    sm_permille: int | None = None  # its part of the multiprocessors, and of the memory's bandwidth
    memory_permille: int | None = None


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """The container that a GPU was given to."""

    pod: str  # namespace/name, or a UID where the name is not known
    container: str = ""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """One GPU, or one MIG instance of it, now. Bytes a second are as the source's last period has them."""

    source: str
    index: int
    uuid: str = ""
    name: str = ""
    bus: str = ""  # PCI address, as the kernel writes it
    instance: str = ""  # of MIG, PROFILE#NUMBER; empty: the whole GPU
    instance_uuid: str = ""  # by which a device plugin names it, where the source knows
    busy_permille: int | None = None  # time in which any kernel ran
    sm_active_permille: int | None = None  # multiprocessors with a warp, averaged over all
    tensor_active_permille: int | None = None
    memory_active_permille: int | None = None  # of its memory's bandwidth
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    pcie_sent_bytes_per_s: int | None = None
    pcie_received_bytes_per_s: int | None = None
    nvlink_sent_bytes_per_s: int | None = None
    nvlink_received_bytes_per_s: int | None = None
    power_mw: int | None = None
    sm_clock_mhz: int | None = None
    throttled_by: tuple[str, ...] = ()  # other than idleness and clocks that were asked for
    xid: int | None = None  # the last error; 0: none
    processes: tuple[GpuProcess, ...] = ()
    holders: tuple[GpuHolder, ...] = ()

    @property
    def active_permille(self) -> int | None:
        """How active it is by the best that the source says: multiprocessors, else any kernel."""
        return self.busy_permille if self.sm_active_permille is None else self.sm_active_permille


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """GPUs that somebody holds, and how many of them nobody uses."""

    allocated: int
    idle: int
    unknown: int  # allocated, and the source does not say how active
    idle_memory_bytes: int  # held on the idle ones
    idle_holders: tuple[str, ...]  # pods, by name


def joined(uses: Iterable[GpuUse]) -> list[GpuUse]:
    """Each GPU and instance once, though several sources tell of it: what the first does not say the next may. Of one
    without a UUID nobody knows that another is the same.
    """
    found: dict[tuple[str, str, int], GpuUse] = {}
    told: set[tuple[str, str, str]] = set()
    for place, use in enumerate(uses):
        uuid, number = use.uuid.lower(), use.instance.rpartition("#")[2]
        is_second = (use.source, uuid, number) in told  # such as of two compute instances of one GPU instance
        told.add((use.source, uuid, number))
        key = uuid, number, place if is_second or not uuid else -1
        first = found.get(key)
        if first is not None:
            lacking = (one.name for one in fields(GpuUse) if getattr(first, one.name) in (None, "", (), -1))
            use = replace(first, **{name: getattr(use, name) for name in lacking})
        found[key] = use
    return list(found.values())


def whole_or_instances(uses: Sequence[GpuUse]) -> list[GpuUse]:
    """What can be held: the instances of a GPU that is divided, else the GPU."""
    divided = {_card(use) for use in uses if use.instance}
    return [use for use in uses if use.instance or _card(use) not in divided]


def _card(use: GpuUse) -> tuple[str, int]:
    return (use.uuid, -1) if use.uuid else (use.source, use.index)


def replicated(device: str) -> str:
    """The device of which a device plugin gave a replica: NVIDIA's names them DEVICE::3, GKE's DEVICE/vgpu3."""
    return _GKE_REPLICA.sub("", device.partition("::")[0])


def device_names(index: int, uuid: str, bus: str, instance: str = "", instance_uuid: str = "") -> tuple[str, ...]:
    """What device plugins call a GPU: NVIDIA's by UUID or index, AMD's by PCI address; a MIG instance (`instance`: its
    number) by its own UUID, of old drivers by that of the GPU and both numbers, and GKE's by index and number.
    """
    if instance:
        old = tuple(f"MIG-{uuid}/{instance}/{compute}" for compute in range(_COMPUTE_INSTANCES)) if uuid else ()
        names = (instance_uuid, f"nvidia{index}/gi{instance}", *old)
    else:
        names = (uuid, str(index), bus, f"nvidia{index}")
    return tuple(name for name in names if name)
