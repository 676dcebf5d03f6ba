"""ResourceClaim, DeviceClass, ResourceSlice and DeviceTaintRule, as servers of Kubernetes 1.32 to 1.37 have them.

v1 and v1beta2 are alike. In v1beta1 a request has the fields of `exactly` itself, and a device those of `basic`: one
struct reads all of them.

Source: Kubernetes API reference, resource.k8s.io/v1, v1beta2, v1beta1.
"""

from __future__ import annotations

from msgspec import Raw, field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Strings, Text, Time
from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.drivers.kube.kinds.selectors import ApiNodeSelector

GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")  # newest first


class ClaimMeta(ApiStruct, frozen=True):
    """The metadata of a claim."""

    name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    annotations: Strings = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class CelSelector(ApiStruct, frozen=True):
    """An expression."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True):
    """One way to select devices; there is one so far."""

    cel: CelSelector | None = None


class ApiDeviceToleration(ApiStruct, frozen=True):
    """DeviceToleration."""

    key: Text = None
    operator: Text = None
    value: Text = None
    effect: Text = None
    toleration_seconds: int | None = None


class CapacityRequests(ApiStruct, frozen=True):
    """Amounts of a device's capacity."""

    requests: Quantities = None


class RequestedDevices(ApiStruct, frozen=True):
    """What `exactly` and each of `firstAvailable` say."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: Text = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: tuple[ApiDeviceToleration, ...] | None = None
    capacity: CapacityRequests | None = None


class ApiDeviceRequest(RequestedDevices, frozen=True):
    """A request."""

    exactly: RequestedDevices | None = None
    first_available: tuple[RequestedDevices, ...] | None = None


class ApiDeviceConstraint(ApiStruct, frozen=True):
    """What devices of a claim have in common, or not."""

    requests: tuple[str, ...] | None = None
    match_attribute: Text = None
    distinct_attribute: Text = None


class ApiDeviceConfiguration(ApiStruct, frozen=True):
    """Settings for a driver."""

    requests: tuple[str, ...] | None = None
    source: Text = None
    opaque: Raw = Raw()


class Devices(ApiStruct, frozen=True):
    """What a claim requests."""

    requests: tuple[ApiDeviceRequest, ...] | None = None
    constraints: tuple[ApiDeviceConstraint, ...] | None = None
    config: tuple[ApiDeviceConfiguration, ...] | None = None


class ApiClaimSpec(ApiStruct, frozen=True):
    """The spec of a claim."""

    devices: Devices | None = None


class ApiAllocatedDevice(ApiStruct, frozen=True):
    """One allocated device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: Text = field(default=None, name="shareID")
    consumed_capacity: Quantities = None
    tolerations: tuple[ApiDeviceToleration, ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None


class AllocatedDevices(ApiStruct, frozen=True):
    """The allocated devices and their settings."""

    results: tuple[ApiAllocatedDevice, ...] | None = None
    config: tuple[ApiDeviceConfiguration, ...] | None = None


class ApiAllocation(ApiStruct, frozen=True):
    """What a claim was given."""

    devices: AllocatedDevices | None = None
    node_selector: ApiNodeSelector | None = None
    allocation_timestamp: Time | None = None


class Consumer(ApiStruct, frozen=True):
    """Who may use a claim."""

    api_group: Text = None
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(ApiStruct, frozen=True):
    """A condition of an allocated device."""

    type: str = ""
    status: str = ""
    reason: Text = None
    message: Text = None


class DeviceStatus(ApiStruct, frozen=True):
    """What a driver says of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[DeviceCondition, ...] | None = None


class ClaimStatus(ApiStruct, frozen=True):
    """The status of a claim."""

    allocation: ApiAllocation | None = None
    reserved_for: tuple[Consumer, ...] | None = None
    devices: tuple[DeviceStatus, ...] | None = None


class ClaimObject(ApiStruct, frozen=True):
    """ResourceClaim."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ApiClaimSpec | None = None
    status: ClaimStatus | None = None


class ClassSpec(ApiStruct, frozen=True):
    """The spec of a class."""

    selectors: tuple[DeviceSelector, ...] | None = None
    config: tuple[ApiDeviceConfiguration, ...] | None = None
    extended_resource_name: Text = None


class ClassObject(ApiStruct, frozen=True):
    """DeviceClass."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ClassSpec | None = None


class Attribute(ApiStruct, frozen=True):
    """A value of one of four types, or a list of such values."""

    whole: int | None = field(default=None, name="int")
    truth: bool | None = field(default=None, name="bool")
    string: Text = None
    version: Text = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class ValidRange(ApiStruct, frozen=True):
    """A range of amounts."""

    min: str | int | float | None = None
    max: str | int | float | None = None
    step: str | int | float | None = None


class ApiRequestPolicy(ApiStruct, frozen=True):
    """CapacityRequestPolicy."""

    default: str | int | float | None = None
    valid_values: tuple[str | int | float, ...] | None = None
    valid_range: ValidRange | None = None


class ApiDeviceCapacity(ApiStruct, frozen=True):
    """DeviceCapacity."""

    value: str | int | float = "0"
    request_policy: ApiRequestPolicy | None = None


class ApiDeviceTaint(ApiStruct, frozen=True):
    """DeviceTaint."""

    key: str = ""
    value: Text = None
    effect: Text = None


class Counter(ApiStruct, frozen=True):
    """An amount."""

    value: str | int | float = "0"


class CounterConsumption(ApiStruct, frozen=True):
    """What a device takes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class DeviceParts(ApiStruct, frozen=True):
    """What a device has beside its name."""

    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, ApiDeviceCapacity] | None = None
    taints: tuple[ApiDeviceTaint, ...] | None = None
    consumes_counters: tuple[CounterConsumption, ...] | None = None
    node_name: Text = None
    all_nodes: bool | None = None
    node_selector: ApiNodeSelector | None = None
    allow_multiple_allocations: bool | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None


class ApiDevice(DeviceParts, frozen=True):
    """A device."""

    name: str = ""
    basic: DeviceParts | None = None


class SlicePool(ApiStruct, frozen=True):
    """The pool of a slice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SharedCounters(ApiStruct, frozen=True):
    """CounterSet."""

    name: str = ""
    counters: dict[str, Counter] | None = None


class SliceSpec(ApiStruct, frozen=True):
    """The spec of a slice."""

    driver: str = ""
    pool: SlicePool = SlicePool()
    node_name: Text = None
    all_nodes: bool | None = None
    node_selector: ApiNodeSelector | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[ApiDevice, ...] | None = None
    shared_counters: tuple[SharedCounters, ...] | None = None


class SliceObject(ApiStruct, frozen=True):
    """ResourceSlice."""

    metadata: ClaimMeta = ClaimMeta()
    spec: SliceSpec = SliceSpec()


class TaintSelector(ApiStruct, frozen=True):
    """Which devices a rule taints."""

    driver: Text = None
    pool: Text = None
    device: Text = None


class TaintRuleSpec(ApiStruct, frozen=True):
    """The spec of a rule."""

    device_selector: TaintSelector | None = None
    taint: ApiDeviceTaint = ApiDeviceTaint()


class TaintRuleObject(ApiStruct, frozen=True):
    """DeviceTaintRule."""

    metadata: ClaimMeta = ClaimMeta()
    spec: TaintRuleSpec = TaintRuleSpec()


def claims(version: str) -> Kind[ClaimObject]:
    """ResourceClaims of a version."""
    return Kind("ResourceClaim", GROUP, version, "resourceclaims", True, ClaimObject)


def device_classes(version: str) -> Kind[ClassObject]:
    """DeviceClasses of a version."""
    return Kind("DeviceClass", GROUP, version, "deviceclasses", False, ClassObject)


def slices(version: str) -> Kind[SliceObject]:
    """ResourceSlices of a version."""
    return Kind("ResourceSlice", GROUP, version, "resourceslices", False, SliceObject)


def taint_rules(version: str) -> Kind[TaintRuleObject]:
    """DeviceTaintRules of a version: they are not in v1 and v1beta1."""
    return Kind("DeviceTaintRule", GROUP, version, "devicetaintrules", False, TaintRuleObject)


CLAIMS = claims("v1")
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"  # annotation of claims made by schedulers
FINALIZER = "resource.kubernetes.io/delete-protection"
ADMIN_ACCESS = "resource.kubernetes.io/admin-access"  # label of namespaces
