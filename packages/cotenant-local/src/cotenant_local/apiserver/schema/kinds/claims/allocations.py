"""The status of a ResourceClaim, and its spec, which never changes: rules.

An allocation is written once and may only be removed; a claim that is being deleted gets no new consumers. Source:
Kubernetes API reference resource.k8s.io/v1, and what a server of 1.36 answers.
"""

from __future__ import annotations

from ipaddress import ip_interface

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import names, requests
from cotenant_local.apiserver.schema.kinds.claims.requests import Requests
from cotenant_local.apiserver.schema.kinds.selectors import node_selector

MAX_CONSUMERS = 256
_MAX_RESULTS = 32
_MAX_BINDING_CONDITIONS = 4
_MAX_CONDITIONS = 8
_MAX_DATA = 10 * 1024
_MAX_INTERFACE, _MAX_HARDWARE, _MAX_ADDRESSES = 256, 128, 16
_SOURCES = frozenset({"FromClaim", "FromClass"})
_MANY = 1 << 30

Identity = tuple[str, str, str, str]


def check_claim(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a ResourceClaim."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    if old is None:
        requests.check_devices(spec.get("devices") or {}, "spec.devices", causes)
        return causes
    field_errors.immutable(spec, old.get("spec"), "spec", causes)
    status, before = obj.get("status") or {}, old.get("status") or {}
    if status != before:
        known = requests.request_names(spec.get("devices") or {})
        _check_status(status, before, known, bool(obj["metadata"].get("deletionTimestamp")), causes)
    return causes


def identity(device: Manifest) -> Identity:
    """Which device, or which share of one, a result or a status is about."""
    return (device.get("driver", ""), device.get("pool", ""), device.get("device", ""), device.get("shareID") or "")


def results(status: Manifest) -> list[Manifest]:
    """The results of an allocation, none without one."""
    allocation = status.get("allocation") or {}
    found: list[Manifest] = (allocation.get("devices") or {}).get("results") or []
    return found


def _check_status(status: Manifest, before: Manifest, known: Requests, deleted: bool, causes: list[FieldError]) -> None:
    consumers = status.get("reservedFor", [])
    names.items(
        consumers,
        MAX_CONSUMERS,
        _check_consumer,
        "status.reservedFor",
        causes,
        lambda one: one.get("uid", ""),
        lambda one: one,
    )
    allocated = {identity(result) for result in results(status)}

    def device(found: Manifest, here: str, causes: list[FieldError]) -> None:
        _check_device(found, allocated, here, causes)

    names.items(status.get("devices", ()), _MANY, device, "status.devices", causes, identity, _shown)
    allocation, kept = status.get("allocation"), before.get("allocation")
    if consumers and allocation is None:
        causes.append(field_errors.forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
    elif consumers and deleted and any(one not in before.get("reservedFor", ()) for one in consumers):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        causes.append(field_errors.forbidden("status.reservedFor", why))
    if allocation is None:
        return
    if kept is not None:
        field_errors.immutable(allocation, kept, "status.allocation", causes)
        return
    _check_allocation(allocation, known, causes)


def _check_consumer(consumer: Manifest, field: str, causes: list[FieldError]) -> None:
    causes += [field_errors.required(f"{field}.{key}") for key in ("resource", "name", "uid") if not consumer.get(key)]


def _check_allocation(allocation: Manifest, known: Requests, causes: list[FieldError]) -> None:
    devices, field = allocation.get("devices") or {}, "status.allocation.devices"

    def result(found: Manifest, here: str, causes: list[FieldError]) -> None:
        requests.check_reference(found.get("request", ""), known, f"{here}.request", causes)
        names.driver(found.get("driver", ""), f"{here}.driver", causes)
        names.pool(found.get("pool", ""), f"{here}.pool", causes)
        names.label(found.get("device", ""), f"{here}.device", causes)
        check_binding(found, here, causes)
        if "shareID" in found:
            names.uid(found["shareID"], f"{here}.shareID", causes)

    def configuration(found: Manifest, here: str, causes: list[FieldError]) -> None:
        field_errors.one_of(found.get("source", ""), _SOURCES, f"{here}.source", causes)
        for index, name in enumerate(found.get("requests", ())):
            requests.check_reference(name, known, f"{here}.requests[{index}]", causes)
        requests.check_parameters(found, here, causes)

    names.items(devices.get("results", ()), _MAX_RESULTS, result, f"{field}.results", causes)
    names.items(devices.get("config", ()), 2 * requests.MAX_CONFIG, configuration, f"{field}.config", causes)
    if "nodeSelector" in allocation:
        node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector", causes)


def check_binding(device: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check the conditions that a device must have before its pod is bound, and those that say that it failed."""
    wanted, failed = device.get("bindingConditions", []), device.get("bindingFailureConditions", [])
    here, there = f"{field}.bindingConditions", f"{field}.bindingFailureConditions"
    names.items(wanted, _MAX_BINDING_CONDITIONS, names.label_key, here, causes, lambda one: one)
    names.items(failed, _MAX_BINDING_CONDITIONS, names.label_key, there, causes, lambda one: one)
    for index, condition in enumerate(failed):
        if condition in wanted:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            causes.append(field_errors.invalid(f"{there}[{index}]", condition, why))
    if failed and not wanted:
        causes.append(
            field_errors.invalid(here, wanted, "bindingConditions are required to use bindingFailureConditions")
        )
    if wanted and not failed:
        causes.append(
            field_errors.invalid(there, failed, "bindingFailureConditions are required to use bindingConditions")
        )


def _shown(device: Manifest) -> object:
    return "/".join(part for part in identity(device) if part)


def _check_device(device: Manifest, allocated: set[Identity], field: str, causes: list[FieldError]) -> None:
    names.driver(device.get("driver", ""), f"{field}.driver", causes)
    names.pool(device.get("pool", ""), f"{field}.pool", causes)
    names.label(device.get("device", ""), f"{field}.device", causes)
    if "shareID" in device:
        names.uid(device["shareID"], f"{field}.shareID", causes)
    if identity(device) not in allocated:
        causes.append(field_errors.invalid(field, _shown(device), "must be an allocated device in the claim"))
    conditions = device.get("conditions", ())
    if len(conditions) > _MAX_CONDITIONS:
        causes.append(names.too_many(f"{field}.conditions", len(conditions), _MAX_CONDITIONS))
    if device.get("data") is not None:
        requests.check_raw(device["data"], f"{field}.data", _MAX_DATA, causes)
    network = device.get("networkData") or {}
    for name, limit in (("interfaceName", _MAX_INTERFACE), ("hardwareAddress", _MAX_HARDWARE)):
        if len(network.get(name, "")) > limit:
            causes.append(names.too_long(f"{field}.networkData.{name}", limit))
    names.items(
        network.get("ips", ()), _MAX_ADDRESSES, _check_address, f"{field}.networkData.ips", causes, lambda one: one
    )


def _check_address(address: str, field: str, causes: list[FieldError]) -> None:
    try:
        ip_interface(address)
        valid = "/" in address
    except ValueError:
        valid = False
    if not valid:
        why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        causes.append(field_errors.invalid(field, address, why))
