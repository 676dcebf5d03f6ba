"""Pods in one domain of which one's required anti-affinity selects the other.

Labels of pods and nodes change, and pods that were bound by others may share a domain that a rule forbids. All pairs of
holder and selected pod in one domain are found; of each pair the less important pod is tried first, and the pairs that
a move resolves are removed before the next. So no pod moves whose pairs are resolved.
Limits: the fewest moves are not searched for: the order is by importance, as upstream.
Source: Kubernetes' descheduler, plugin RemovePodsViolatingInterPodAntiAffinity.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.groups.migration import MoveAim
from cotenant.policy.rebalance.violations.contract import PlacedPod, PodPlacement, Repair, ViolationRule, in_order
from cotenant.policy.rebalance.violations.pod_index import PodIndex

_PEERS = 16  # that are named in a move's aim


def conflicts(pods: Iterable[PlacedPod], placement: PodPlacement) -> dict[str, dict[str, PlacedPod]]:
    """For each pod by UID the pods that it may not share a domain with and does, by UID; symmetric."""
    placed = [pod for pod in pods if placement.where[pod.load.uid] in placement.nodes]
    index = PodIndex(placed)
    holders: dict[tuple[str, PodTerm], list[PlacedPod]] = {}
    for placed_pod in placed:
        for term in placed_pod.pod.anti_affinity:
            if term.weight is None:
                holders.setdefault((placed_pod.pod.namespace, term), []).append(placed_pod)
    found: dict[str, dict[str, PlacedPod]] = {}
    for (namespace, term), mine in holders.items():
        by_domain: dict[str, list[PlacedPod]] = {}
        for own in index.namespaces:
            if term.about_namespace(namespace, own, placement.labels_of(own)):
                for placed_pod in index.selected(own, term.selector):
                    domain = _domain(placed_pod, term, placement)
                    if domain is not None:
                        by_domain.setdefault(domain, []).append(placed_pod)
        for holder in mine:
            domain = _domain(holder, term, placement)
            for other in by_domain.get(domain, ()) if domain is not None else ():
                if other is not holder:
                    found.setdefault(holder.load.uid, {})[other.load.uid] = other
                    found.setdefault(other.load.uid, {})[holder.load.uid] = holder
    return found


def forbids(first: PlacedPod, second: PlacedPod, placement: PodPlacement) -> bool:
    """Whether a term of either forbids the domain that both share; one pair of `conflicts`."""
    for holder, other in ((first, second), (second, first)):
        for term in holder.pod.anti_affinity:
            own, namespace = other.pod.namespace, holder.pod.namespace
            if term.weight is None and term.selects(namespace, own, other.pod.labels, placement.labels_of(own)):
                domain = _domain(holder, term, placement)
                if domain is not None and domain == _domain(other, term, placement):
                    return True
    return False


def repair_anti_affinity(pods: Iterable[PlacedPod], repair: Repair) -> None:
    """Move pods until no pair is left, or what is left cannot be moved."""
    placed = list(pods)
    left = conflicts(placed, repair)
    by_uid = {placed_pod.load.uid: placed_pod for placed_pod in placed}
    for placed_pod in in_order([by_uid[uid] for uid in left]):
        others = left.get(placed_pod.load.uid)
        if not others or not repair.may_try(placed_pod, ViolationRule.ANTI_AFFINITY):
            continue
        names = sorted(other.load.key for other in others.values())
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        why = f"anti-affinity forbids a common domain with {names[0]}{more}"
        if repair.attempt(placed_pod, ViolationRule.ANTI_AFFINITY, why, aim=MoveAim(len(names), tuple(names[:_PEERS]))):
            for uid in others:  # the scheduler places it where no rule forbids it
                del left[uid][placed_pod.load.uid]
            del left[placed_pod.load.uid]


def _domain(pod: PlacedPod, term: PodTerm, placement: PodPlacement) -> str | None:
    return placement.nodes[placement.where[pod.load.uid]].labels.get(term.topology_key)
