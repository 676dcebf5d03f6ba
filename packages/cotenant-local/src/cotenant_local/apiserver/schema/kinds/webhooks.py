"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: defaults and rules.

Source: Kubernetes API reference admissionregistration.k8s.io/v1 (defaults: Fail, Equivalent, ten seconds, empty
selectors).
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.selectors import label_selector

_POLICIES = frozenset({"Fail", "Ignore"})
_MATCH = frozenset({"Exact", "Equivalent"})
_EFFECTS = frozenset({"None", "NoneOnDryRun"})
_REINVOCATION = frozenset({"Never", "IfNeeded"})
_OPERATIONS = frozenset({"*", "CREATE", "UPDATE", "DELETE", "CONNECT"})
_SCOPES = frozenset({"*", "Cluster", "Namespaced"})


def default_mutating(obj: Manifest) -> None:
    """Set the defaults of a MutatingWebhookConfiguration."""
    default_validating(obj)
    for hook in obj.get("webhooks", ()):
        hook.setdefault("reinvocationPolicy", "Never")


def default_validating(obj: Manifest) -> None:
    """Set the defaults of a ValidatingWebhookConfiguration."""
    for hook in obj.get("webhooks", ()):
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        service = hook.get("clientConfig", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
        for rule in hook.get("rules", ()):
            rule.setdefault("scope", "*")


def check_webhooks(obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """Validation errors of either kind of configuration."""
    causes: list[FieldError] = []
    names: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks", ())):
        here = f"webhooks[{index}]"
        name = hook.get("name", "")
        if not name:
            causes.append(field_errors.required(f"{here}.name"))
        elif why := field_errors.subdomain_problem(name):
            causes.append(field_errors.invalid(f"{here}.name", name, why))
        elif name.count(".") < 2:
            causes.append(
                field_errors.invalid(
                    f"{here}.name", name, "should be a domain with at least three segments separated by dots"
                )
            )
        if name in names:
            causes.append(field_errors.duplicate(f"{here}.name", name))
        names.add(name)
        _check_hook(hook, here, causes)
    return causes


def _check_hook(hook: Manifest, here: str, causes: list[FieldError]) -> None:
    versions = hook.get("admissionReviewVersions")
    if not versions:
        causes.append(field_errors.required(f"{here}.admissionReviewVersions", "must specify one of v1, v1beta1"))
    elif not {"v1", "v1beta1"}.intersection(versions):
        causes.append(
            field_errors.invalid(
                f"{here}.admissionReviewVersions", versions, "must include at least one of v1, v1beta1"
            )
        )
    effects = hook.get("sideEffects")
    if not effects:
        causes.append(field_errors.required(f"{here}.sideEffects", "must specify one of None, NoneOnDryRun"))
    elif effects not in _EFFECTS:
        causes.append(field_errors.unsupported(f"{here}.sideEffects", effects, _EFFECTS))
    for key, choices in (("failurePolicy", _POLICIES), ("matchPolicy", _MATCH), ("reinvocationPolicy", _REINVOCATION)):
        if key in hook and hook[key] not in choices:
            causes.append(field_errors.unsupported(f"{here}.{key}", hook[key], choices))
    timeout = hook.get("timeoutSeconds", 10)
    if not 1 <= timeout <= 30:
        causes.append(
            field_errors.invalid(
                f"{here}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"
            )
        )
    for key in ("namespaceSelector", "objectSelector"):
        if key in hook:
            label_selector(hook[key], f"{here}.{key}", causes)
    client = hook.get("clientConfig", {})
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        causes.append(field_errors.required(f"{here}.clientConfig", "exactly one of url or service is required"))
    elif url is not None:
        if not url.startswith("https://"):
            scheme = url.partition("://")[0] if "://" in url else ""
            causes.append(
                field_errors.invalid(
                    f"{here}.clientConfig.url",
                    scheme,
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                )
            )
    else:
        causes += [
            field_errors.required(f"{here}.clientConfig.service.{key}", f"service {key} is required")
            for key in ("name", "namespace")
            if not service.get(key)
        ]
    for index, rule in enumerate(hook.get("rules", ())):
        field = f"{here}.rules[{index}]"
        for key in ("operations", "apiGroups", "apiVersions", "resources"):
            if not rule.get(key):
                causes.append(field_errors.required(f"{field}.{key}"))
            elif "*" in rule[key] and len(rule[key]) > 1 and key != "resources":
                causes.append(
                    field_errors.invalid(
                        f"{field}.{key}", rule[key], "if '*' is present, must not specify other " + _PLURAL[key]
                    )
                )
        for position, operation in enumerate(rule.get("operations", ())):
            if operation not in _OPERATIONS:
                causes.append(field_errors.unsupported(f"{field}.operations[{position}]", operation, _OPERATIONS))
        if rule.get("scope", "*") not in _SCOPES:
            causes.append(field_errors.unsupported(f"{field}.scope", rule["scope"], _SCOPES))


_PLURAL = {"operations": "operations", "apiGroups": "API groups", "apiVersions": "API versions"}
