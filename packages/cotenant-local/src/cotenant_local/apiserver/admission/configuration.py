"""Webhook configurations: parsing, rule matching, and validation.

Every write is matched against every webhook, so a configuration is parsed once, not per write. A frozen `Webhook` with
its rules as sets; matching is a chain of cheap tests. What this server cannot honour is refused when the configuration
is written.
Source: Kubernetes API reference, admissionregistration.k8s.io/v1; "Dynamic Admission Control".
Limits: matchPolicy Equivalent is treated as Exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.admission.conditions import MatchCondition, problem
from cotenant_local.apiserver.contract import RequestTarget, ResourceScope
from cotenant_local.apiserver.selectors import ListSelector, label_selector

GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
_DEFAULT_TIMEOUT_S = 10
_MAX_TIMEOUT_S = 30
_DRY_RUNNABLE = frozenset({"None", "NoneOnDryRun"})


@dataclass(frozen=True, slots=True)
class OperationRule:
    """A rule: operations on resources."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    scope: str

    def matches(self, operation: str, target: RequestTarget) -> bool:
        """Whether the rule matches a write."""
        resource = target.resource
        if not ("*" in self.operations or operation in self.operations):
            return False
        if not ("*" in self.groups or resource.group in self.groups):
            return False
        if not ("*" in self.versions or resource.version in self.versions):
            return False
        if self.scope != "*" and self.scope != resource.scope.value:
            return False
        patterns: tuple[str, ...]
        if target.subresource:
            patterns = (
                "*/*",
                f"{resource.plural}/*",
                f"*/{target.subresource}",
                f"{resource.plural}/{target.subresource}",
            )
        else:
            patterns = ("*", "*/*", resource.plural)
        return any(one in self.resources for one in patterns)


@dataclass(frozen=True, slots=True)
class ServiceReference:
    """The Service of a webhook."""

    namespace: str
    name: str
    path: str
    port: int


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration."""

    name: str
    configuration: str
    is_mutating: bool
    url: str  # empty: the webhook is reached through its service
    service: ServiceReference | None
    ca_bundle: str  # base64, empty for the system's
    rules: tuple[OperationRule, ...]
    is_fatal: bool  # failurePolicy Fail
    timeout_s: int
    namespaces: ListSelector
    objects: ListSelector
    is_dry_runnable: bool
    review_versions: tuple[str, ...]
    is_reinvoked: bool
    conditions: tuple[MatchCondition, ...] = ()

    def matches_rules(self, operation: str, target: RequestTarget) -> bool:
        """Whether one of its rules matches a write."""
        return any(rule.matches(operation, target) for rule in self.rules)

    def selects(self, obj: Manifest | None, old: Manifest | None) -> bool:
        """Whether its object selector matches the new or the old object."""
        if self.objects.is_empty:
            return True
        return any(self.objects.matches(_labels(one)) for one in (obj, old) if one is not None)


def _labels(obj: Manifest) -> dict[str, str]:
    labels = (obj.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, dict) else {}


def _rule(rule: Manifest) -> OperationRule:
    return OperationRule(
        frozenset(rule.get("operations") or ()),
        frozenset(rule.get("apiGroups") or ()),
        frozenset(rule.get("apiVersions") or ()),
        frozenset(rule.get("resources") or ()),
        rule.get("scope") or "*",
    )


def read(obj: Manifest, *, is_mutating: bool) -> tuple[Webhook, ...]:
    """Parse the webhooks of a stored configuration, in its order."""
    return tuple(_webhook(one, obj["metadata"].get("name", ""), is_mutating) for one in obj.get("webhooks") or ())


def _webhook(one: Manifest, configuration: str, is_mutating: bool) -> Webhook:
    client = one.get("clientConfig") or {}
    service = client.get("service")
    return Webhook(
        name=one.get("name", ""),
        configuration=configuration,
        is_mutating=is_mutating,
        url=client.get("url") or "",
        service=ServiceReference(
            service.get("namespace", ""),
            service.get("name", ""),
            service.get("path") or "/",
            service.get("port") or 443,
        )
        if service
        else None,
        ca_bundle=client.get("caBundle") or "",
        rules=tuple(_rule(rule) for rule in one.get("rules") or ()),
        is_fatal=(one.get("failurePolicy") or "Fail") == "Fail",
        timeout_s=one.get("timeoutSeconds") or _DEFAULT_TIMEOUT_S,
        namespaces=label_selector(one.get("namespaceSelector")),
        objects=label_selector(one.get("objectSelector")),
        is_dry_runnable=one.get("sideEffects") in _DRY_RUNNABLE,
        review_versions=tuple(one.get("admissionReviewVersions") or ()),
        is_reinvoked=is_mutating and one.get("reinvocationPolicy") == "IfNeeded",
        conditions=tuple(
            MatchCondition(entry.get("name") or "", entry.get("expression") or "")
            for entry in one.get("matchConditions") or ()
        ),
    )


def is_exempt(target: RequestTarget) -> bool:
    """Whether a write is of a webhook configuration. These are exempt, so that a webhook cannot block its own
    removal.
    """
    return target.resource.group == GROUP and target.resource.plural in (MUTATING, VALIDATING)


def check(obj: Manifest, kind: str) -> None:
    """Validate a configuration. Raises ApiError 422 with every cause."""
    causes: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(obj.get("webhooks") or ()):
        where = f"webhooks[{index}]"
        name = one.get("name") or ""
        if len(name.split(".")) < 3:
            causes.append(
                _invalid(f"{where}.name", name, "should be a domain with at least three segments separated by dots")
            )
        if name in seen:
            causes.append(FieldError("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{where}.name"))
        seen.add(name)
        for position, condition in enumerate(one.get("matchConditions") or ()):
            expression = condition.get("expression") or ""
            if why := problem(expression) if expression else "required":
                causes.append(_invalid(f"{where}.matchConditions[{position}].expression", expression, why))
        for key in ("namespaceSelector", "objectSelector"):
            try:
                label_selector(one.get(key))
            except ApiError as error:
                causes.append(_invalid(f"{where}.{key}", "", error.message))
        causes += _check_client(one.get("clientConfig") or {}, f"{where}.clientConfig")
        timeout = one.get("timeoutSeconds")
        if timeout is not None and not 1 <= timeout <= _MAX_TIMEOUT_S:
            text = f"the timeout value must be between 1 and {_MAX_TIMEOUT_S} seconds"
            causes.append(_invalid(f"{where}.timeoutSeconds", timeout, text))
        if one.get("sideEffects") not in _DRY_RUNNABLE:
            supported = 'supported values: "None", "NoneOnDryRun"'
            side_effects = one.get("sideEffects") or ""
            text = f'Unsupported value: "{side_effects}": {supported}'
            causes.append(FieldError("FieldValueNotSupported", text, f"{where}.sideEffects"))
        versions = one.get("admissionReviewVersions") or ()
        if "v1" not in versions:
            text = "must include at least one of v1"
            causes.append(_invalid(f"{where}.admissionReviewVersions", list(versions), text))
        if (one.get("failurePolicy") or "Fail") not in ("Fail", "Ignore"):
            text = f'Unsupported value: "{one["failurePolicy"]}": supported values: "Fail", "Ignore"'
            causes.append(FieldError("FieldValueNotSupported", text, f"{where}.failurePolicy"))
    if causes:
        name = obj.get("metadata", {}).get("name", "")
        texts = [f"{cause.field}: {cause.message}" for cause in causes]
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        raise ApiError(
            422,
            "Invalid",
            f'{kind}.{GROUP} "{name}" is invalid: {text}',
            name=name,
            group=GROUP,
            kind=kind,
            causes=tuple(causes),
        )


def _invalid(field: str, value: object, why: str) -> FieldError:
    shown = f'"{value}"' if isinstance(value, str) else value
    return FieldError("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def _check_client(client: Manifest, where: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [FieldError("FieldValueRequired", "Required value: exactly one of url or service is required", where)]
    if url is None:
        return []
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [_invalid(f"{where}.url", url, f"{error}; desired format: https://host[/path]")]
    if parts.scheme != "https":
        return [
            _invalid(f"{where}.url", url, "'https' is the only allowed URL scheme; desired format: https://host[/path]")
        ]
    if not parts.hostname:
        return [_invalid(f"{where}.url", url, "host must be specified; desired format: https://host[/path]")]
    if parts.query or parts.fragment or parts.username:
        return [_invalid(f"{where}.url", url, "user, query and fragment are not permitted in the URL")]
    return []


def is_namespaced(target: RequestTarget) -> bool:
    """Whether the target is namespaced."""
    return target.resource.scope is ResourceScope.NAMESPACED
