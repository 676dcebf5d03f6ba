"""The form of resource.k8s.io/v1beta1: what `exactly` holds is the request itself, and a device has a part `basic`.

Source: the API reference of both versions.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import Manifest

_OF_REQUESTS = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
_Part = Callable[[Manifest], Manifest]


def is_flat(group: str, version: str) -> bool:
    """Whether objects of a version have that form."""
    return (group, version) == ("resource.k8s.io", "v1beta1")


def to_flat(obj: Manifest) -> Manifest:
    """An object in the form of v1beta1."""
    return _converted(obj, _flat_request, _basic_device)


def from_flat(obj: Manifest) -> Manifest:
    """An object of v1beta1 in the form of v1."""
    return _converted(obj, _exact_request, _plain_device)


def _converted(obj: Manifest, request: _Part, device: _Part) -> Manifest:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return obj
    if obj.get("kind") == "ResourceClaimTemplate":
        return {**obj, "spec": {**spec, "spec": _with_requests(spec.get("spec") or {}, request)}}
    if obj.get("kind") == "ResourceClaim":
        return {**obj, "spec": _with_requests(spec, request)}
    if obj.get("kind") == "ResourceSlice" and "devices" in spec:
        return {**obj, "spec": {**spec, "devices": [device(one) for one in spec["devices"]]}}
    return obj


def _with_requests(spec: Manifest, request: _Part) -> Manifest:
    devices = spec.get("devices") or {}
    if "requests" not in devices:
        return spec
    return {**spec, "devices": {**devices, "requests": [request(one) for one in devices["requests"]]}}


def _flat_request(request: Manifest) -> Manifest:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **(request.get("exactly") or {})}


def _exact_request(request: Manifest) -> Manifest:
    asked = {name: request[name] for name in _OF_REQUESTS if name in request}
    rest = {name: value for name, value in request.items() if name not in _OF_REQUESTS}
    return {**rest, "exactly": asked} if asked else rest


def _basic_device(device: Manifest) -> Manifest:
    return {"name": device.get("name", ""), "basic": {name: value for name, value in device.items() if name != "name"}}


def _plain_device(device: Manifest) -> Manifest:
    return {"name": device.get("name", ""), **(device.get("basic") or {})}
