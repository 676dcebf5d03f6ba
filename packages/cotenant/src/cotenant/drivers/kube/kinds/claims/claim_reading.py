"""Claims, classes, slices and taint rules as the model's values.

What cannot be read raises `InvalidInput`: a slice that cannot be read offers nothing, a claim that cannot be read keeps
its pod waiting. An unknown kind of selector, constraint or mode is one of a later version, and refused.
"""

from __future__ import annotations

from math import nan

from cotenant.drivers.kube.kinds.claims import schema
from cotenant.drivers.kube.kinds.claims.schema import EXTENDED_CLAIM
from cotenant.drivers.kube.kinds.kind import Quantities
from cotenant.drivers.kube.kinds.selectors import ApiNodeSelector, one_of, read_node_selector
from cotenant.model.claims.claim import (
    NO_SHARE,
    AllocatedConfiguration,
    AllocatedDevice,
    Allocation,
    DeviceState,
    ResourceClaim,
)
from cotenant.model.claims.devices import (
    AttributeValue,
    AttributeValues,
    CounterSet,
    CounterUse,
    DeviceCapacity,
    DeviceId,
    DeviceTaint,
    OfferedDevice,
    Reach,
    RequestPolicy,
    ResourceSlice,
    TaintRule,
    Version,
)
from cotenant.model.claims.requests import (
    AllocationMode,
    ClaimRequest,
    ClaimSpec,
    DeviceClass,
    DeviceConfiguration,
    DeviceConstraint,
    DeviceToleration,
    ExactRequest,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import Quantity, parse_quantity

_OWNERS = ("Pod", "PodGroup")


def read_claim(obj: schema.ClaimObject) -> ResourceClaim:
    """A claim."""
    meta, status = obj.metadata, obj.status or schema.ClaimStatus()
    owner = next(
        (owner.uid for owner in meta.owner_references or () if owner.kind in _OWNERS and owner.controller is not False),
        "",
    )
    return ResourceClaim(
        namespace=meta.namespace or "default",
        name=meta.name or "?",
        uid=meta.uid or "",
        spec=read_spec((obj.spec or schema.ApiClaimSpec()).devices or schema.Devices()),
        allocation=_allocation(status.allocation) if status.allocation is not None else None,
        reserved_for=tuple(consumer.uid for consumer in status.reserved_for or ()),
        states=tuple(_state(device) for device in status.devices or ()),
        owner_uid=owner,
        is_for_extended=(meta.annotations or {}).get(EXTENDED_CLAIM) == "true",
        is_ending=meta.deletion_timestamp is not None,
        version=int(version) if (version := meta.resource_version or "").isdecimal() else 0,
    )


def read_spec(devices: schema.Devices) -> ClaimSpec:
    """What a claim requests."""
    return ClaimSpec(
        tuple(_request(request, f"spec.devices.requests[{i}]") for i, request in enumerate(devices.requests or ())),
        tuple(
            _constraint(found, f"spec.devices.constraints[{i}]") for i, found in enumerate(devices.constraints or ())
        ),
        _configurations(devices.config or ()),
    )


def read_class(obj: schema.ClassObject) -> DeviceClass:
    """A class."""
    spec, created = obj.spec or schema.ClassSpec(), obj.metadata.creation_timestamp
    return DeviceClass(
        obj.metadata.name or "?",
        _selectors(spec.selectors or (), "spec.selectors"),
        _configurations(spec.config or ()),
        spec.extended_resource_name or "",
        created.timestamp() if created is not None else 0.0,
    )


def read_slice(obj: schema.SliceObject) -> ResourceSlice:
    """A slice."""
    spec = obj.spec
    return ResourceSlice(
        name=obj.metadata.name or "?",
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
        reach=None
        if spec.per_device_node_selection
        else _reach(spec.node_name, spec.all_nodes, spec.node_selector, "spec.nodeSelector"),
        devices=tuple(
            _device(device, bool(spec.per_device_node_selection), f"spec.devices[{i}]")
            for i, device in enumerate(spec.devices or ())
        ),
        counters=tuple(CounterSet(found.name, _counters(found.counters)) for found in spec.shared_counters or ()),
    )


def read_taint_rule(obj: schema.TaintRuleObject) -> TaintRule:
    """A taint rule."""
    selector = obj.spec.device_selector
    chosen = selector or schema.TaintSelector()
    return TaintRule(
        obj.metadata.name or "?",
        _taint(obj.spec.taint),
        chosen.driver or "",
        chosen.pool or "",
        chosen.device or "",
        selector is not None,
    )


# ---- requests


def _request(written: schema.ApiDeviceRequest, field: str) -> ClaimRequest:
    if written.first_available:
        alternatives = tuple(
            _exact(found, found.name, f"{field}.firstAvailable[{i}]", written.name)
            for i, found in enumerate(written.first_available)
        )
        return ClaimRequest(written.name, alternatives, is_list=True)
    exactly = written.exactly or (written if written.device_class_name else None)
    if exactly is None:
        raise InvalidInput(field, written.name, "exactly or firstAvailable", "this version knows no other requests")
    return ClaimRequest(written.name, (_exact(exactly, written.name, field),))


def _exact(written: schema.RequestedDevices, name: str, field: str, parent: str = "") -> ExactRequest:
    mode = one_of(AllocationMode, written.allocation_mode or "ExactCount", f"{field}.allocationMode")
    count = 1 if written.count is None or mode is AllocationMode.ALL else written.count
    if count < 1:
        raise InvalidInput(f"{field}.count", count, "at least 1")
    return ExactRequest(
        name,
        written.device_class_name,
        _selectors(written.selectors or (), f"{field}.selectors"),
        mode,
        count,
        bool(written.admin_access),
        tuple(map(_toleration, written.tolerations or ())),
        _amounts(written.capacity.requests, f"{field}.capacity.requests") if written.capacity is not None else (),
        parent,
    )


def _selectors(written: tuple[schema.DeviceSelector, ...], field: str) -> tuple[str, ...]:
    found = []
    for position, selector in enumerate(written):
        if selector.cel is None:
            raise InvalidInput(f"{field}[{position}]", "", "cel", "this version knows no other selectors")
        found.append(selector.cel.expression)
    return tuple(found)


def _toleration(written: schema.ApiDeviceToleration) -> DeviceToleration:
    return DeviceToleration(
        written.key or "",
        written.operator or "Equal",
        written.value or "",
        written.effect or "",
        written.toleration_seconds,
    )


def _amounts(written: Quantities, field: str) -> tuple[tuple[str, Quantity], ...]:
    return tuple((name, parse_quantity(text, f"{field}[{name}]")) for name, text in sorted((written or {}).items()))


def _constraint(written: schema.ApiDeviceConstraint, field: str) -> DeviceConstraint:
    attribute = written.match_attribute or written.distinct_attribute
    if not attribute:
        raise InvalidInput(field, "", "matchAttribute or distinctAttribute", "this version knows no other constraints")
    return DeviceConstraint(attribute, not written.match_attribute, written.requests or ())


def _configurations(written: tuple[schema.ApiDeviceConfiguration, ...]) -> tuple[DeviceConfiguration, ...]:
    return tuple(DeviceConfiguration(_body(found), found.requests or ()) for found in written)


def _body(written: schema.ApiDeviceConfiguration) -> str:
    opaque = bytes(written.opaque).decode()
    return f'{{"opaque":{opaque}}}' if opaque else "{}"


# ---- allocations


def _allocation(written: schema.ApiAllocation) -> Allocation:
    devices, at = written.devices or schema.AllocatedDevices(), written.allocation_timestamp
    nodes = written.node_selector
    return Allocation(
        tuple(_allocated(device) for device in devices.results or ()),
        read_node_selector(nodes, "status.allocation.nodeSelector") if nodes is not None else None,
        tuple(
            AllocatedConfiguration(found.source == "FromClass", _body(found), found.requests or ())
            for found in devices.config or ()
        ),
        at.timestamp() if at is not None else nan,
    )


def _allocated(written: schema.ApiAllocatedDevice) -> AllocatedDevice:
    return AllocatedDevice(
        written.request,
        DeviceId(written.driver, written.pool, written.device),
        bool(written.admin_access),
        written.share_id or NO_SHARE,
        _amounts(written.consumed_capacity, "status.allocation.devices.results.consumedCapacity"),
        tuple(map(_toleration, written.tolerations or ())),
        written.binding_conditions or (),
        written.binding_failure_conditions or (),
    )


def _state(written: schema.DeviceStatus) -> DeviceState:
    true = tuple(
        (found.type, found.message or found.reason or "")
        for found in written.conditions or ()
        if found.status == "True"
    )
    return DeviceState(DeviceId(written.driver, written.pool, written.device), true)


# ---- devices


def _device(written: schema.ApiDevice, has_own_reach: bool, field: str) -> OfferedDevice:
    parts: schema.DeviceParts = written.basic or written
    reach = _reach(parts.node_name, parts.all_nodes, parts.node_selector, f"{field}.nodeSelector")
    return OfferedDevice(
        name=written.name,
        attributes=tuple(
            (name, _value(value, f"{field}.attributes[{name}]"))
            for name, value in sorted((parts.attributes or {}).items())
        ),
        capacity=tuple(
            (name, _capacity(found, f"{field}.capacity[{name}]"))
            for name, found in sorted((parts.capacity or {}).items())
        ),
        taints=tuple(map(_taint, parts.taints or ())),
        uses=tuple(CounterUse(use.counter_set, _counters(use.counters)) for use in parts.consumes_counters or ()),
        reach=reach if has_own_reach else None,
        is_shared=bool(parts.allow_multiple_allocations),
        binds_to_node=bool(parts.binds_to_node),
        binding_conditions=parts.binding_conditions or (),
        failure_conditions=parts.binding_failure_conditions or (),
    )


def _value(written: schema.Attribute, field: str) -> AttributeValue:
    if written.string is not None:
        return written.string
    if written.whole is not None:
        return written.whole
    if written.truth is not None:
        return written.truth
    if written.version is not None:
        return Version(written.version)
    if written.ints is not None:
        return AttributeValues("int", written.ints)
    if written.bools is not None:
        return AttributeValues("bool", written.bools)
    if written.strings is not None:
        return AttributeValues("string", written.strings)
    if written.versions is not None:
        return AttributeValues("version", tuple(map(Version, written.versions)))
    raise InvalidInput(field, "", "int, bool, string, version, or a list of them", "this version knows no other values")


def _capacity(written: schema.ApiDeviceCapacity, field: str) -> DeviceCapacity:
    value, policy = parse_quantity(written.value, f"{field}.value"), written.request_policy
    if policy is None:
        return DeviceCapacity(value)
    found = policy.valid_range or schema.ValidRange()

    def amount(text: str | int | float | None, name: str) -> Quantity | None:
        return parse_quantity(text, f"{field}.requestPolicy.{name}") if text is not None else None

    return DeviceCapacity(
        value,
        RequestPolicy(
            amount(policy.default, "default"),
            tuple(parse_quantity(text, f"{field}.requestPolicy.validValues") for text in policy.valid_values or ()),
            amount(found.min, "validRange.min"),
            amount(found.max, "validRange.max"),
            amount(found.step, "validRange.step"),
        ),
    )


def _taint(written: schema.ApiDeviceTaint) -> DeviceTaint:
    return DeviceTaint(written.key, written.value or "", written.effect or "NoSchedule")


def _counters(written: dict[str, schema.Counter] | None) -> tuple[tuple[str, int], ...]:
    return tuple((name, parse_quantity(found.value, name).nano) for name, found in sorted((written or {}).items()))


def _reach(name: str | None, is_everywhere: bool | None, selector: ApiNodeSelector | None, field: str) -> Reach:
    return Reach(name or "", bool(is_everywhere), read_node_selector(selector, field) if selector is not None else None)
