"""Where a pod may run and prefers to run, as values: node affinity, affinity and anti-affinity between pods, topology
spread.

These features are nested lists whose empty cases differ in meaning. Frozen values that document each empty case; rules
that need the whole cluster (affinity between pods, spread) are evaluated in policy/placement.
Limits: `matchLabelKeys` and `mismatchLabelKeys` are not modelled: the reader of a manifest merges them into the
selector, as the API server does.
Source: Kubernetes API reference (NodeAffinity, PodAffinity, PodAntiAffinity, TopologySpreadConstraint).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.cluster.labels import NO_LABELS, Labels, LabelSelector, Requirement, SelectorOperator, lookup
from cotenant.model.errors import InvalidInput

NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """All expressions over labels and all expressions over fields must hold. An empty term matches no node."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def __post_init__(self) -> None:
        for requirement in self.fields:
            if requirement.key != NAME_FIELD:
                raise InvalidInput("matchFields", requirement.key, NAME_FIELD)
            if (
                requirement.operator not in (SelectorOperator.IN, SelectorOperator.NOT_IN)
                or len(requirement.values) != 1
            ):
                raise InvalidInput("matchFields", requirement.operator.value, "In or NotIn with exactly one name")

    def matches(self, name: str, labels: Labels) -> bool:
        """Whether a node of this name with these labels satisfies the term."""
        if not (self.expressions or self.fields):
            return False
        return all(e.matches(labels) for e in self.expressions) and all(f.holds_for(name) for f in self.fields)


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms, ORed. Without terms it matches no node."""

    terms: tuple[NodeSelectorTerm, ...]

    def matches(self, name: str, labels: Labels) -> bool:
        """Whether a node of this name with these labels satisfies any term."""
        return any(term.matches(name, labels) for term in self.terms)


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A node selector term with its weight, 1 to 100."""

    weight: int
    term: NodeSelectorTerm

    def __post_init__(self) -> None:
        if isinstance(self.weight, bool) or not 1 <= self.weight <= 100:
            raise InvalidInput("preferred node affinity weight", self.weight, "1 to 100")


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Required and preferred node affinity of a pod."""

    required: NodeSelector | None = None
    preferred: tuple[PreferredTerm, ...] = ()

    @property
    def pinned(self) -> str | None:
        """The one node name that every required term selects by field, as for a DaemonSet's pods; None = no such
        name.
        """
        terms = self.required.terms if self.required is not None else ()
        fields = {term.fields for term in terms}
        if len(fields) != 1:
            return None
        (only,) = fields
        return only[0].values[0] if len(only) == 1 and only[0].operator is SelectorOperator.IN else None

    def unpinned(self) -> NodeAffinity | None:
        """The affinity without the node name that `pinned` returns; the same value where there is none, None where
        nothing remains.
        """
        if self.required is None or self.pinned is None:
            return self
        rest = tuple(NodeSelectorTerm(term.expressions) for term in self.required.terms)
        required = NodeSelector(rest) if all(term.expressions for term in rest) else None
        return NodeAffinity(required, self.preferred) if required is not None or self.preferred else None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One term of pod affinity (`Pod.affinity`) or anti-affinity (`Pod.anti_affinity`). No selector selects no pod.

    It applies to the listed namespaces and those whose labels `namespace_selector` selects; with neither, to the pod's
    own namespace.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    weight: int | None = None  # None = required; 1..100 = preferred
    namespace_selector: LabelSelector | None = None  # an empty one selects every namespace
    _among: Container[str] = field(init=False, repr=False, compare=False, default=())  # the namespaces, to be looked up

    def __post_init__(self) -> None:
        if self.namespaces:
            object.__setattr__(self, "_among", lookup(self.namespaces))
        if not self.topology_key:
            raise InvalidInput("podAffinity", "", "a topologyKey")
        if self.weight is not None and not 1 <= self.weight <= 100:
            raise InvalidInput("preferred pod affinity weight", self.weight, "1 to 100")

    def about_namespace(self, own_namespace: str, namespace: str, namespace_labels: Labels = NO_LABELS) -> bool:
        """Whether the term of a pod of `own_namespace` applies to pods of `namespace`, which has these labels."""
        if self.namespace_selector is None:
            return namespace in self._among if self.namespaces else namespace == own_namespace
        return namespace in self._among or self.namespace_selector.matches(namespace_labels)

    def needed_label(self) -> Requirement | None:
        """A label that every selected pod has, with one of these values if there are any (the fewest that the selector
        offers); None = there is none.

        A term without a selector selects no pod; it is None as well.
        """
        found: Requirement | None = None
        for requirement in self.selector.requirements if self.selector is not None else ():
            if requirement.operator is SelectorOperator.IN:
                if found is None or not found.values or len(requirement.values) < len(found.values):
                    found = requirement
            elif requirement.operator is SelectorOperator.EXISTS and found is None:
                found = requirement
        return found

    def selects(self, own_namespace: str, namespace: str, labels: Labels, namespace_labels: Labels = NO_LABELS) -> bool:
        """Whether the term of a pod of `own_namespace` selects a pod of `namespace` with these labels."""
        if self.selector is None or not self.about_namespace(own_namespace, namespace, namespace_labels):
            return False
        return self.selector.matches(labels)


class WhenUnsatisfiable(StrEnum):
    """Whether a constraint filters nodes or only scores them."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodeInclusionPolicy(StrEnum):
    """Whether nodes excluded by node affinity or taints still count as domains."""

    HONOR = "Honor"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """Counts of selected pods differ by at most `max_skew` between the domains of a topology key.

    Neither no selector nor an empty one counts a pod: kube-scheduler skips the count for a selector without
    requirements.
    """

    topology_key: str
    selector: LabelSelector | None
    max_skew: int = 1
    when_unsatisfiable: WhenUnsatisfiable = WhenUnsatisfiable.DO_NOT_SCHEDULE
    min_domains: int = 1
    node_affinity_policy: NodeInclusionPolicy = NodeInclusionPolicy.HONOR
    node_taints_policy: NodeInclusionPolicy = NodeInclusionPolicy.IGNORE

    def __post_init__(self) -> None:
        if not self.topology_key:
            raise InvalidInput("topologySpreadConstraints", "", "a topologyKey")
        for name, value in (("maxSkew", self.max_skew), ("minDomains", self.min_domains)):
            if isinstance(value, bool) or value < 1:
                raise InvalidInput(f"topologySpreadConstraints.{name}", value, "1 or more")

    @property
    def forbids(self) -> bool:
        """Whether a node that violates it is infeasible."""
        return self.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE

    def selects(self, labels: Labels) -> bool:
        """Whether a pod with these labels is counted."""
        return self.selector is not None and bool(self.selector.requirements) and self.selector.matches(labels)
