"""Service: defaults and rules.

Limits: the address is given out by the kind's behaviour, which also keeps it.
Source: Kubernetes API reference v1 Service.
"""

from __future__ import annotations

from cotenant.local.apiserver.contract import Cause, Manifest
from cotenant.local.apiserver.schema.kinds import words
from cotenant.local.apiserver.schema.kinds.container import PROTOCOLS

_TYPES = frozenset({"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"})
_AFFINITIES = frozenset({"None", "ClientIP"})
_TRAFFIC = frozenset({"Cluster", "Local"})


def default_service(obj: Manifest) -> None:
    """Fill a Service in."""
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


def check_service(obj: Manifest, old: Manifest | None) -> list[Cause]:
    """What is wrong with a Service."""
    causes: list[Cause] = []
    spec = obj.get("spec", {})
    kind = spec.get("type")
    words.one_of(kind, _TYPES, "spec.type", causes)
    words.one_of(spec.get("sessionAffinity"), _AFFINITIES, "spec.sessionAffinity", causes)
    ports = spec.get("ports", ())
    if kind == "ExternalName":
        name = spec.get("externalName")
        if not name:
            causes.append(words.required("spec.externalName"))
        elif why := words.subdomain_problem(name.rstrip(".")):
            causes.append(words.wrong("spec.externalName", name, why))
    elif not ports and spec.get("clusterIP") != "None":
        causes.append(words.required("spec.ports"))
    if spec.get("clusterIP") == "None" and kind in ("NodePort", "LoadBalancer"):
        causes.append(words.wrong("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    _check_ports(ports, causes)
    if "selector" in spec:
        words.labels(spec["selector"], "spec.selector", causes)
    for key in ("internalTrafficPolicy", "externalTrafficPolicy"):
        if key in spec:
            words.one_of(spec[key], _TRAFFIC, f"spec.{key}", causes)
    return causes


def _check_ports(ports: list[Manifest], causes: list[Cause]) -> None:
    names: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    for index, each in enumerate(ports):
        here = f"spec.ports[{index}]"
        name = each.get("name", "")
        if not name:
            if len(ports) > 1:
                causes.append(words.required(f"{here}.name"))
        elif why := words.label_problem(name):
            causes.append(words.wrong(f"{here}.name", name, why))
        elif name in names:
            causes.append(words.duplicate(f"{here}.name", name))
        names.add(name)
        number = each.get("port", 0)
        words.port(number, f"{here}.port", causes)
        protocol = each.get("protocol", "")
        words.one_of(protocol, PROTOCOLS, f"{here}.protocol", causes)
        words.port_or_name(each.get("targetPort", number), f"{here}.targetPort", causes)
        if (protocol, number) in numbers:
            causes.append(words.duplicate(here, each))
        numbers.add((protocol, number))
