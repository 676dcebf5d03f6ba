"""Conversion between the stored form and other served forms: another version of a custom kind, or events.k8s.io beside
core events.

One storage, several URLs. Stored objects have the hub's form; others are converted on read and write, so history,
watches and selectors see one form. Two versions of a custom kind differ in apiVersion only (conversion strategy None).
The two Event APIs differ in the names of six fields, the versions of PodGroup in two, v1beta1 of resource.k8s.io in
what requests and devices are.
Source: Kubernetes API reference, Event v1 core and Event v1 events.k8s.io.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource
from cotenant_local.apiserver.kinds.workload_groups import from_alpha, is_alpha_group, to_alpha
from cotenant_local.apiserver.schema.kinds.claims.flat import from_flat, is_flat, to_flat
from cotenant_local.apiserver.storage.stored import decode, encode
from cotenant_local.apiserver.storage.watching import Convert

# core v1 -> events.k8s.io/v1
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_FIELDS_BACK = {new: old for old, new in _EVENT_FIELDS.items()}


def _is_event(resource: Resource) -> bool:
    return resource.kind == "Event" and resource.storage == ("", "events")


def outward(obj: Manifest, resource: Resource, hub: Resource) -> Manifest:
    """Convert a stored object to a resource's form, in place if possible."""
    if resource is hub or resource.api_version == hub.api_version:
        return obj
    if _is_event(resource):
        obj = {_EVENT_FIELDS.get(key, key): value for key, value in obj.items()}
    elif is_alpha_group(resource):
        obj = to_alpha(obj)
    elif is_flat(resource.group, resource.version):
        obj = to_flat(obj)
    obj["apiVersion"] = resource.api_version
    return obj


def inward(obj: Manifest, resource: Resource, hub: Resource) -> Manifest:
    """Convert a written object to the stored form."""
    if resource is hub or resource.api_version == hub.api_version:
        return obj
    if _is_event(resource):
        obj = {_EVENT_FIELDS_BACK.get(key, key): value for key, value in obj.items()}
    elif is_alpha_group(resource):
        obj = from_alpha(obj)
    elif is_flat(resource.group, resource.version):
        obj = from_flat(obj)
    obj["apiVersion"] = hub.api_version
    return obj


def converter(resource: Resource, hub: Resource) -> Convert | None:
    """A converter from stored to served bytes; None if they are identical."""
    if resource is hub or resource.api_version == hub.api_version:
        return None
    return lambda raw: encode(outward(decode(raw), resource, hub))
