"""Pods that may violate a rule between pods, found without looking at each of them.

A round must not compare 50,000 pods that satisfy their rules, and usually all of them do. Pods that no rule
distinguishes (`Cluster.alike`) are one group, and rules are evaluated once per group: an anti-affinity term by how many
selected pods are in each of its domains, a spread constraint by its skew. Only the groups of a rule that is violated,
and all that their rules count, are given to the repairs, which find the same violations in them as in all pods.
Limits: a rule that the moves of a round violate is repaired in the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.violations.contract import PlacedPod
from cotenant.policy.rebalance.violations.pod_index import PodIndex
from cotenant.policy.rebalance.violations.spread import Eligible, SpreadGroup, eligible_key, eligible_nodes

_Pods = Sequence[PodInfo]


class Suspects:
    """Groups of pods that rules between pods do not distinguish."""

    def __init__(self, alike: Iterable[_Pods], nodes: Mapping[str, Node], namespaces: Mapping[str, Labels]) -> None:
        """Every pod is on one of these nodes. `namespaces`: labels by name."""
        self._groups = list(alike)
        self._nodes, self._namespaces = nodes, namespaces
        self._index = PodIndex(
            PlacedPod(LoadPod(pods[0].seen.pod.key, str(number), None), pods[0].seen.pod, pods[0].node)
            for number, pods in enumerate(self._groups)
        )
        self._found: dict[int, None] = {}
        self._domains: dict[str, dict[str, str]] = {}  # by topology key: domain of each node that has one
        self._eligible: dict[Hashable, Eligible] = {}
        self._selected: dict[tuple[str, SpreadConstraint], list[int]] = {}

    def anti_affinity(self) -> None:
        """Find pods that share a domain with one that they may not share it with."""
        known: dict[Hashable, tuple[list[int], Counter[str]]] = {}
        for number, pods in enumerate(self._groups):
            pod = pods[0].seen.pod
            for term in pod.anti_affinity:
                if term.weight is not None:
                    continue
                key, domains = (pod.namespace, term), self._of_nodes(term.topology_key)
                if key not in known:
                    selected = list(self._selected_by(term, pod.namespace))
                    known[key] = selected, self._counted(selected, domains)
                selected, counts = known[key]
                alone = 1 if number in selected else 0
                if any(counts[domains[pod_info.node]] > alone for pod_info in pods if pod_info.node in domains):
                    self._found.update(dict.fromkeys((number, *selected)))

    def spread(self) -> None:
        """Find pods with a hard constraint whose skew is exceeded."""
        exceeded: dict[Hashable, bool] = {}
        for number, pods in enumerate(self._groups):
            for constraint in pods[0].seen.pod.spread:
                if not constraint.forbids:
                    continue
                for pod in _unlike(pods):
                    key = eligible_key(pod, constraint)
                    whole = (pod.namespace, constraint, key)
                    if whole not in exceeded:
                        if key not in self._eligible:
                            self._eligible[key] = eligible_nodes(pod, constraint, self._nodes)
                        exceeded[whole] = self._exceeds(pod, constraint, self._eligible[key])
                    if exceeded[whole]:
                        self._found[number] = None

    def pods(self) -> list[PodInfo]:
        """The pods that were found, and all that their spread constraints count."""
        left = list(self._found)
        while left:
            pod = self._groups[left.pop()][0].seen.pod
            for constraint in pod.spread:
                more = [] if not constraint.forbids else self._counted_by(pod, constraint)
                left += [number for number in more if number not in self._found]
                self._found.update(dict.fromkeys(more))
        return [entry for number in sorted(self._found) for entry in self._groups[number]]

    def _exceeds(self, pod: Pod, constraint: SpreadConstraint, eligible: Eligible) -> bool:
        counts = self._counted(self._counted_by(pod, constraint), eligible.domains)
        return SpreadGroup(constraint, [], eligible, counts).skew > constraint.max_skew

    def _counted_by(self, pod: Pod, constraint: SpreadConstraint) -> list[int]:
        key = (pod.namespace, constraint)
        if key not in self._selected:
            found = self._index.selected(pod.namespace, constraint.selector)
            self._selected[key] = [
                int(placed_pod.load.uid) for placed_pod in found if constraint.selects(placed_pod.pod.labels)
            ]
        return self._selected[key]

    def _selected_by(self, term: PodTerm, namespace: str) -> Iterator[int]:
        for own in self._index.namespaces:
            if term.about_namespace(namespace, own, self._namespaces.get(own, NO_LABELS)):
                for placed_pod in self._index.selected(own, term.selector):
                    yield int(placed_pod.load.uid)

    def _counted(self, groups: Iterable[int], domains: Mapping[str, str]) -> Counter[str]:
        return Counter(
            domains[group.node] for number in groups for group in self._groups[number] if group.node in domains
        )

    def _of_nodes(self, key: str) -> dict[str, str]:
        if key not in self._domains:
            found = ((name, node.labels.get(key)) for name, node in self._nodes.items())
            self._domains[key] = {name: domain for name, domain in found if domain is not None}
        return self._domains[key]


def _unlike(pods: _Pods) -> Iterable[Pod]:
    """One pod for each node selector, node affinity and tolerations, which decide what nodes count for it."""
    first = pods[0].seen.pod
    alike = (first.node_selector, first.node_affinity, first.tolerations)
    others = [
        pod
        for pod in [pod_info.seen.pod for pod_info in pods]
        if (pod.node_selector, pod.node_affinity, pod.tolerations) != alike
    ]
    if not others:
        return (first,)
    return {(pod.node_selector, pod.node_affinity, pod.tolerations): pod for pod in (first, *others)}.values()
