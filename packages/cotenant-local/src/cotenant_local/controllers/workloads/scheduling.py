"""Node selection outside the scheduler: DaemonSets, the kubelet's admission, taint eviction.

The rules are in model/cluster/{affinity,taints,labels}.py; this module translates API views into them. An expression
that the API server should have rejected matches nothing here. Source: Kubernetes documentation "Assigning Pods to
Nodes", "Taints and Tolerations", "DaemonSet".
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.errors import InvalidInput
from cotenant_local.controllers.views.nodes import NodeObjectView, TaintView
from cotenant_local.controllers.views.pods import (
    NodeExpression,
    NodeSelectorView,
    NodeTerm,
    PodSpecView,
    TolerationView,
)

# tolerations added to every DaemonSet pod
DAEMON_TOLERATIONS = (
    TolerationView("node.kubernetes.io/not-ready", "Exists", effect="NoExecute"),
    TolerationView("node.kubernetes.io/unreachable", "Exists", effect="NoExecute"),
    TolerationView("node.kubernetes.io/disk-pressure", "Exists", effect="NoSchedule"),
    TolerationView("node.kubernetes.io/memory-pressure", "Exists", effect="NoSchedule"),
    TolerationView("node.kubernetes.io/pid-pressure", "Exists", effect="NoSchedule"),
    TolerationView("node.kubernetes.io/unschedulable", "Exists", effect="NoSchedule"),
)


def tolerates(tolerations: Iterable[TolerationView], taint: TaintView) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(covers(t, taint) for t in tolerations)


def covers(toleration: TolerationView, taint: TaintView) -> bool:
    """Whether this toleration covers the taint."""
    try:
        rule = Toleration(
            toleration.key,
            Match(toleration.operator or "Equal"),
            toleration.value,
            TaintEffect(toleration.effect) if toleration.effect else None,
        )
        return rule.tolerates(Taint(taint.key, taint.value, TaintEffect(taint.effect)))
    except (InvalidInput, ValueError):
        return False


def selects_node(selector: NodeSelectorView | None, name: str, labels: dict[str, str]) -> bool:
    """Whether a selector matches a node with this name and these labels; None matches every node."""
    if selector is None:
        return True
    node_labels = Labels.of(labels)
    return any(_term(term, name, node_labels) for term in selector.node_selector_terms)


def affinity_matches(spec: PodSpecView, node: NodeObjectView) -> bool:
    """Whether a node matches the pod's nodeSelector and required node affinity."""
    labels = node.metadata.labels
    if any(labels.get(k) != v for k, v in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return selects_node(affinity.required if affinity else None, node.metadata.name, labels)


def _term(term: NodeTerm, name: str, labels: Labels) -> bool:
    try:
        expressions = tuple(_requirement(e) for e in term.match_expressions)
        fields = tuple(_requirement(f) for f in term.match_fields)
        return NodeSelectorTerm(expressions, fields).matches(name, labels)
    except (InvalidInput, ValueError):
        return False


def _requirement(expression: NodeExpression) -> Requirement:
    return Requirement(expression.key, SelectorOperator(expression.operator), expression.values)


def pinned_node(spec: PodSpecView) -> str:
    """The node of a DaemonSet's pod: where it is bound, else the name in its node affinity, else empty."""
    if spec.node_name:
        return spec.node_name
    affinity = spec.affinity.node_affinity if spec.affinity else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        for field in term.match_fields:
            if field.key == NAME_FIELD and field.operator == "In" and len(field.values) == 1:
                return field.values[0]
    return ""
