"""The answer to `/v1/zones`: zones that run on this node, what their services feel, and both sides of their machines.

The process that runs zones is privileged and serves no pages; what it knows is in its state files, as for metrics. The
console asks each node for what changes too often for an object's status.
Limits: as old as a zone's period; what an older keeper does not write is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from cotenant.model.json_object import JsonObject
from cotenant.services.zones.state_file import read_states


class FrontFigures(msgspec.Struct, frozen=True):
    """The guest's side, as of engine/zones/vm_figures.py."""

    runnable: int | None = None
    wait_ms: float | None = None
    softirq_cpus: float | None = None
    steal_cpus: float | None = None
    cpu_pressure: float | None = None
    memory_pressure: float | None = None
    io_pressure: float | None = None


class BackFigures(msgspec.Struct, frozen=True):
    """The host's side, as of there."""

    vcpu_cpus: float | None = None
    stolen: float | None = None
    device_cpus: float | None = None
    share_cpus: float | None = None
    vhost_cpus: float | None = None
    exits_per_s: float | None = None
    kicks_per_s: float | None = None
    notifications_per_s: float | None = None
    kicks_per_notification: float | None = None


class MachineLimits(msgspec.Struct, frozen=True):
    """What a zone's machine may have, and what its images take. `cpu_milli` 0: no limit."""

    memory_mib: int = 0
    vcpus: int = 0
    cpu_milli: int = 0
    disk_mib: int = 0
    disk_bytes: int = 0


class ZoneFigures(msgspec.Struct, frozen=True):
    """A zone: its last reading, and its machine where it has one."""

    zone: str
    state: str
    setting: str
    late_per_s: float | None = None
    burn: float | None = None
    stall: float | None = None
    batch_cpus: float | None = None
    machine: MachineLimits | None = None
    front: FrontFigures | None = None
    back: BackFigures | None = None


class MachinesTogether(msgspec.Struct, frozen=True):
    """All machines of the node's keeper: what they ask for, and the most."""

    memory_mib: int
    max_memory_mib: int
    vcpus: int
    max_vcpus: int
    disk_mib: int
    max_disk_mib: int


class ZonesPage(msgspec.Struct, frozen=True):
    """`/v1/zones`. `machines`: null where no zone has one."""

    node: str
    zones: tuple[ZoneFigures, ...]
    machines: MachinesTogether | None = None


T = TypeVar("T", bound=msgspec.Struct)


def zones_page(node: str, folder: Path) -> ZonesPage:
    """The page. `folder`: of the states."""
    states = [state for state in read_states(folder) if state["running"]]
    newest = max((state for state in states if "machines" in state), key=_written, default=None)
    return ZonesPage(node, tuple(map(_zone, states)), None if newest is None else _together(newest["machines"]))


def _written(state: JsonObject) -> float:
    return float(state.get("writtenAt") or 0.0)


def _zone(state: JsonObject) -> ZoneFigures:
    reading, monitors, vm = state.get("reading") or {}, state.get("monitors") or {}, state.get("vm")
    machine = None
    if vm is not None:
        machine = MachineLimits(
            vm.get("memoryMib", 0),
            vm.get("cpus", 0),
            vm.get("cpuMilli", 0),
            vm.get("diskMib", 0),
            vm.get("diskBytes", 0),
        )
    return ZoneFigures(
        zone=state["zone"],
        state=str(state.get("state")),
        setting=str(state.get("setting")),
        late_per_s=reading.get("latePerS"),
        burn=reading.get("burn"),
        stall=reading.get("stall"),
        batch_cpus=reading.get("batchCpus"),
        machine=machine,
        front=_of(FrontFigures, monitors.get("frontEnd")),
        back=_of(BackFigures, monitors.get("backEnd")),
    )


def _of(form: type[T], figures: Mapping[str, object] | None) -> T | None:
    if figures is None:
        return None
    return form(**{name: figures.get(name) for name in form.__struct_fields__})


def _together(machines: JsonObject) -> MachinesTogether:
    return MachinesTogether(*machines["memoryMib"], *machines["vcpus"], *machines["diskMib"])
