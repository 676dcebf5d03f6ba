"""Devices of a node that are allocated in parts: GPUs, network cards, FPGAs.

Allocation depends on where a device is attached and whether it is healthy, and every kind is described differently. One
value per device, of any kind; amounts by resource name (percent of the device, bytes), and its location as the ids of
its NUMA node, PCIe switch and link domain.
Limits: an unknown location is None, and such a device belongs to no group.

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
    """Device types; the values are those of the Device CRD."""

    GPU = "gpu"
    RDMA = "rdma"
    FPGA = "fpga"


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A virtual function of a network card."""

    index: int
    bus: str  # PCI address


@dataclass(frozen=True, slots=True)
class FunctionGroup:
    """Virtual functions with the same labels."""

    functions: tuple[VirtualFunction, ...]
    labels: Labels = NO_LABELS


@dataclass(frozen=True, slots=True)
class Device:
    """One device. `total` is its capacity while healthy; an unhealthy device is never allocated, whatever `total`
    says.
    """

    type: DeviceType
    minor: int
    total: Amounts = NOTHING
    healthy: bool = True
    numa: int | None = None
    pcie: str | None = None
    link: str | None = None  # link domain: devices with equal ones are connected directly, GPUs by NVLink
    id: str = ""  # UUID of a GPU, PCI address of a card
    labels: Labels = NO_LABELS
    function_groups: tuple[FunctionGroup, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.minor <= LARGEST_MINOR:
            raise InvalidInput(f"{self.type.value} minor", self.minor, f"0 to {LARGEST_MINOR}")
