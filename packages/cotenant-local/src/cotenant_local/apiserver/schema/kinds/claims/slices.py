"""ResourceSlices: defaults and rules.

Driver, pool and node of a slice never change. Source: Kubernetes API reference resource.k8s.io/v1, KEP-4815 (shared
counters), KEP-5075 (consumable capacity), and what a server of 1.36 answers.
"""

from __future__ import annotations

import re
from typing import Any

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import capacities, names, taints
from cotenant_local.apiserver.schema.kinds.claims.allocations import check_binding
from cotenant_local.apiserver.schema.kinds.selectors import node_selector

_MAX_DEVICES, _MAX_ADVANCED_DEVICES = 128, 64
_MAX_COUNTER_SETS, _MAX_COUNTERS, _MAX_CONSUMED_SETS = 8, 32, 2
_MAX_ATTRIBUTES = 32
_MAX_VALUE = 64
_SCALARS = ("bool", "int", "string", "version")
_PART = r"(0|[1-9]\d*)"
_PRE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(rf"{_PART}\.{_PART}\.{_PART}(-{_PRE}(\.{_PRE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII)
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_PLACE_OF_A_DEVICE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)
_NO_PLACE_OF_A_DEVICE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)


def default_slice(obj: Manifest) -> None:
    """Set the defaults of a ResourceSlice."""
    for device in obj.get("spec", {}).get("devices", ()):
        for taint in device.get("taints", ()):
            taints.default_taint(taint)


def check_slice(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a ResourceSlice."""
    causes: list[FieldError] = []
    spec, pool = obj.get("spec", {}), obj.get("spec", {}).get("pool", {})
    names.driver(spec.get("driver", ""), "spec.driver", causes)
    names.pool(pool.get("name", ""), "spec.pool.name", causes)
    if pool.get("resourceSliceCount", 0) <= 0:
        causes.append(
            field_errors.invalid(
                "spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), "must be greater than zero"
            )
        )
    if pool.get("generation", 0) < 0:
        why = "must be greater than or equal to zero"
        causes.append(field_errors.invalid("spec.pool.generation", pool["generation"], why))
    if old is not None:
        before = old.get("spec", {})
        field_errors.immutable(pool.get("name"), before.get("pool", {}).get("name"), "spec.pool.name", causes)
        field_errors.immutable(spec.get("driver"), before.get("driver"), "spec.driver", causes)
        field_errors.immutable(spec.get("nodeName"), before.get("nodeName"), "spec.nodeName", causes)
    _check_place(spec, "spec", causes)
    if "sharedCounters" in spec and "devices" in spec:
        causes.append(field_errors.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices = spec.get("devices", ())
    limit = _MAX_ADVANCED_DEVICES if any(map(_is_advanced, devices)) else _MAX_DEVICES
    names.items(devices, limit, _device_check(spec), "spec.devices", causes, lambda one: one.get("name", ""))
    names.items(
        spec.get("sharedCounters", ()),
        _MAX_COUNTER_SETS,
        _check_counter_set,
        "spec.sharedCounters",
        causes,
        lambda one: one.get("name", ""),
    )
    return causes


def warnings_of(obj: Manifest) -> list[str]:
    """A driver's name that is not in lower case."""
    name = obj.get("spec", {}).get("driver", "")
    if name == name.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{name}" contains uppercase characters']


def _is_advanced(device: Manifest) -> bool:
    return bool(device.get("taints") or device.get("consumesCounters"))


def _check_place(spec: Manifest, field: str, causes: list[FieldError]) -> None:
    """Which nodes the slice's devices are for: one way to say it."""
    chosen = []
    for name in _PLACES:
        if name not in spec:
            continue
        value = spec[name]
        if name == "nodeName" and not value:
            causes.append(
                field_errors.invalid(f"{field}.nodeName", "", "must be either unset or set to a non-empty string")
            )
            continue
        if value is False:
            causes.append(field_errors.invalid(f"{field}.{name}", False, "must be either unset or set to true"))
            continue
        chosen.append(f"`{name}`")
        if name == "nodeName" and (why := field_errors.subdomain_problem(value)):
            causes.append(field_errors.invalid(f"{field}.nodeName", value, why))
        if name == "nodeSelector":
            _check_selector(value, f"{field}.nodeSelector", causes)
    if not chosen:
        causes.append(field_errors.required(field, _ONE_PLACE))
    elif len(chosen) > 1:
        listed = f"{{{', '.join(chosen)}}}"
        causes.append(field_errors.invalid(field, listed, f"{_ONE_PLACE}, but multiple fields are set"))


def _check_selector(selector: Manifest, field: str, causes: list[FieldError]) -> None:
    node_selector(selector, field, causes)
    terms = selector.get("nodeSelectorTerms") or []
    if len(terms) != 1:
        why = "must have exactly one node selector term"
        causes.append(field_errors.invalid(f"{field}.nodeSelectorTerms", terms, why))


def _device_check(spec: Manifest) -> Any:
    is_per_device = bool(spec.get("perDeviceNodeSelection"))

    def check(device: Manifest, field: str, causes: list[FieldError]) -> None:
        names.label(device.get("name", ""), f"{field}.name", causes)
        attributes, capacity = device.get("attributes", {}), device.get("capacity", {})
        count = len(attributes) + len(capacity)
        if count > _MAX_ATTRIBUTES:
            why = f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}"
            causes.append(field_errors.invalid(field, count, why))
        names.named(attributes, None, names.qualified, _check_attribute, f"{field}.attributes", causes)
        policy = capacities.check_shared if device.get("allowMultipleAllocations") else capacities.check_whole
        names.named(capacity, None, names.qualified, policy, f"{field}.capacity", causes)
        names.items(device.get("taints", ()), taints.MAX_TAINTS, taints.check_taint, f"{field}.taints", causes)
        names.items(
            device.get("consumesCounters", ()),
            _MAX_CONSUMED_SETS,
            _check_consumption,
            f"{field}.consumesCounters",
            causes,
            lambda one: one.get("counterSet", ""),
        )
        _check_device_place(device, is_per_device, field, causes)
        check_binding(device, field, causes)

    return check


def _check_device_place(device: Manifest, is_per_device: bool, field: str, causes: list[FieldError]) -> None:
    given = [name for name in _PLACES[:3] if name in device]
    if not is_per_device:
        if given:
            causes.append(field_errors.invalid(field, None, _NO_PLACE_OF_A_DEVICE))
        return
    chosen = []
    for name in given:
        value = device[name]
        if name == "nodeName" and not value:
            causes.append(field_errors.invalid(f"{field}.nodeName", "", "must not be empty"))
        elif value is False:
            causes.append(field_errors.invalid(f"{field}.{name}", False, "must be either unset or set to true"))
        else:
            chosen.append(f"`{name}`")
            if name == "nodeSelector":
                node_selector(value, f"{field}.nodeSelector", causes)
    if not chosen:
        causes.append(field_errors.required(field, _ONE_PLACE_OF_A_DEVICE))
    elif len(chosen) > 1:
        causes.append(field_errors.invalid(field, f"{{{', '.join(chosen)}}}", _ONE_PLACE_OF_A_DEVICE))


def _check_attribute(attribute: Manifest, field: str, causes: list[FieldError]) -> None:
    given = [name for name in _SCALARS if name in attribute]
    for name in ("string", "version"):
        value = attribute.get(name)
        if value is None:
            continue
        if name == "version" and not _SEMVER.fullmatch(value):
            why = "must be a string compatible with semver.org spec 2.0.0"
            causes.append(field_errors.invalid(f"{field}.version", value, why))
        if len(value.encode()) > _MAX_VALUE:
            causes.append(names.too_long(f"{field}.{name}", _MAX_VALUE))
    if len(given) != 1:
        shown = attribute if given else ""
        causes.append(field_errors.invalid(field, shown, "exactly one value must be specified"))


def _check_counter_set(found: Manifest, field: str, causes: list[FieldError]) -> None:
    _check_set_name(found.get("name", ""), f"{field}.name", causes)
    _check_counters(found, field, causes)


def _check_consumption(found: Manifest, field: str, causes: list[FieldError]) -> None:
    _check_set_name(found.get("counterSet", ""), f"{field}.counterSet", causes)
    _check_counters(found, field, causes)


def _check_set_name(name: str, field: str, causes: list[FieldError]) -> None:
    if name:
        names.label(name, field, causes)
    else:
        causes.append(field_errors.required(field))


def _check_counters(found: Manifest, field: str, causes: list[FieldError]) -> None:
    counters = found.get("counters")
    if not counters:
        causes.append(field_errors.required(f"{field}.counters"))
        return
    names.named(counters, _MAX_COUNTERS, names.label, _any_counter, f"{field}.counters", causes)


def _any_counter(_: object, __: str, ___: list[FieldError]) -> None:
    return
