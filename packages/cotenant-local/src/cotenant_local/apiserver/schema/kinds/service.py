"""Service: defaults and rules.

Limits: the cluster IP is allocated and kept by the kind's behaviour.
Source: Kubernetes API reference v1 Service.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.container import PROTOCOLS

_TYPES = frozenset({"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"})
_AFFINITIES = frozenset({"None", "ClientIP"})
_TRAFFIC = frozenset({"Cluster", "Local"})


def default_service(obj: Manifest) -> None:
    """Set the defaults of a Service."""
    spec = obj.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10_800)
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    if kind == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP"):
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4"])


def check_service(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a Service."""
    causes: list[FieldError] = []
    spec = obj.get("spec", {})
    kind = spec.get("type")
    field_errors.one_of(kind, _TYPES, "spec.type", causes)
    field_errors.one_of(spec.get("sessionAffinity"), _AFFINITIES, "spec.sessionAffinity", causes)
    ports = spec.get("ports", ())
    if kind == "ExternalName":
        name = spec.get("externalName")
        if not name:
            causes.append(field_errors.required("spec.externalName"))
        elif why := field_errors.subdomain_problem(name.rstrip(".")):
            causes.append(field_errors.invalid("spec.externalName", name, why))
    elif not ports and spec.get("clusterIP") != "None":
        causes.append(field_errors.required("spec.ports"))
    if spec.get("clusterIP") == "None" and kind in ("NodePort", "LoadBalancer"):
        causes.append(
            field_errors.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
        )
    _check_ports(ports, causes)
    if "selector" in spec:
        field_errors.labels(spec["selector"], "spec.selector", causes)
    for key in ("internalTrafficPolicy", "externalTrafficPolicy"):
        if key in spec:
            field_errors.one_of(spec[key], _TRAFFIC, f"spec.{key}", causes)
    return causes


def _check_ports(ports: list[Manifest], causes: list[FieldError]) -> None:
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        here = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name:
            if len(ports) > 1:
                causes.append(field_errors.required(f"{here}.name"))
        elif why := field_errors.label_problem(name):
            causes.append(field_errors.invalid(f"{here}.name", name, why))
        elif name in names:
            causes.append(field_errors.duplicate(f"{here}.name", name))
        names.add(name)
        number = port.get("port", 0)
        field_errors.port(number, f"{here}.port", causes)
        protocol = port.get("protocol", "")
        field_errors.one_of(protocol, PROTOCOLS, f"{here}.protocol", causes)
        field_errors.port_or_name(port.get("targetPort", number), f"{here}.targetPort", causes)
        if (protocol, number) in numbers:
            causes.append(field_errors.duplicate(here, port))
        numbers.add((protocol, number))
