"""Affinity, anti-affinity and topology spread: as the API writes them, and read as the model's values.

The API's lists have empty and absent cases that mean different things, and values that a mistaken client may have
written. One function each; what the API's documentation leaves to a default is filled in here, and anything it does not
allow raises `InvalidInput` with the field's path. `matchLabelKeys` and `mismatchLabelKeys` are resolved against the
pod's own labels into the selector, as the API server itself does where it is recent; doing it twice changes nothing.
Limits: the cluster's default spread constraints (kube-scheduler's `defaultConstraints`) are a setting of a scheduler,
not of a pod: not here.
Source: Kubernetes API reference (Affinity, TopologySpreadConstraint).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import field

from cotenant.drivers.kube.kinds.kind import ApiStruct, Int32, Text
from cotenant.drivers.kube.kinds.selectors import (
    ApiNodeSelector,
    Selector,
    SelectorTerm,
    one_of,
    read_label_selector,
    read_node_selector,
    read_selector_term,
)
from cotenant.model.cluster import affinity as model
from cotenant.model.cluster.labels import LabelSelector, Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MAX_PREFERRED = 256  # terms of preferred node affinity; a pod with more is not scheduled
MAX_KEYS = 256  # topology keys of a pod's affinity, or of its anti-affinity: nodes have a few dozen labels
MAX_WIDE = 1024  # terms of either that name no label which the selected pods have
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PreferredNodes(ApiStruct, frozen=True):
    """PreferredSchedulingTerm."""

    weight: Int32 = 0
    preference: SelectorTerm | None = None


class ApiNodeAffinity(ApiStruct, frozen=True):
    """Requirements and preferences about nodes."""

    required: ApiNodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodes, ...] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(ApiStruct, frozen=True):
    """Which pods, in which topology."""

    topology_key: str = ""
    label_selector: Selector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: Selector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodTerm(ApiStruct, frozen=True):
    """A preferred PodAffinityTerm."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(ApiStruct, frozen=True):
    """Requirements and preferences about co-located pods; the same form for affinity and anti-affinity."""

    required: tuple[PodAffinityTerm, ...] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodTerm, ...] | None = field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(ApiStruct, frozen=True):
    """The three affinities of a pod."""

    node_affinity: ApiNodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class ApiSpreadConstraint(ApiStruct, frozen=True):
    """TopologySpreadConstraint."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Selector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: Text = None
    node_taints_policy: Text = None
    match_label_keys: tuple[str, ...] | None = None


def read_node_affinity(written: ApiNodeAffinity, field: str) -> model.NodeAffinity | None:
    """Requirements and preferences; a preference without any expression has no effect, as the API says, and is left
    out.
    """
    required = None if written.required is None else read_node_selector(written.required, f"{field}.{_REQUIRED}")
    if len(written.preferred or ()) > MAX_PREFERRED:
        raise InvalidInput(
            f"{field}.{_PREFERRED}",
            f"{len(written.preferred or ())} terms",
            f"at most {MAX_PREFERRED}",
            "each is a bit of every node",
        )
    preferred = []
    for i, preference in enumerate(written.preferred or ()):
        where = f"{field}.{_PREFERRED}[{i}]"
        term = read_selector_term(preference.preference or SelectorTerm(), f"{where}.preference")
        if term.expressions or term.fields:
            preferred.append(model.PreferredTerm(preference.weight, term))
    return model.NodeAffinity(required, tuple(preferred)) if required is not None or preferred else None


def read_pod_terms(written: PodAffinity, labels: Mapping[str, str], field: str) -> tuple[model.PodTerm, ...]:
    """Required terms, then preferred ones. `labels` are those of the pod that has the terms."""
    terms = [
        _pod_term(term, None, labels, f"{field}.{_REQUIRED}[{i}]") for i, term in enumerate(written.required or ())
    ]
    for i, preference in enumerate(written.preferred or ()):
        where = f"{field}.{_PREFERRED}[{i}]"
        if preference.pod_affinity_term is None:
            raise InvalidInput(f"{where}.podAffinityTerm", "", "a term")
        terms.append(_pod_term(preference.pod_affinity_term, preference.weight, labels, f"{where}.podAffinityTerm"))
    if len(terms) > MAX_KEYS:
        _refuse_costly(terms, field)
    return tuple(terms)


def _refuse_costly(terms: Sequence[model.PodTerm], field: str) -> None:
    keys = len({term.topology_key for term in terms})
    if keys > MAX_KEYS:
        raise InvalidInput(field, f"{keys} topology keys", f"at most {MAX_KEYS}", "each is looked at on every node")
    wide = sum(term.needed_label() is None for term in terms)
    if wide > MAX_WIDE:
        raise InvalidInput(
            field,
            f"{wide} terms that name no label",
            f"at most {MAX_WIDE}",
            "each is compared with every pod; matchLabels, In and Exists name a label",
        )


def _pod_term(written: PodAffinityTerm, weight: int | None, labels: Mapping[str, str], field: str) -> model.PodTerm:
    selector = read_label_selector(written.label_selector, f"{field}.labelSelector")
    selector = _with_keys(selector, written.match_label_keys, SelectorOperator.IN, labels)
    selector = _with_keys(selector, written.mismatch_label_keys, SelectorOperator.NOT_IN, labels)
    return model.PodTerm(
        topology_key=written.topology_key,
        selector=selector,
        namespaces=written.namespaces or (),
        weight=weight,
        namespace_selector=read_label_selector(written.namespace_selector, f"{field}.namespaceSelector"),
    )


def read_spread_constraints(
    written: Iterable[ApiSpreadConstraint], labels: Mapping[str, str], field: str
) -> tuple[model.SpreadConstraint, ...]:
    """Topology spread with the API's defaults: one domain is enough, node affinity is honoured, taints are not."""
    found = []
    for i, constraint in enumerate(written):
        where = f"{field}[{i}]"
        selector = read_label_selector(constraint.label_selector, f"{where}.labelSelector")
        found.append(
            model.SpreadConstraint(
                topology_key=constraint.topology_key,
                selector=_with_keys(selector, constraint.match_label_keys, SelectorOperator.IN, labels),
                max_skew=constraint.max_skew,
                when_unsatisfiable=one_of(
                    model.WhenUnsatisfiable, constraint.when_unsatisfiable, f"{where}.whenUnsatisfiable"
                ),
                min_domains=1 if constraint.min_domains is None else constraint.min_domains,
                node_affinity_policy=_policy(
                    constraint.node_affinity_policy, model.NodeInclusionPolicy.HONOR, f"{where}.nodeAffinityPolicy"
                ),
                node_taints_policy=_policy(
                    constraint.node_taints_policy, model.NodeInclusionPolicy.IGNORE, f"{where}.nodeTaintsPolicy"
                ),
            )
        )
    return tuple(found)


def _policy(text: str | None, default: model.NodeInclusionPolicy, field: str) -> model.NodeInclusionPolicy:
    return default if not text else one_of(model.NodeInclusionPolicy, text, field)


def _with_keys(
    selector: LabelSelector | None, keys: Iterable[str] | None, operator: SelectorOperator, labels: Mapping[str, str]
) -> LabelSelector | None:
    """The selector narrowed by the pod's own values of some keys; keys that the pod lacks are ignored, as the API
    says.
    """
    if selector is None or not keys:
        return selector
    more = tuple(Requirement(key, operator, (labels[key],)) for key in keys if key in labels)
    here = frozenset(selector.requirements)
    return LabelSelector((*selector.requirements, *(r for r in more if r not in here)))
