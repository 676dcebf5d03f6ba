"""What a ResourceClaim, a ResourceClaimTemplate and a DeviceClass ask for: defaults and rules.

A claim's spec and a template's never change. Source: Kubernetes API reference resource.k8s.io/v1, KEP-4381, KEP-4816,
KEP-5075, KEP-5004, and what a server of 1.36 answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.claims import names, selector, taints

MAX_REQUESTS = 32
MAX_CONSTRAINTS = 32
MAX_CONFIG = 32
MAX_EXPRESSIONS = 32 * 1024  # characters of one claim's selectors, about a second of CPU
_MAX_SELECTORS = 32
_MAX_ALTERNATIVES = 8
_MAX_PARAMETERS = 10 * 1024
_MODES = frozenset({"All", "ExactCount"})
_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"

Requests = Mapping[str, Set[str]]
"""The names of a claim's requests, each with those of its alternatives."""


def default_claim(obj: Manifest) -> None:
    """Set the defaults of a ResourceClaim."""
    _default_devices(obj.get("spec", {}))


def default_template(obj: Manifest) -> None:
    """Set the defaults of a ResourceClaimTemplate."""
    _default_devices((obj.get("spec") or {}).get("spec", {}))


def _default_devices(spec: Manifest) -> None:
    for request in (spec.get("devices") or {}).get("requests", ()):
        for asked in (request.get("exactly"), *request.get("firstAvailable", ())):
            if asked is None:
                continue
            if not asked.get("allocationMode"):
                asked["allocationMode"] = "ExactCount"
            if asked["allocationMode"] == "ExactCount" and not asked.get("count"):
                asked["count"] = 1
            for toleration in asked.get("tolerations", ()):
                if not toleration.get("operator"):
                    toleration["operator"] = "Equal"


def check_template(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a ResourceClaimTemplate."""
    spec = obj.get("spec", {})
    causes: list[FieldError] = []
    if old is not None:
        field_errors.immutable(spec, old.get("spec"), "spec", causes)
        return causes
    metadata = spec.get("metadata") or {}
    for name in metadata.get("annotations", {}):
        names.label_key(name.lower(), "spec.metadata.annotations", causes)
    field_errors.labels(metadata.get("labels", {}), "spec.metadata.labels", causes)
    check_devices((spec.get("spec") or {}).get("devices") or {}, "spec.spec.devices", causes)
    return causes


def check_class(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of a DeviceClass."""
    causes: list[FieldError] = []
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    if old is None or spec.get("selectors") != before.get("selectors"):
        names.items(spec.get("selectors", ()), _MAX_SELECTORS, selector.check, "spec.selectors", causes)
    names.items(spec.get("config", ()), MAX_CONFIG, check_parameters, "spec.config", causes)
    extended = spec.get("extendedResourceName")
    if extended is not None and not is_extended(extended):
        why = "must be a valid extended resource name"
        causes.append(field_errors.invalid("spec.extendedResourceName", extended, why))
    return causes


def is_extended(name: str) -> bool:
    """Whether a resource of this name is an extended one: fully qualified, not Kubernetes' own."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not field_errors.key_problem(f"requests.{name}")


def request_names(devices: Manifest) -> Requests:
    """The names of a claim's requests."""
    return {
        request.get("name", ""): {sub.get("name", "") for sub in request.get("firstAvailable", ())}
        for request in devices.get("requests", ())
    }


def check_devices(devices: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check the requests of a claim, and what says something about them."""
    known = request_names(devices)

    def constraint(found: Manifest, here: str, causes: list[FieldError]) -> None:
        _references(found.get("requests", ()), known, f"{here}.requests", causes)
        if "matchAttribute" in found:
            names.fully_qualified(found["matchAttribute"], f"{here}.matchAttribute", causes)
        elif "distinctAttribute" in found:
            names.fully_qualified(found["distinctAttribute"], f"{here}.distinctAttribute", causes)
        else:
            why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
            causes.append(field_errors.required(here, why))

    def configuration(found: Manifest, here: str, causes: list[FieldError]) -> None:
        _references(found.get("requests", ()), known, f"{here}.requests", causes)
        check_parameters(found, here, causes)

    requests = devices.get("requests", ())
    if len(requests) <= MAX_REQUESTS and sum(map(len, _expressions(requests))) > MAX_EXPRESSIONS:
        # Each is parsed here, by one thread that answers everybody: more would take seconds.
        why = f"Too long: the selectors may not have more than {MAX_EXPRESSIONS} characters in all on this server"
        causes.append(FieldError("FieldValueTooLong", why, f"{field}.requests"))
        return
    names.items(requests, MAX_REQUESTS, _check_request, f"{field}.requests", causes, lambda one: one.get("name", ""))
    names.items(devices.get("constraints", ()), MAX_CONSTRAINTS, constraint, f"{field}.constraints", causes)
    names.items(devices.get("config", ()), MAX_CONFIG, configuration, f"{field}.config", causes)


def _expressions(requests: Sequence[Manifest]) -> set[str]:
    """The texts of all selectors."""
    asks = [ask for one in requests for ask in (one, one.get("exactly") or {}, *one.get("firstAvailable", ()))]
    found = (chosen.get("cel") or {} for ask in asks for chosen in ask.get("selectors", ()))
    return {one.get("expression", "") for one in found}


def check_reference(name: str, known: Requests, field: str, causes: list[FieldError]) -> None:
    """Check a reference to a request, or to one of its alternatives."""
    parts = name.split("/")
    if len(parts) > 2:
        causes.append(field_errors.invalid(field, name, _REFERENCE))
        return
    for part in parts:
        names.label(part, field, causes)
    if parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        causes.append(field_errors.invalid(field, name, _REFERENCE))


def _references(found: JsonValue, known: Requests, field: str, causes: list[FieldError]) -> None:
    names.items(
        found,
        MAX_REQUESTS,
        lambda one, here, more: check_reference(one, known, here, more),
        field,
        causes,
        lambda one: one,
    )


def _check_request(request: Manifest, field: str, causes: list[FieldError]) -> None:
    names.label(request.get("name", ""), f"{field}.name", causes)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        causes.append(field_errors.invalid(field, None, f"{_ONE_OF}, but multiple fields are set"))
    elif alternatives:
        names.items(
            alternatives,
            _MAX_ALTERNATIVES,
            _check_alternative,
            f"{field}.firstAvailable",
            causes,
            lambda one: one.get("name", ""),
        )
    elif exactly is not None:
        _check_asked(exactly, f"{field}.exactly", causes)
    else:
        causes.append(field_errors.required(field, _ONE_OF))


def _check_alternative(asked: Manifest, field: str, causes: list[FieldError]) -> None:
    names.label(asked.get("name", ""), f"{field}.name", causes)
    _check_asked(asked, field, causes)


def _check_asked(asked: Manifest, field: str, causes: list[FieldError]) -> None:
    names.device_class(asked.get("deviceClassName", ""), f"{field}.deviceClassName", causes)
    names.items(asked.get("selectors", ()), _MAX_SELECTORS, selector.check, f"{field}.selectors", causes)
    mode, count = asked.get("allocationMode"), asked.get("count", 0)
    if mode == "All":
        if count:
            why = "must not be specified when allocationMode is 'All'"
            causes.append(field_errors.invalid(f"{field}.count", count, why))
    elif mode == "ExactCount":
        if count <= 0:
            causes.append(field_errors.invalid(f"{field}.count", count, "must be greater than zero"))
    else:
        causes.append(field_errors.unsupported(f"{field}.allocationMode", mode, _MODES))
    for index, toleration in enumerate(asked.get("tolerations", ())):
        taints.check_toleration(toleration, f"{field}.tolerations[{index}]", causes)


def check_parameters(found: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check parameters for a driver."""
    opaque = found.get("opaque")
    if opaque is None:
        causes.append(field_errors.required(f"{field}.opaque"))
        return
    names.driver(opaque.get("driver", ""), f"{field}.opaque.driver", causes)
    check_raw(opaque.get("parameters"), f"{field}.opaque.parameters", _MAX_PARAMETERS, causes)


def check_raw(found: object, field: str, limit: int, causes: list[FieldError]) -> None:
    """Check a required document of any content."""
    if found is None:
        causes.append(field_errors.required(field))
    elif not isinstance(found, dict):
        causes.append(field_errors.invalid(field, "<value omitted>", "must be a valid JSON object"))
    elif len(msgspec.json.encode(found)) > limit:
        causes.append(names.too_long(field, limit))
