"""Changes that may let a pod, or its whole gang, be placed: to a node, to the pod's constraints, or to its requests.

"0 of 5,000 nodes" does not tell which of a dozen changes would help. Every filter was evaluated on every node, so nodes
that only one filter rejects show what to change. The changes found here are proposals: each is tried in a copy of the
engine (question.py), and only those with which the pod is placed are reported. The order is that in which people look:
cordons, labels and selectors, taints, readiness, requests.
Limits: one kind of change at a time (all requests count as one).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cotenant.engine.cycle.rejections import FIT, FilterCheck
from cotenant.engine.explain.label_changes import (
    as_labels,
    as_requirements,
    relabelled,
    unmet,
    without_requirements,
)
from cotenant.engine.explain.requests import lower_requests
from cotenant.engine.explain.what_if import WhatIfView
from cotenant.engine.registry import PluginRegistry
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.labels import UNSCHEDULABLE_TAINT, Requirement
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.taints import Match, Taint, Toleration, tolerated
from cotenant.model.decisions.reasons import NOT_READY
from cotenant.model.resources import Amounts, format_amount

_MAX_COMPARED = 200  # nodes that are compared with the pod one by one
_MAX_NODES = 8  # in one proposal
_MAX_SORTS = 3  # sets of labels or taints, most nodes first
_NAMED = 3
_OF_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")  # taints set by controllers


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change. `on_node` changes each of `nodes`; `on_pod` changes the pod and, as far as it applies, the
    waiting members of its gang.
    """

    what: str  # request | label | selector | taint | node
    verb: str  # the change in words
    nodes: tuple[str, ...]  # that would become feasible for the pod alone
    more: int = 0  # further ones like them
    on_node: Callable[[Node], Node] | None = None
    on_pod: Callable[[ObservedPod], ObservedPod] | None = None


def proposals(
    view: WhatIfView, names: list[str], plugins: PluginRegistry, together: int, most: Amounts
) -> list[Proposal]:
    """Proposals in order of report. `together`: how many pods like this one must be placed at once; `most`: what
    the quota has left for each of them.
    """
    found = [*_single_filter(view, names)]
    lower = lower_requests(view, plugins, names, together, most)
    if lower is not None:
        found.append(_request(view, lower.amounts, tuple(names[row] for row in lower.rows.tolist())))
    order = ("cordon", "label", "selector", "taint", "node", "request")
    found.sort(key=lambda proposal: (order.index(proposal.what), -len(proposal.nodes) - proposal.more))
    return [replace(proposal, what="node") if proposal.what == "cordon" else proposal for proposal in found]


def _request(view: WhatIfView, amounts: Mapping[str, int], nodes: tuple[str, ...]) -> Proposal:
    text = " and ".join(
        f"{format_amount(name, most)} {name} instead of {format_amount(name, view.pod.requests.get(name))}"
        for name, most in amounts.items()
    )

    def ask_less(seen: ObservedPod) -> ObservedPod:
        lower = {name: most for name, most in amounts.items() if seen.pod.requests.get(name) > most}
        return replace(seen, pod=replace(seen.pod, requests=seen.pod.requests.replaced(Amounts.of(lower))))

    return Proposal("request", f"ask for {text}", nodes, on_pod=ask_less)


def _single_filter(view: WhatIfView, names: list[str]) -> Iterator[Proposal]:
    """Nodes that only one filter rejects, by what that filter requires."""
    near = view.checked.here & (view.checked.misses == 1)
    if len(view.allowed):
        near &= view.allowed
    tainted = np.zeros(len(near), dtype=np.bool_)
    for check in view.checked.checks:
        only = near & check.fails
        if (check.plugin == FIT and check.missing is not None) or not only.any():
            continue
        if check.plugin == "TaintToleration":
            tainted |= only  # one check for each taint
        else:
            yield from _by_plugin(check, only, view, names)
    yield from _taints(np.flatnonzero(tainted), view, names)


def _by_plugin(check: FilterCheck, only: Mask, view: WhatIfView, names: list[str]) -> Iterator[Proposal]:
    rows = np.flatnonzero(only)
    if check.plugin == "NodeAffinity":
        yield from _labels(rows, view, names)
    elif check.plugin == "NodeUnschedulable":
        yield _on_nodes("cordon", "uncordon", rows, names, _uncordoned)
    elif check.reason == NOT_READY:
        yield _on_nodes("node", "wait for nodes to be ready", rows, names, _ready)


def _on_nodes(what: str, verb: str, rows: Int, names: list[str], change: Callable[[Node], Node]) -> Proposal:
    named = tuple(names[row] for row in rows[:_MAX_NODES].tolist())
    return Proposal(what, verb, named, len(rows) - len(named), on_node=change)


def _uncordoned(node: Node) -> Node:
    taints = tuple(taint for taint in node.taints if taint.key != UNSCHEDULABLE_TAINT)
    return replace(node, unschedulable=False, taints=taints)


def _ready(node: Node) -> Node:
    taints = tuple(taint for taint in node.taints if not _is_of_a_condition(taint))
    return replace(node, ready=True, taints=taints)


def _is_of_a_condition(taint: Taint) -> bool:
    return taint.key.startswith(_OF_CONDITIONS) and taint.key != UNSCHEDULABLE_TAINT


# ---- taints


def _taints(rows: Int, view: WhatIfView, names: list[str]) -> Iterator[Proposal]:
    """All taints of a node that repel the pod must be tolerated, or go."""
    sorts: dict[tuple[Taint, ...], list[int]] = {}
    for row in rows[:_MAX_COMPARED].tolist():
        taints = view.encoder.node(row).effective_taints
        repelling = tuple(taint for taint in taints if taint.repels and not tolerated(taint, view.pod.tolerations))
        sorts.setdefault(repelling, []).append(row)
    for repelling, some in sorted(sorts.items(), key=lambda pair: -len(pair[1]))[:_MAX_SORTS]:
        words = ", ".join(map(str, repelling))
        if any(map(_is_of_a_condition, repelling)):
            if all(map(_is_of_a_condition, repelling)):
                keys = ", ".join(taint.key for taint in repelling)
                yield _on_nodes("node", f"wait for nodes to lose the taint {keys}", np.array(some), names, _ready)
            continue
        word = "taint" if len(repelling) == 1 else "taints"
        yield _on_pod("taint", f"tolerate the {word} {words}", some, names, _tolerating(repelling))


def _tolerating(taints: tuple[Taint, ...]) -> Callable[[ObservedPod], ObservedPod]:
    more = tuple(
        Toleration(taint.key, Match.EQUAL, taint.value) if taint.value else Toleration(taint.key, Match.EXISTS)
        for taint in taints
    )
    return lambda seen: replace(seen, pod=replace(seen.pod, tolerations=(*seen.pod.tolerations, *more)))


def _on_pod(
    what: str, verb: str, rows: list[int], names: list[str], change: Callable[[ObservedPod], ObservedPod]
) -> Proposal:
    return Proposal(what, verb, tuple(names[row] for row in rows), on_pod=change)


# ---- labels and selectors


def _labels(rows: Int, view: WhatIfView, names: list[str]) -> Iterator[Proposal]:
    """Labels that nodes lack, and requirements about what a node is, which only the pod can give up."""
    if view.pod.pinned is not None:
        return  # a DaemonSet's pod: it is for one node
    to_label: dict[tuple[Requirement, ...], list[int]] = {}
    to_drop: dict[tuple[Requirement, ...], list[int]] = {}
    for row in rows[:_MAX_COMPARED].tolist():
        lacks = unmet(view.pod, view.encoder.node(row))
        if lacks.fixed or not lacks.requirements:
            continue
        if not lacks.has_identity:
            to_label.setdefault(lacks.requirements, []).append(row)
        elif lacks.is_identity:
            to_drop.setdefault(lacks.requirements, []).append(row)
    for requirements, some in _most(to_label):
        change = _labelling(requirements)
        yield _on_nodes("label", as_labels(requirements), np.array(some), names, change)
    for requirements, some in _most(to_drop):
        verb = f"drop its requirement {as_requirements(requirements)}"
        yield _on_pod("selector", verb, some, names, _dropping(requirements))


def _most(sorts: Mapping[tuple[Requirement, ...], list[int]]) -> list[tuple[tuple[Requirement, ...], list[int]]]:
    return sorted(sorts.items(), key=lambda pair: -len(pair[1]))[:_MAX_SORTS]


def _labelling(requirements: tuple[Requirement, ...]) -> Callable[[Node], Node]:
    return lambda node: relabelled(node, requirements)


def _dropping(requirements: tuple[Requirement, ...]) -> Callable[[ObservedPod], ObservedPod]:
    return lambda seen: replace(seen, pod=without_requirements(seen.pod, requirements))


def fitting(nodes: tuple[str, ...], more: int = 0) -> str:
    """`node-1 fits`, `3 nodes fit (a, b, c)`."""
    if len(nodes) + more == 1:
        return f"{nodes[0]} fits"
    some = ", ".join(nodes[:_NAMED])
    return f"{len(nodes) + more} nodes fit ({some}{', ...' if len(nodes) + more > _NAMED else ''})"
