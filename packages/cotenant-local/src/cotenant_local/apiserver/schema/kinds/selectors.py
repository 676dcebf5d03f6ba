"""Selectors inside objects: label selectors and node selector terms.

Sources: Kubernetes API reference (LabelSelector, NodeSelectorTerm), their validation messages.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant_local.apiserver.schema.kinds import field_errors

_SET = ("In", "NotIn")
_PRESENCE = ("Exists", "DoesNotExist")
_ORDER = ("Gt", "Lt")


def label_selector(selector: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a label selector."""
    pairs = selector.get("matchLabels")
    if pairs:
        field_errors.labels(pairs, f"{field}.matchLabels", causes)
    for index, entry in enumerate(selector.get("matchExpressions", ())):
        here = f"{field}.matchExpressions[{index}]"
        operator, values = entry.get("operator"), entry.get("values")
        if operator in _SET:
            if not values:
                causes.append(
                    field_errors.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
                )
        elif operator in _PRESENCE:
            if values:
                causes.append(
                    field_errors.forbidden(
                        f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                    )
                )
        else:
            causes.append(field_errors.invalid(f"{here}.operator", operator or "", "not a valid selector operator"))
        if why := field_errors.key_problem(entry.get("key", "")):
            causes.append(field_errors.invalid(f"{here}.key", entry.get("key", ""), why))
        for position, value in enumerate(values or ()):
            if why := field_errors.value_problem(value):
                causes.append(field_errors.invalid(f"{here}.values[{position}]", value, why))


def node_selector(selector: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check a required node selector."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        causes.append(field_errors.required(f"{field}.nodeSelectorTerms", "must have at least one node selector term"))
    for index, term in enumerate(terms or ()):
        node_term(term, f"{field}.nodeSelectorTerms[{index}]", causes)


def node_term(term: Manifest, field: str, causes: list[FieldError]) -> None:
    """Check one term of a node selector."""
    for index, entry in enumerate(term.get("matchExpressions", ())):
        here = f"{field}.matchExpressions[{index}]"
        operator, values = entry.get("operator"), entry.get("values") or ()
        if operator in _SET:
            if not values:
                causes.append(
                    field_errors.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
                )
        elif operator in _PRESENCE:
            if values:
                causes.append(
                    field_errors.forbidden(
                        f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                    )
                )
        elif operator in _ORDER:
            if len(values) != 1:
                causes.append(
                    field_errors.required(
                        f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
                    )
                )
        else:
            causes.append(field_errors.invalid(f"{here}.operator", operator or "", "not a valid selector operator"))
        if why := field_errors.key_problem(entry.get("key", "")):
            causes.append(field_errors.invalid(f"{here}.key", entry.get("key", ""), why))
    for index, entry in enumerate(term.get("matchFields", ())):
        here = f"{field}.matchFields[{index}]"
        if entry.get("operator") not in _SET:
            causes.append(
                field_errors.invalid(f"{here}.operator", entry.get("operator", ""), "not a valid selector operator")
            )
        elif len(entry.get("values") or ()) != 1:
            causes.append(
                field_errors.required(
                    f"{here}.values",
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
                )
            )
        if entry.get("key") != "metadata.name":
            causes.append(field_errors.invalid(f"{here}.key", entry.get("key", ""), "not a valid field selector key"))
