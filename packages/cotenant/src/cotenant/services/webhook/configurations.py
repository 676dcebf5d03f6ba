"""The webhook configurations that make an API server call us.

A webhook that is registered too broadly stops a cluster when it is down. One function makes both configurations;
deploy/webhook has its result, and `--register` writes it. failurePolicy is Ignore unless told otherwise, and always
Ignore for writes of a status: a node must not look alive because nobody answers; kube-system and the webhook's own
namespace are exempt in any case; only the operations that the rules are about. Where another webhook changes a pod
after us, e.g. adds a container, we are called again and translate that too; where pods draw one by one we are not, as
they would draw twice.
Limits: an API server calls again once; what is added after that gets a warning. Of two profiles, one that matches only
by the other's labels acts in the second call only.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.kinds.custom.elastic_quota import ELASTIC_QUOTAS, X_ELASTIC_QUOTAS
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.webhook_configuration import MUTATING, VALIDATING
from cotenant.model.json_object import JsonObject
from cotenant.services.reviewing.rules import ReviewRules
from cotenant.services.webhook.webhook_arguments import NAME, POLICIES

TIMEOUT_S = 5
_ALSO = {"validate-pod": ("pods/resize",)}


def configurations(
    rules: ReviewRules, client: JsonObject, bundle: str, failure_policy: str = POLICIES[0]
) -> tuple[tuple[AnyKind, JsonObject], ...]:
    """(kind, configuration) of both. `client`: {"service": {...}} or {"url": ...}, without a path; `bundle`:
    base64, empty = left out.
    """
    made = []
    quotas = (ELASTIC_QUOTAS.group, X_ELASTIC_QUOTAS.group)
    mutating = [
        ("mutate-pod", ("",), "v1", "pods", ("CREATE",)),
        ("mutate-quota", quotas, "v1alpha1", ELASTIC_QUOTAS.plural, ("CREATE", "UPDATE")),
    ]
    if rules.reservations:
        mutating.append(
            ("mutate-reservation", (RESERVATIONS.group,), RESERVATIONS.version, RESERVATIONS.plural, ("CREATE",))
        )
    if rules.amplifies_nodes:
        mutating.append(("mutate-node-status", ("",), "v1", "nodes/status", ("UPDATE",)))
    validating = [
        ("validate-pod", ("",), "v1", "pods", ("CREATE", "UPDATE")),
        ("validate-quota", quotas, "v1alpha1", ELASTIC_QUOTAS.plural, ("CREATE", "UPDATE", "DELETE")),
    ]
    if rules.agents:
        validating.append(("validate-eviction", ("",), "v1", "pods/eviction", ("CREATE",)))
    for kind, entries in ((MUTATING, mutating), (VALIDATING, validating)):
        webhooks = [
            {
                "name": f"{path}.cotenant.io",
                "clientConfig": _reached(client, path, bundle),
                "rules": [
                    {
                        "apiGroups": list(groups),
                        "apiVersions": [version],
                        "operations": list(operations),
                        "resources": [plural, *_ALSO.get(path, ())],
                        "scope": "*",
                    }
                ],
                "namespaceSelector": {"matchExpressions": [_besides(rules.exempt)]},
                "failurePolicy": "Ignore" if plural.endswith("/status") else failure_policy,
                "matchPolicy": "Equivalent",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_S,
                "admissionReviewVersions": ["v1"],
                **({"reinvocationPolicy": "IfNeeded"} if path == "mutate-pod" and not rules.draws_by_pod else {}),
            }
            for path, groups, version, plural, operations in entries
        ]
        for webhook, entry in zip(webhooks, entries, strict=True):
            if entry[3] == "pods/eviction":  # of agents alone, everywhere, and never let through unseen
                del webhook["namespaceSelector"]
                expression = f"request.userInfo.username == '{rules.agents}'"
                conditions = [{"name": "by-an-agent", "expression": expression}]
                webhook |= {"failurePolicy": "Fail", "matchConditions": conditions}
        made.append(
            (
                kind,
                {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": NAME}, "webhooks": webhooks},
            )
        )
    return tuple(made)


def _reached(client: JsonObject, path: str, bundle: str) -> dict[str, object]:
    if "url" in client:
        found: JsonObject = {"url": f"{client['url'].rstrip('/')}/{path}"}
    else:
        found = {"service": client["service"] | {"path": f"/{path}"}}
    return found | ({"caBundle": bundle} if bundle else {})


def _besides(namespaces: Iterable[str]) -> dict[str, object]:
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(namespaces)}
