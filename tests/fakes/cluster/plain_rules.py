"""Kubernetes' placement rules word by word, pair by pair: slow, without arrays or counts. What properties hold the
engine against.

Volumes are judged by trying every choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import log

from cotenant.model.cluster.affinity import NodeInclusionPolicy, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ClaimBinding, VolumeNeed
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import first_repelling, tolerated


@dataclass(frozen=True)
class Resident:
    """A pod on a node."""

    pod: Pod
    node: Node
    terminating: bool = False
    volumes: tuple[VolumeNeed, ...] = ()
    promised: Mapping[str, str] | None = None  # claim -> volume, for claims not bound yet


@dataclass(frozen=True)
class Cluster:
    nodes: Sequence[Node]
    residents: Sequence[Resident]
    namespaces: Mapping[str, Labels]


def together(key: str, one: Node, other: Node) -> bool:
    return one.labels.get(key) is not None and one.labels.get(key) == other.labels.get(key)


def selected(cluster: Cluster, term: PodTerm, own_namespace: str, pod: Pod) -> bool:
    return term.selects(own_namespace, pod.namespace, pod.labels, cluster.namespaces.get(pod.namespace, NO_LABELS))


def wants(pod: Pod, node: Node) -> bool:
    """nodeSelector and required node affinity."""
    required = pod.node_affinity.required if pod.node_affinity is not None else None
    return node.labels.contains(pod.node_selector) and (required is None or required.matches(node.name, node.labels))


def fits(pod: Pod, node: Node, beside: Iterable[Pod]) -> bool:
    """Requests, resource by resource, and the slot of a pod."""
    others = list(beside)
    if len(others) + 1 > node.allocatable.get("pods"):
        return False
    return all(
        amount == 0 or amount + sum(other.requests.get(name) for other in others) <= node.allocatable.get(name)
        for name, amount in pod.requests
    )


def ports_free(pod: Pod, beside: Iterable[Pod]) -> bool:
    return not any(mine.conflicts(its) for other in beside for mine in pod.host_ports for its in other.host_ports)


def affinity_holds(cluster: Cluster, pod: Pod, node: Node) -> bool:
    """Required affinity: company that all terms select, in each term's domain; or the start of a group."""
    terms = [term for term in pod.affinity if term.weight is None]
    if any(node.labels.get(term.topology_key) is None for term in terms):
        return False
    matching = [r for r in cluster.residents if all(selected(cluster, t, pod.namespace, r.pod) for t in terms)]
    if all(any(together(t.topology_key, node, r.node) for r in matching) for t in terms):
        return True
    anywhere = any(r.node.labels.get(t.topology_key) is not None for r in matching for t in terms)
    return not anywhere and all(selected(cluster, t, pod.namespace, pod) for t in terms)


def anti_affinity_holds(cluster: Cluster, pod: Pod, node: Node) -> bool:
    for resident in cluster.residents:
        for mine in pod.anti_affinity:
            near = mine.weight is None and together(mine.topology_key, node, resident.node)
            if near and selected(cluster, mine, pod.namespace, resident.pod):
                return False
        for its in resident.pod.anti_affinity:
            near = its.weight is None and together(its.topology_key, node, resident.node)
            if near and selected(cluster, its, resident.pod.namespace, pod):
                return False
    return True


def counted_nodes(cluster: Cluster, pod: Pod, one: SpreadConstraint, group: Sequence[SpreadConstraint]) -> list[Node]:
    return [
        n
        for n in cluster.nodes
        if all(n.labels.get(other.topology_key) is not None for other in group)
        and (one.node_affinity_policy is NodeInclusionPolicy.IGNORE or wants(pod, n))
        and (
            one.node_taints_policy is NodeInclusionPolicy.IGNORE
            or first_repelling(n.effective_taints, pod.tolerations) is None
        )
    ]


def pods_per_domain(cluster: Cluster, pod: Pod, one: SpreadConstraint, nodes: Sequence[Node]) -> dict[str | None, int]:
    count = {n.labels.get(one.topology_key): 0 for n in nodes}
    for r in cluster.residents:
        if r.node in nodes and not r.terminating and r.pod.namespace == pod.namespace and one.selects(r.pod.labels):
            count[r.node.labels.get(one.topology_key)] += 1
    return count


def spread_holds(cluster: Cluster, pod: Pod, node: Node) -> bool:
    hard = [constraint for constraint in pod.spread if constraint.forbids]
    for constraint in hard:
        if node.labels.get(constraint.topology_key) is None:
            return False
        count = pods_per_domain(cluster, pod, constraint, counted_nodes(cluster, pod, constraint, hard))
        smallest = min(count.values()) if count and len(count) >= constraint.min_domains else 0
        here = count.get(node.labels.get(constraint.topology_key), 0)
        if here + constraint.selects(pod.labels) - smallest > constraint.max_skew:
            return False
    return True


def volumes_hold(cluster: Cluster, needs: Sequence[VolumeNeed], node: Node) -> bool:
    used = {need.claim for r in cluster.residents for need in r.volumes}
    promised = {c: (v, r.node) for r in cluster.residents for c, v in (r.promised or {}).items()}
    if any(need.waits_for or (need.exclusive and need.claim in used) for need in needs):
        return False
    taken = {volume: claim for claim, (volume, _) in promised.items() if volume}

    def open_options(need: VolumeNeed) -> list[str]:
        found = []
        for option in need.options:
            if option.nodes is not None and not option.nodes.matches(node.name, node.labels):
                continue
            if need.binding is not ClaimBinding.BOUND:
                if need.claim in promised:
                    volume, where = promised[need.claim]
                    if option.volume != volume or (not volume and where != node):
                        continue
                elif taken.get(option.volume, need.claim) != need.claim:
                    continue
            found.append(option.volume if need.binding is not ClaimBinding.BOUND else "")
        return found

    for choice in product(*(open_options(need) for need in needs)):
        named = [volume for volume in choice if volume]
        if len(set(named)) == len(named):
            return True
    return False


def may(cluster: Cluster, pod: Pod, node: Node, needs: Sequence[VolumeNeed] = ()) -> bool:
    """All rules that are not row-local, ports and the node's name included."""
    return (
        (pod.pinned is None or pod.pinned == node.name)
        and ports_free(pod, (r.pod for r in cluster.residents if r.node == node))
        and affinity_holds(cluster, pod, node)
        and anti_affinity_holds(cluster, pod, node)
        and spread_holds(cluster, pod, node)
        and volumes_hold(cluster, needs, node)
    )


def row_local(cluster: Cluster, pod: Pod, node: Node) -> bool:
    """Ready, taints, labels, requests."""
    return (
        node.ready
        and first_repelling(node.effective_taints, pod.tolerations) is None
        and wants(pod, node)
        and fits(pod, node, (r.pod for r in cluster.residents if r.node == node))
    )


def wishes(cluster: Cluster, pod: Pod, feasible: Sequence[Node]) -> list[float]:
    """Soft terms in kube-scheduler's weights, over the nodes that pass: taints 3, node affinity 2, spread 2, pod
    affinity 2.
    """
    total = [0.0] * len(feasible)

    def add(weight: float, values: Sequence[float]) -> None:
        for i, value in enumerate(values):
            total[i] += weight * value

    soft = [
        len({t for t in n.effective_taints if not t.repels and not tolerated(t, pod.tolerations)}) for n in feasible
    ]
    worst = max(soft, default=0)
    add(3, [100 if worst == 0 else 100 - 100 * s // worst for s in soft])
    preferred = pod.node_affinity.preferred if pod.node_affinity is not None else ()
    liked = [sum(p.weight for p in preferred if p.term.matches(n.name, n.labels)) for n in feasible]
    best = max(liked, default=0)
    add(2, [0 if best == 0 else 100 * value // best for value in liked])
    add(2, _spread_wish(cluster, pod, feasible))
    company = [_company(cluster, pod, n) for n in feasible]
    low, high = min(company, default=0), max(company, default=0)
    add(2, [0 if low == high else int(100.0 * ((c - low) / (high - low))) for c in company])
    return total


def _spread_wish(cluster: Cluster, pod: Pod, feasible: Sequence[Node]) -> list[float]:
    soft = [constraint for constraint in pod.spread if not constraint.forbids]
    if not soft:
        return [0.0] * len(feasible)
    known = [n for n in feasible if all(n.labels.get(c.topology_key) is not None for c in soft)]
    cost = {n.name: 0.0 for n in known}
    for one in soft:
        domains = len({n.labels.get(one.topology_key) for n in known})
        count = pods_per_domain(cluster, pod, one, counted_nodes(cluster, pod, one, soft))
        for n in known:
            cost[n.name] += count.get(n.labels.get(one.topology_key), 0) * log(domains + 2) + one.max_skew - 1
    whole = {name: round(value) for name, value in cost.items()}
    largest, smallest = max(whole.values(), default=0), min(whole.values(), default=0)
    return [
        0.0 if n.name not in whole else 100.0 if largest == 0 else 100 * (largest + smallest - whole[n.name]) // largest
        for n in feasible
    ]


def _company(cluster: Cluster, pod: Pod, node: Node) -> int:
    total = 0
    for r in cluster.residents:
        for mine, sign in [(t, 1) for t in pod.affinity] + [(t, -1) for t in pod.anti_affinity]:
            if mine.weight is not None and together(mine.topology_key, node, r.node):
                total += sign * mine.weight * selected(cluster, mine, pod.namespace, r.pod)
        for its in r.pod.affinity:
            if together(its.topology_key, node, r.node) and selected(cluster, its, r.pod.namespace, pod):
                total += its.weight or 1  # a required one likes, too
        for its in r.pod.anti_affinity:
            if its.weight is not None and together(its.topology_key, node, r.node):
                total -= its.weight * selected(cluster, its, r.pod.namespace, pod)
    return total
