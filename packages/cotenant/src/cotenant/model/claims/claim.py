"""A claim and what was allocated for it.

Source: Kubernetes API reference, resource.k8s.io/v1 ResourceClaim.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from cotenant.model.claims.devices import DeviceId
from cotenant.model.claims.requests import ClaimSpec, DeviceToleration
from cotenant.model.cluster.affinity import NodeSelector
from cotenant.model.identical_fields import identical
from cotenant.model.quantities import Quantity

NO_SHARE = ""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device of an allocation."""

    request: str
    id: DeviceId
    has_admin_access: bool = False
    share: str = NO_SHARE  # of a device that several claims may have
    consumed: tuple[tuple[str, Quantity], ...] = ()  # of its capacity
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    failure_conditions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedConfiguration:
    """Settings for the driver of allocated devices, from their class or from the claim."""

    is_from_class: bool
    body: str
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a claim was given. `nodes`: where it can be used; None = everywhere."""

    devices: tuple[AllocatedDevice, ...] = ()
    nodes: NodeSelector | None = None
    configurations: tuple[AllocatedConfiguration, ...] = ()
    at_s: float = nan  # Unix time

    def __eq__(self, other: object) -> bool:
        """Field by field; times that are not given (NaN) are equal."""
        return identical(self, other)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What the driver says of an allocated device: its conditions that are true, with what they say."""

    id: DeviceId
    true: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim as stored in the API server."""

    namespace: str
    name: str
    uid: str
    spec: ClaimSpec
    allocation: Allocation | None = None
    reserved_for: tuple[str, ...] = ()  # UIDs
    states: tuple[DeviceState, ...] = ()
    owner_uid: str = ""  # of the pod or PodGroup that it was made for
    is_for_extended: bool = False  # made by a scheduler for extended resources of its pod
    is_ending: bool = False  # its deletion was requested
    version: int = 0  # resourceVersion, as far as it is a number

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    def state_of(self, device: DeviceId) -> DeviceState | None:
        """What the driver says of one of its devices."""
        return next((state for state in self.states if state.id == device), None)
