"""Devices of a node that are given out in parts: GPUs, network cards, FPGAs.

Problem: who may have which part of which device depends on where it sits and whether it works, and every kind is described otherwise. Choice:
one value a device, whatever its kind; amounts by resource name (percent of the device, bytes), and its place as the ids of the NUMA node, the
PCIe switch and the link domain it belongs to. Limits: a place that is not known is None, and such a device belongs to no group.

Source of the kinds and names: Koordinator, Device CRD (apis/scheduling/v1alpha1/device_types.go).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import NOTHING, Amounts

LARGEST_MINOR = 1023


class DeviceType(StrEnum):
    """The kinds; the values are those of the Device CRD."""

    GPU = "gpu"
    RDMA = "rdma"
    FPGA = "fpga"


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """One part of a network card that looks like a card of its own."""

    index: int
    bus: str  # PCI address


@dataclass(frozen=True, slots=True)
class FunctionGroup:
    """Virtual functions that share labels."""

    functions: tuple[VirtualFunction, ...]
    labels: Labels = NO_LABELS


@dataclass(frozen=True, slots=True)
class Device:
    """One device. `total` is what a healthy one offers; an unhealthy one is given to nobody, whatever `total` says."""

    type: DeviceType
    minor: int
    total: Amounts = NOTHING
    healthy: bool = True
    numa: int | None = None
    pcie: str | None = None
    link: str | None = None  # devices with the same link domain reach one another directly, for GPUs by NVLink
    id: str = ""  # UUID of a GPU, PCI address of a card
    labels: Labels = NO_LABELS
    function_groups: tuple[FunctionGroup, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.minor <= LARGEST_MINOR:
            raise InvalidInput(f"{self.type.value} minor", self.minor, f"0 to {LARGEST_MINOR}")
