"""Ingress and IngressClass: defaults and rules. Nothing here routes a request.

Limits: hosts with wildcards, TLS and resource backends are checked for their shape only.
Source: Kubernetes API reference networking.k8s.io/v1.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors

_TYPES = frozenset({"Exact", "Prefix", "ImplementationSpecific"})


def default_class(obj: Manifest) -> None:
    """Set the defaults of an IngressClass."""
    parameters = (obj.get("spec") or {}).get("parameters")
    if isinstance(parameters, dict):
        parameters.setdefault("scope", "Cluster")


def check_ingress(obj: Manifest, _: Manifest | None) -> list[FieldError]:
    """Validation errors of an Ingress."""
    causes: list[FieldError] = []
    spec = obj.get("spec") or {}
    rules = spec.get("rules") or []
    if not rules and not spec.get("defaultBackend"):
        causes.append(field_errors.invalid("spec", [], "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend"):
        _check_backend(spec["defaultBackend"], "spec.defaultBackend", causes)
    for i, rule in enumerate(rules):
        host = rule.get("host") or ""
        if host and not host.startswith("*.") and (why := field_errors.subdomain_problem(host)):
            causes.append(field_errors.invalid(f"spec.rules[{i}].host", host, why))
        http = rule.get("http")
        if http is None:
            continue
        if not http.get("paths"):
            causes.append(field_errors.required(f"spec.rules[{i}].http.paths"))
        for j, path in enumerate(http.get("paths") or ()):
            _check_path(path, f"spec.rules[{i}].http.paths[{j}]", causes)
    return causes


def check_class(obj: Manifest, _: Manifest | None) -> list[FieldError]:
    """Validation errors of an IngressClass."""
    controller = (obj.get("spec") or {}).get("controller")
    return [] if controller else [field_errors.required("spec.controller")]


def _check_path(path: Manifest, field: str, causes: list[FieldError]) -> None:
    kind, text = path.get("pathType"), path.get("path") or ""
    if kind is None:
        causes.append(field_errors.required(f"{field}.pathType", "pathType must be specified"))
    elif kind not in _TYPES:
        causes.append(field_errors.unsupported(f"{field}.pathType", kind, _TYPES))
    elif not text.startswith("/") and (kind != "ImplementationSpecific" or text):
        causes.append(field_errors.invalid(f"{field}.path", text, "must be an absolute path"))
    _check_backend(path.get("backend") or {}, f"{field}.backend", causes)


def _check_backend(backend: Manifest, field: str, causes: list[FieldError]) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        causes.append(field_errors.invalid(field, "", "cannot set both resource and service backends"))
        return
    if resource is not None:
        return
    name, port = (service or {}).get("name") or "", (service or {}).get("port") or {}
    if not name:
        causes.append(field_errors.required(f"{field}.service.name"))
    if port.get("name") and port.get("number"):
        causes.append(field_errors.invalid(field, "", "cannot set both port name & port number"))
    elif not port.get("name") and not port.get("number"):
        causes.append(field_errors.required(field, "port name or number is required"))
    elif port.get("number"):
        field_errors.port(port["number"], f"{field}.service.port.number", causes)
