"""The printer columns of nodes, volumes, services, events, configuration and policy objects."""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.columns.formatting import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    at,
    field,
    labels_text,
    mapping,
    number,
    seconds,
    sequence,
    since,
    text,
)
from cotenant_local.apiserver.contract import PrinterColumn

_ROLE = "node-role.kubernetes.io/"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_SHOWN_ENDPOINTS = 3


def _node_status(obj: Manifest, now: float) -> str:
    conditions = sequence(obj, "status", "conditions")
    states = [
        "Ready" if one.get("status") == "True" else "NotReady" for one in conditions if one.get("type") == "Ready"
    ]
    states = states or ["Unknown"]
    if at(obj, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _roles(obj: Manifest, now: float) -> str:
    labels = mapping(obj, "metadata", "labels")
    roles = {key[len(_ROLE) :] for key in labels if key.startswith(_ROLE) and len(key) > len(_ROLE)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or NONE


def _address(name: str, kind: str) -> PrinterColumn:
    def value(obj: Manifest, now: float) -> str:
        for address in sequence(obj, "status", "addresses"):
            if address.get("type") == kind:
                return str(address.get("address"))
        return NONE

    return text(name, value, wide=True)


def _info(name: str, key: str) -> PrinterColumn:
    return field(name, "status", "nodeInfo", key, default=UNKNOWN, wide=True)


def _modes(modes: Iterable[JsonValue]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _phase(obj: Manifest, now: float) -> str:
    return "Terminating" if at(obj, "metadata", "deletionTimestamp") else at(obj, "status", "phase") or ""


def _claim_capacity(obj: Manifest, now: float) -> str:
    return at(obj, "status", "capacity", "storage") or "" if at(obj, "spec", "volumeName") else ""


def _claim_modes(obj: Manifest, now: float) -> str:
    return _modes(sequence(obj, "status", "accessModes")) if at(obj, "spec", "volumeName") else ""


def _volume_claim(obj: Manifest, now: float) -> str:
    claim = mapping(obj, "spec", "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _external(obj: Manifest, now: float) -> str:
    kind = at(obj, "spec", "type")
    if kind == "ExternalName":
        return at(obj, "spec", "externalName") or NONE
    addresses = list(sequence(obj, "spec", "externalIPs"))
    if kind == "LoadBalancer":
        ingress = sequence(obj, "status", "loadBalancer", "ingress")
        addresses = [one.get("ip") or one.get("hostname") for one in ingress] + addresses
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _ports(obj: Manifest, now: float) -> str:
    shown = []
    for port in sequence(obj, "spec", "ports"):
        protocol = port.get("protocol", "TCP")
        node = port.get("nodePort")
        shown.append(f"{port.get('port')}:{node}/{protocol}" if node else f"{port.get('port')}/{protocol}")
    return ",".join(shown) or NONE


def _endpoints(obj: Manifest, now: float) -> str:
    found: list[str] = []
    for subset in sequence(obj, "subsets"):
        ports = subset.get("ports") or [{}]
        for port in ports:
            for address in subset.get("addresses") or []:
                ip = address.get("ip", "")
                found.append(f"{ip}:{port['port']}" if port.get("port") else ip)
    return _few(found)


def _few(found: list[str]) -> str:
    if not found:
        return NONE
    shown = ",".join(found[:_SHOWN_ENDPOINTS])
    rest = len(found) - _SHOWN_ENDPOINTS
    return f"{shown} + {rest} more..." if rest > 0 else shown


def _slice_ports(obj: Manifest, now: float) -> str:
    ports = [str(port.get("port")) if port.get("port") else "*" for port in sequence(obj, "ports")]
    return _few(ports) if ports else UNSET


def _slice_endpoints(obj: Manifest, now: float) -> str:
    addresses = [address for one in sequence(obj, "endpoints") for address in one.get("addresses") or []]
    return _few(addresses) if addresses else UNSET


def _event_last(obj: Manifest, now: float) -> str:
    times = (
        at(obj, "series", "lastObservedTime"),
        obj.get("lastTimestamp"),
        obj.get("deprecatedLastTimestamp"),
        obj.get("eventTime"),
    )
    return since(next((one for one in times if seconds(one) is not None), None), now)


def _event_first(obj: Manifest, now: float) -> str:
    times = (obj.get("firstTimestamp"), obj.get("deprecatedFirstTimestamp"), obj.get("eventTime"))
    return since(next((one for one in times if seconds(one) is not None), None), now)


def _event_object(obj: Manifest, now: float) -> str:
    about = mapping(obj, "involvedObject") or mapping(obj, "regarding")
    kind, name = str(about.get("kind", "")).lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(obj: Manifest, now: float) -> str:
    source = mapping(obj, "source") or mapping(obj, "deprecatedSource")
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host")
    return f"{component}, {host}" if host else str(component)


def _event_count(obj: Manifest, now: float) -> JsonValue:
    return at(obj, "series", "count") or obj.get("count") or obj.get("deprecatedCount") or 1


def _class_name(obj: Manifest, now: float) -> str:
    name = at(obj, "metadata", "name") or ""
    return f"{name} (default)" if mapping(obj, "metadata", "annotations").get(_DEFAULT_CLASS) == "true" else name


def _data(obj: Manifest, now: float) -> int:
    return len(mapping(obj, "data")) + len(mapping(obj, "binaryData"))


NODE = (
    NAME,
    text("Status", _node_status, description="The status of the node"),
    text("Roles", _roles, description="The roles of the node"),
    AGE,
    field("Version", "status", "nodeInfo", "kubeletVersion"),
    _address("Internal-IP", "InternalIP"),
    _address("External-IP", "ExternalIP"),
    _info("OS-Image", "osImage"),
    _info("Kernel-Version", "kernelVersion"),
    _info("Container-Runtime", "containerRuntimeVersion"),
)
NAMESPACE = (NAME, field("Status", "status", "phase"), AGE)
CONFIG_MAP = (NAME, text("Data", _data), AGE)
SECRET = (NAME, field("Type", "type"), text("Data", lambda obj, now: len(mapping(obj, "data"))), AGE)
SERVICE_ACCOUNT = (NAME, text("Secrets", lambda obj, now: len(sequence(obj, "secrets"))), AGE)
SERVICE = (
    NAME,
    field("Type", "spec", "type"),
    field("Cluster-IP", "spec", "clusterIP", default=NONE),
    text("External-IP", _external),
    text("Port(s)", _ports),
    AGE,
    text("Selector", lambda obj, now: labels_text(at(obj, "spec", "selector")), wide=True),
)
ENDPOINTS = (NAME, text("Endpoints", _endpoints), AGE)
ENDPOINT_SLICE = (
    NAME,
    field("AddressType", "addressType"),
    text("Ports", _slice_ports),
    text("Endpoints", _slice_endpoints),
    AGE,
)
EVENT = (
    text("Last Seen", _event_last),
    field("Type", "type"),
    field("Reason", "reason"),
    text("Object", _event_object),
    text(
        "Subobject",
        lambda obj, now: at(obj, "involvedObject", "fieldPath") or at(obj, "regarding", "fieldPath") or "",
        wide=True,
    ),
    text("Source", _event_source, wide=True),
    text("Message", lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip()),
    text("First Seen", _event_first, wide=True),
    text("Count", _event_count, wide=True),
    PrinterColumn("Name", "string", NAME.value, format="name", description=NAME.description, priority=1),
)
VOLUME = (
    NAME,
    field("Capacity", "spec", "capacity", "storage"),
    text("Access Modes", lambda obj, now: _modes(sequence(obj, "spec", "accessModes"))),
    field("Reclaim Policy", "spec", "persistentVolumeReclaimPolicy"),
    text("Status", _phase),
    text("Claim", _volume_claim),
    field("StorageClass", "spec", "storageClassName"),
    field("VolumeAttributesClass", "spec", "volumeAttributesClassName", default=UNSET),
    field("Reason", "status", "reason"),
    AGE,
    field("VolumeMode", "spec", "volumeMode", default=UNSET, wide=True),
)
CLAIM = (
    NAME,
    text("Status", _phase),
    field("Volume", "spec", "volumeName"),
    text("Capacity", _claim_capacity),
    text("Access Modes", _claim_modes),
    field("StorageClass", "spec", "storageClassName"),
    field("VolumeAttributesClass", "spec", "volumeAttributesClassName", default=UNSET),
    AGE,
    field("VolumeMode", "spec", "volumeMode", default=UNSET, wide=True),
)
STORAGE_CLASS = (
    PrinterColumn("Name", "string", _class_name, format="name", description=NAME.description),
    field("Provisioner", "provisioner"),
    field("ReclaimPolicy", "reclaimPolicy", default="Delete"),
    field("VolumeBindingMode", "volumeBindingMode", default="Immediate"),
    text("AllowVolumeExpansion", lambda obj, now: "true" if obj.get("allowVolumeExpansion") else "false"),
    AGE,
)
CSI_NODE = (NAME, text("Drivers", lambda obj, now: len(sequence(obj, "spec", "drivers")), type="integer"), AGE)
VOLUME_ATTACHMENT = (
    NAME,
    PrinterColumn("Attacher", "string", lambda obj, now: at(obj, "spec", "attacher") or "", format="name"),
    field("PV", "spec", "source", "persistentVolumeName"),
    field("Node", "spec", "nodeName"),
    text("Attached", lambda obj, now: bool(at(obj, "status", "attached")), type="boolean"),
    AGE,
)
PRIORITY_CLASS = (
    NAME,
    number("Value", "value"),
    text("Global-Default", lambda obj, now: bool(obj.get("globalDefault")), type="boolean"),
    AGE,
    field("PreemptionPolicy", "preemptionPolicy", default="PreemptLowerPriority"),
)
LEASE = (NAME, field("Holder", "spec", "holderIdentity"), AGE)
WEBHOOKS = (NAME, text("Webhooks", lambda obj, now: len(sequence(obj, "webhooks")), type="integer"), AGE)


def _hosts(obj: Manifest, now: float) -> str:
    hosts = [str(rule["host"]) for rule in sequence(obj, "spec", "rules") if rule.get("host")]
    if not hosts:
        return "*"
    shown = ",".join(hosts[:_SHOWN_ENDPOINTS])
    return shown if len(hosts) <= _SHOWN_ENDPOINTS else f"{shown} + {len(hosts) - _SHOWN_ENDPOINTS} more..."


def _ingress_address(obj: Manifest, now: float) -> str:
    found = sequence(obj, "status", "loadBalancer", "ingress")
    return ",".join(str(one.get("ip") or one.get("hostname") or "") for one in found)


def _parameters(obj: Manifest, now: float) -> str:
    parameters = mapping(obj, "spec", "parameters")
    if not parameters:
        return NONE
    kind = f"{parameters['kind']}.{parameters['apiGroup']}" if parameters.get("apiGroup") else parameters.get("kind")
    return f"{kind}/{parameters.get('name')}"


INGRESS = (
    NAME,
    field("Class", "spec", "ingressClassName", default=NONE),
    text("Hosts", _hosts),
    text("Address", _ingress_address),
    text("Ports", lambda obj, now: "80, 443" if sequence(obj, "spec", "tls") else "80"),
    AGE,
)
INGRESS_CLASS = (NAME, field("Controller", "spec", "controller"), text("Parameters", _parameters), AGE)
