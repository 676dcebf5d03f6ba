"""Selectors, affinities, tolerations and spread constraints as the API writes them, as the model's values.

Problem: the API's lists have empty and absent cases that mean different things, and values that a mistaken client may have written. Choice:
one function each; what the API's documentation leaves to a default is filled in here, and anything it does not allow raises `InvalidInput`
with the field's path. `matchLabelKeys` and `mismatchLabelKeys` are resolved against the pod's own labels into the selector, as the API
server itself does where it is recent; doing it twice changes nothing.
Limits: the cluster's default spread constraints (kube-scheduler's `defaultConstraints`) are a setting of a scheduler, not of a pod: not here.
Source: Kubernetes API reference (Affinity, Toleration, TopologySpreadConstraint, LabelSelector).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from cotenant.drivers.kube.kinds import objects
from cotenant.model.cluster.affinity import (
    NodeAffinity,
    NodePolicy,
    NodeSelector,
    NodeSelectorTerm,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from cotenant.model.cluster.labels import LabelSelector, Operator, Requirement
from cotenant.model.cluster.taints import Effect, Match, Taint, Toleration
from cotenant.model.errors import InvalidInput

E = TypeVar("E", bound=Enum)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def one_of(form: type[E], text: str, field: str) -> E:
    """The member of an enumeration with this value."""
    try:
        return form(text)
    except ValueError:
        raise InvalidInput(field, text, " or ".join(str(member.value) for member in form)) from None


def expressions(written: Iterable[objects.Expression] | None, field: str) -> tuple[Requirement, ...]:
    """matchExpressions or matchFields."""
    return tuple(
        Requirement(e.key, one_of(Operator, e.operator, f"{field}[{i}].operator"), e.values or ())
        for i, e in enumerate(written or ())
    )


def label_selector(written: objects.Selector | None, field: str) -> LabelSelector | None:
    """An absent selector selects nothing (None), an empty one everything."""
    if written is None:
        return None
    return LabelSelector.of(
        written.match_labels or {}, expressions(written.match_expressions, f"{field}.matchExpressions")
    )


def selector_term(written: objects.SelectorTerm, field: str) -> NodeSelectorTerm:
    """One term over a node's labels and name."""
    return NodeSelectorTerm(
        expressions(written.match_expressions, f"{field}.matchExpressions"),
        expressions(written.match_fields, f"{field}.matchFields"),
    )


def node_selector(written: objects.NodeSelector, field: str) -> NodeSelector:
    """Terms of which one must hold."""
    terms = written.node_selector_terms or ()
    return NodeSelector(tuple(selector_term(term, f"{field}.nodeSelectorTerms[{i}]") for i, term in enumerate(terms)))


def node_affinity(written: objects.NodeAffinity, field: str) -> NodeAffinity | None:
    """Demands and wishes; a wish without any expression is worth nothing, as the API says, and is left out."""
    required = None if written.required is None else node_selector(written.required, f"{field}.{_REQUIRED}")
    preferred = []
    for i, wish in enumerate(written.preferred or ()):
        where = f"{field}.{_PREFERRED}[{i}]"
        term = selector_term(wish.preference or objects.SelectorTerm(), f"{where}.preference")
        if term.expressions or term.fields:
            preferred.append(PreferredTerm(wish.weight, term))
    return NodeAffinity(required, tuple(preferred)) if required is not None or preferred else None


def pod_terms(written: objects.PodAffinity, labels: Mapping[str, str], field: str) -> tuple[PodTerm, ...]:
    """Required terms, then preferred ones. `labels` are those of the pod that has the terms."""
    terms = [
        _pod_term(term, None, labels, f"{field}.{_REQUIRED}[{i}]") for i, term in enumerate(written.required or ())
    ]
    for i, wish in enumerate(written.preferred or ()):
        where = f"{field}.{_PREFERRED}[{i}]"
        if wish.pod_affinity_term is None:
            raise InvalidInput(f"{where}.podAffinityTerm", "", "a term")
        terms.append(_pod_term(wish.pod_affinity_term, wish.weight, labels, f"{where}.podAffinityTerm"))
    return tuple(terms)


def _pod_term(written: objects.PodAffinityTerm, weight: int | None, labels: Mapping[str, str], field: str) -> PodTerm:
    selector = label_selector(written.label_selector, f"{field}.labelSelector")
    selector = _with_keys(selector, written.match_label_keys, Operator.IN, labels)
    selector = _with_keys(selector, written.mismatch_label_keys, Operator.NOT_IN, labels)
    return PodTerm(
        topology_key=written.topology_key,
        selector=selector,
        namespaces=written.namespaces or (),
        weight=weight,
        namespace_selector=label_selector(written.namespace_selector, f"{field}.namespaceSelector"),
    )


def spread_constraints(
    written: Iterable[objects.SpreadConstraint], labels: Mapping[str, str], field: str
) -> tuple[SpreadConstraint, ...]:
    """Topology spread with the API's defaults: one domain is enough, node affinity is honoured, taints are not."""
    found = []
    for i, constraint in enumerate(written):
        where = f"{field}[{i}]"
        selector = label_selector(constraint.label_selector, f"{where}.labelSelector")
        found.append(
            SpreadConstraint(
                topology_key=constraint.topology_key,
                selector=_with_keys(selector, constraint.match_label_keys, Operator.IN, labels),
                max_skew=constraint.max_skew,
                when_unsatisfiable=one_of(
                    WhenUnsatisfiable, constraint.when_unsatisfiable, f"{where}.whenUnsatisfiable"
                ),
                min_domains=1 if constraint.min_domains is None else constraint.min_domains,
                node_affinity_policy=_policy(
                    constraint.node_affinity_policy, NodePolicy.HONOR, f"{where}.nodeAffinityPolicy"
                ),
                node_taints_policy=_policy(
                    constraint.node_taints_policy, NodePolicy.IGNORE, f"{where}.nodeTaintsPolicy"
                ),
            )
        )
    return tuple(found)


def tolerations(written: Iterable[objects.Toleration], field: str) -> tuple[Toleration, ...]:
    """Tolerations; the operator is Equal where none is given."""
    return tuple(
        Toleration(
            toleration.key or "",
            one_of(Match, toleration.operator or "Equal", f"{field}[{i}].operator"),
            toleration.value or "",
            one_of(Effect, toleration.effect, f"{field}[{i}].effect") if toleration.effect else None,
        )
        for i, toleration in enumerate(written)
    )


def taints(written: Iterable[objects.Taint], field: str) -> tuple[Taint, ...]:
    """A node's taints."""
    return tuple(
        Taint(taint.key, taint.value or "", one_of(Effect, taint.effect, f"{field}[{i}].effect"))
        for i, taint in enumerate(written)
    )


def topology_terms(written: Iterable[objects.TopologyTerm], field: str) -> NodeSelector:
    """A storage class's allowedTopologies: one of the terms, all of whose keys have one of the values."""
    terms = []
    for i, term in enumerate(written):
        keys = term.match_label_expressions or ()
        if any(not expression.values for expression in keys):
            raise InvalidInput(f"{field}[{i}].matchLabelExpressions", "", "at least one value")
        terms.append(NodeSelectorTerm(tuple(Requirement(e.key, Operator.IN, e.values or ()) for e in keys)))
    return NodeSelector(tuple(terms))


def _policy(text: str | None, default: NodePolicy, field: str) -> NodePolicy:
    return default if not text else one_of(NodePolicy, text, field)


def _with_keys(
    selector: LabelSelector | None, keys: Iterable[str] | None, operator: Operator, labels: Mapping[str, str]
) -> LabelSelector | None:
    """The selector narrowed by the pod's own values of some keys; keys that the pod lacks are ignored, as the API says."""
    if selector is None or not keys:
        return selector
    more = tuple(Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    return LabelSelector((*selector.requirements, *(r for r in more if r not in selector.requirements)))
