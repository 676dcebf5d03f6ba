"""Which labels of a node, or which of a pod's own requirements, stand between the two, and how either would be changed.

"label kubernetes.io/hostname=b" is no help: a label that identifies or describes a node must not be changed. Keys of
Kubernetes' own domains and topology keys are requirements to be dropped from the pod; other keys are labels that the
node may be given.
Limits: of several required terms, the one with the fewest unmet expressions is considered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod

_ANY_VALUE = "true"


def describes_a_node(key: str) -> bool:
    """Whether a label says what or where a node is, such as its host name, zone, or instance type. Such a label is
    not changed to have a pod placed.
    """
    domain, slash, _ = key.partition("/")
    return bool(slash) and (
        domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("topology.")
    )


@dataclass(frozen=True, slots=True)
class Unmet:
    """What a node lacks of a pod's selector and required node affinity. `fixed`: by field, or by something that
    cannot be expressed as a label.
    """

    requirements: tuple[Requirement, ...] = ()
    fixed: bool = False

    @property
    def is_identity(self) -> bool:
        """Whether every requirement is about what the node is."""
        return all(describes_a_node(requirement.key) for requirement in self.requirements)

    @property
    def has_identity(self) -> bool:
        """Whether any requirement is about what the node is."""
        return any(describes_a_node(requirement.key) for requirement in self.requirements)


def unmet(pod: Pod, node: Node) -> Unmet:
    """What the node lacks for the pod's selector, and for the required affinity term with the fewest misses."""
    lacking = [
        Requirement(key, SelectorOperator.IN, (value,))
        for key, value in pod.node_selector
        if node.labels.get(key) != value
    ]
    affinity, fixed = pod.node_affinity, False
    if affinity is not None and affinity.required is not None and not affinity.required.matches(node.name, node.labels):
        terms = [_unmet_of(term, node) for term in affinity.required.terms]
        movable = [expressions for expressions, by_field in terms if expressions and not by_field]
        fixed = not movable
        fewest: list[Requirement] = min(movable, key=len) if movable else []
        lacking += fewest
    return Unmet(tuple(dict.fromkeys(lacking)), fixed)


def _unmet_of(term: NodeSelectorTerm, node: Node) -> tuple[list[Requirement], bool]:
    expressions = [expression for expression in term.expressions if not expression.matches(node.labels)]
    return expressions, not all(field.holds_for(node.name) for field in term.fields)


def relabelled(node: Node, requirements: tuple[Requirement, ...]) -> Node:
    """The node with labels that meet these requirements."""
    labels = dict(node.labels.items)
    for requirement in requirements:
        match requirement.operator:
            case SelectorOperator.IN:
                labels[requirement.key] = requirement.values[0]
            case SelectorOperator.EXISTS:
                labels[requirement.key] = _ANY_VALUE
            case SelectorOperator.GT:
                labels[requirement.key] = str(int(requirement.values[0]) + 1)
            case SelectorOperator.LT:
                labels[requirement.key] = str(int(requirement.values[0]) - 1)
            case SelectorOperator.NOT_IN | SelectorOperator.DOES_NOT_EXIST:
                labels.pop(requirement.key, None)
    return replace(node, labels=Labels.of(labels))


def without_requirements(pod: Pod, requirements: tuple[Requirement, ...]) -> Pod:
    """The pod without these requirements of its selector and of every required affinity term."""
    selector = Labels.of(
        pair for pair in pod.node_selector if Requirement(pair[0], SelectorOperator.IN, (pair[1],)) not in requirements
    )
    affinity = pod.node_affinity
    if affinity is not None and affinity.required is not None:
        terms = [
            NodeSelectorTerm(
                tuple(expression for expression in term.expressions if expression not in requirements), term.fields
            )
            for term in affinity.required.terms
        ]
        is_any = any(not (term.expressions or term.fields) for term in terms)
        required = None if is_any else NodeSelector(tuple(terms))
        affinity = NodeAffinity(required, affinity.preferred) if required is not None or affinity.preferred else None
    return replace(pod, node_selector=selector, node_affinity=affinity)


def as_labels(requirements: tuple[Requirement, ...]) -> str:
    """What to do to a node: `label zone=1 and disk=fast`, `remove the label gpu`."""
    added = [
        _text(requirement)
        for requirement in requirements
        if requirement.operator not in (SelectorOperator.NOT_IN, SelectorOperator.DOES_NOT_EXIST)
    ]
    removed = [
        requirement.key
        for requirement in requirements
        if requirement.operator in (SelectorOperator.NOT_IN, SelectorOperator.DOES_NOT_EXIST)
    ]
    parts = [f"label {' and '.join(added)}"] if added else []
    parts += [f"remove the label{'s' if len(removed) > 1 else ''} {' and '.join(removed)}"] if removed else []
    return " and ".join(parts)


def as_requirements(requirements: tuple[Requirement, ...]) -> str:
    """What the pod asks for: `zone=1 and no gpu`."""
    return " and ".join(_text(requirement) for requirement in requirements)


def _text(requirement: Requirement) -> str:
    values = ", ".join(requirement.values)
    match requirement.operator:
        case SelectorOperator.IN:
            return f"{requirement.key}={values}" if len(requirement.values) == 1 else f"{requirement.key} in ({values})"
        case SelectorOperator.NOT_IN:
            return f"{requirement.key} not in ({values})"
        case SelectorOperator.EXISTS:
            return f"{requirement.key} (any value)"
        case SelectorOperator.DOES_NOT_EXIST:
            return f"no {requirement.key}"
        case SelectorOperator.GT:
            return f"{requirement.key} above {values}"
        case SelectorOperator.LT:
            return f"{requirement.key} below {values}"
