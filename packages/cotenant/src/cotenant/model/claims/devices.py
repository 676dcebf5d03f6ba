"""What drivers offer: devices with attributes and capacity, in slices of pools.

A pool is what one driver manages in one place, often the devices of a node; its devices are spread over ResourceSlices,
of which those of the newest generation count. A device may consume counters that several devices share, as parts of one
GPU do, and may be given to several claims that share its capacity.

Source: Kubernetes API reference, resource.k8s.io/v1 ResourceSlice, v1beta2 DeviceTaintRule; KEP-4381, 4815, 5055, 5075,
5007.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.quantities import Quantity

PREVENTING = frozenset({"NoSchedule", "NoExecute"})  # effects of taints; others change nothing


class DeviceId(NamedTuple):
    """A device's name in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class PoolId(NamedTuple):
    """A pool's name in the cluster."""

    driver: str
    pool: str


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute that is a semantic version."""

    text: str


Scalar = bool | int | str | Version


@dataclass(frozen=True, slots=True)
class AttributeValues:
    """The value of an attribute that is a list; all are of one type. `type`: 1 and true are equal in Python."""

    type: str
    all: tuple[Scalar, ...]


AttributeValue = Scalar | AttributeValues


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """Which amounts of a shared device's capacity may be taken."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    min: Quantity | None = None  # of a range
    max: Quantity | None = None
    step: Quantity | None = None

    @property
    def is_range(self) -> bool:
        """Whether amounts are limited by a range rather than by a list."""
        return self.min is not None or self.max is not None or self.step is not None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """An amount that a device has of something."""

    value: Quantity
    policy: RequestPolicy | None = None


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """Keeps claims without a matching toleration away from a device."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class CounterUse:
    """What a device takes of a counter set of its pool, in nano units."""

    counter_set: str
    nano: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that devices of a pool share, in nano units."""

    name: str
    nano: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """From which nodes a device can be used: one node, all, or those of a selector. None of them is no node."""

    node: str = ""
    all: bool = False
    selector: NodeSelector | None = None


NOWHERE = Reach()


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """A device of a slice."""

    name: str
    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    capacity: tuple[tuple[str, DeviceCapacity], ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    uses: tuple[CounterUse, ...] = ()
    reach: Reach | None = None  # of a slice whose devices have each their own
    is_shared: bool = False  # several claims may have it at once, each an amount of its capacity
    binds_to_node: bool = False  # once allocated, it can be used on that node only
    binding_conditions: tuple[str, ...] = ()  # that must hold before a pod is bound
    failure_conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A ResourceSlice. `reach` None: each device has its own."""

    name: str
    driver: str
    pool: str
    generation: int
    slices: int  # of this generation in the pool
    reach: Reach | None
    devices: tuple[OfferedDevice, ...] = ()
    counters: tuple[CounterSet, ...] = ()

    @property
    def pool_id(self) -> PoolId:
        """The pool that it is a part of."""
        return PoolId(self.driver, self.pool)


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule: taints devices that it selects; a part that is empty selects all."""

    name: str
    taint: DeviceTaint
    driver: str = ""
    pool: str = ""
    device: str = ""
    selects: bool = True  # a rule without a selector is one that an administrator tries: it selects nothing

    def covers(self, driver: str, pool: str, device: str) -> bool:
        """Whether the rule taints this device."""
        return self.selects and self.driver in ("", driver) and self.pool in ("", pool) and self.device in ("", device)
