"""Scheduling directives of a pod: affinity, tolerations, topology spread, scheduling gates.

Sources: Kubernetes API reference (Affinity, Toleration, TopologySpreadConstraint, PodSchedulingGate) and their
validation messages.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors
from cotenant_local.apiserver.schema.kinds.selectors import label_selector, node_selector, node_term

EFFECTS = frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"})
_WHEN = frozenset({"DoNotSchedule", "ScheduleAnyway"})
_POLICIES = frozenset({"Honor", "Ignore"})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check node and pod (anti-)affinity."""
    node = affinity.get("nodeAffinity")
    if node:
        if _REQUIRED in node:
            node_selector(node[_REQUIRED], f"{field}.nodeAffinity.{_REQUIRED}", causes)
        for index, entry in enumerate(node.get(_PREFERRED, ())):
            here = f"{field}.nodeAffinity.{_PREFERRED}[{index}]"
            _check_weight(entry, here, causes)
            node_term(entry.get("preference", {}), f"{here}.preference", causes)
    for name in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(name)
        if pods:
            for index, term in enumerate(pods.get(_REQUIRED, ())):
                _check_pod_term(term, f"{field}.{name}.{_REQUIRED}[{index}]", causes)
            for index, pod in enumerate(pods.get(_PREFERRED, ())):
                here = f"{field}.{name}.{_PREFERRED}[{index}]"
                _check_weight(pod, here, causes)
                _check_pod_term(pod.get("podAffinityTerm", {}), f"{here}.podAffinityTerm", causes)


def _check_weight(preference: Manifest, field: str, causes: list[FieldError]) -> None:
    weight = preference.get("weight", 0)
    if not 1 <= weight <= 100:
        causes.append(field_errors.invalid(f"{field}.weight", weight, "must be in the range 1-100"))


def _check_pod_term(term: Manifest, field: str, causes: list[FieldError]) -> None:
    key = term.get("topologyKey")
    if not key:
        causes.append(field_errors.required(f"{field}.topologyKey", "can not be empty"))
    elif why := field_errors.key_problem(key):
        causes.append(field_errors.invalid(f"{field}.topologyKey", key, why))
    for name in ("labelSelector", "namespaceSelector"):
        if name in term:
            label_selector(term[name], f"{field}.{name}", causes)
    causes += [
        field_errors.invalid(f"{field}.namespace", name, why)
        for name in term.get("namespaces", ())
        if (why := field_errors.label_problem(name))
    ]


def check_tolerations(tolerations: list[Manifest], field: str, causes: list[FieldError]) -> None:
    """Check tolerations."""
    for index, toleration in enumerate(tolerations):
        key, operator, effect = toleration.get("key"), toleration.get("operator", "Equal"), toleration.get("effect")
        if key:
            if why := field_errors.key_problem(key):
                causes.append(field_errors.invalid(f"{field}[{index}].key", key, why))
        elif operator != "Exists":
            causes.append(
                field_errors.invalid(
                    f"{field}[{index}].operator",
                    operator,
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            causes.append(
                field_errors.invalid(
                    f"{field}[{index}].effect",
                    effect or "",
                    "effect must be 'NoExecute' when `tolerationSeconds` is set",
                )
            )
        if operator == "Exists":
            if toleration.get("value"):
                causes.append(
                    field_errors.invalid(
                        f"{field}[{index}].operator", toleration, "value must be empty when `operator` is 'Exists'"
                    )
                )
        elif operator == "Equal":
            if why := field_errors.value_problem(toleration.get("value", "")):
                causes.append(field_errors.invalid(f"{field}[{index}].operator", toleration["value"], why))
        else:
            causes.append(field_errors.unsupported(f"{field}[{index}].operator", operator, ("Equal", "Exists")))
        if effect and effect not in EFFECTS:
            causes.append(field_errors.unsupported(f"{field}[{index}].effect", effect, EFFECTS))


def check_spread(constraints: list[Manifest], field: str, causes: list[FieldError]) -> None:
    """Check topology spread constraints."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        here = f"{field}[{index}]"
        skew, key, when = (
            constraint.get("maxSkew", 0),
            constraint.get("topologyKey"),
            constraint.get("whenUnsatisfiable"),
        )
        if skew <= 0:
            causes.append(field_errors.invalid(f"{here}.maxSkew", skew, "must be greater than zero"))
        if not key:
            causes.append(field_errors.required(f"{here}.topologyKey", "can not be empty"))
        elif why := field_errors.key_problem(key):
            causes.append(field_errors.invalid(f"{here}.topologyKey", key, why))
        if when not in _WHEN:
            causes.append(field_errors.unsupported(f"{here}.whenUnsatisfiable", when or "", _WHEN))
        elif (str(key), when) in seen:
            causes.append(field_errors.duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
        else:
            seen.add((str(key), when))
        min_domains = constraint.get("minDomains")
        if min_domains is not None:
            if min_domains <= 0:
                causes.append(field_errors.invalid(f"{here}.minDomains", min_domains, "must be greater than 0"))
            if when != "DoNotSchedule":
                causes.append(
                    field_errors.invalid(
                        f"{here}.minDomains",
                        min_domains,
                        f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}",
                    )
                )
        causes += [
            field_errors.unsupported(f"{here}.{name}", constraint[name], _POLICIES)
            for name in ("nodeAffinityPolicy", "nodeTaintsPolicy")
            if name in constraint and constraint[name] not in _POLICIES
        ]
        if "labelSelector" in constraint:
            label_selector(constraint["labelSelector"], f"{here}.labelSelector", causes)


def check_gates(gates: list[Manifest], field: str, causes: list[FieldError]) -> None:
    """Check scheduling gates."""
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        if not name:
            causes.append(field_errors.required(f"{field}.schedulingGates[{index}].name"))
        elif why := field_errors.key_problem(name):
            causes.append(field_errors.invalid(f"{field}.schedulingGates[{index}].name", name, why))
        elif name in seen:
            causes.append(field_errors.duplicate(f"{field}.schedulingGates[{index}].name", name))
        seen.add(name)
