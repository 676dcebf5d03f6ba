"""What claims request: devices of classes, with selectors, amounts of capacity, and constraints between devices.

Source: Kubernetes API reference, resource.k8s.io/v1 ResourceClaim and DeviceClass; KEP-4381, 4816, 5004, 5018, 5075.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.claims.devices import DeviceTaint
from cotenant.model.quantities import Quantity

MAX_DEVICES = 32  # in the allocation of one claim
MAX_CONSUMERS = 256  # of one claim
MAX_ALTERNATIVES = 8  # of one request
EXTENDED_PREFIX = "deviceclass.resource.kubernetes.io/"  # extended resource names that every class has


class AllocationMode(StrEnum):
    """How many devices a request is for."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """Lets a request have devices with taints. No effect means any; no key, with Exists, means any taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None  # until the pod is evicted, under NoExecute

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Whether the taint is of no account."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class ExactRequest:
    """A request for devices of one class; with `parent` one of the alternatives of a request."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()  # in CEL; all must hold
    mode: AllocationMode = AllocationMode.EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: tuple[tuple[str, Quantity], ...] = ()
    parent: str = ""

    @property
    def full_name(self) -> str:
        """As results and configurations refer to it."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One of a claim's requests: the first of these that can be satisfied."""

    name: str
    alternatives: tuple[ExactRequest, ...]
    is_list: bool = False  # a prioritised list, also with one alternative


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """All devices of these requests (of all, if none is named) have the same value of an attribute, or each another."""

    attribute: str  # with its domain
    is_distinct: bool = False
    requests: tuple[str, ...] = ()

    def covers(self, request: ExactRequest) -> bool:
        """Whether the constraint is about the devices of a request."""
        if not self.requests:
            return True
        return (request.parent or request.name) in self.requests or request.full_name in self.requests


@dataclass(frozen=True, slots=True)
class DeviceConfiguration:
    """Settings for a driver, handed on as they are. `body`: the JSON text of its fields."""

    body: str
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What a claim requests. Claims of equal specs are satisfied alike."""

    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    configurations: tuple[DeviceConfiguration, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Which devices a request for the class may have, and their settings."""

    name: str
    selectors: tuple[str, ...] = ()
    configurations: tuple[DeviceConfiguration, ...] = ()
    extended_resource: str = ""  # pods that request this resource get devices of the class
    created_s: float = 0.0
