"""Whether what a move was made for is so now, for the proof after it (engine/migration/proof.py).

Problem: moves other than those of LowNodeLoad do not change a node's use by a planned amount, so figures of nodes do not show whether they helped. Choice: each kind is judged by its purpose: the pod or gang member that waited has
a node; the replacement satisfies the rule that the moved pod violated, whoever placed it and whatever came to lie beside it meanwhile; the emptied node is empty; the service's p99, averaged over the windows after the move, is within its objective. Limits: a node on which pods from
before the move are left is not judged, since it is emptied over several rounds; load that changes meanwhile counts as an effect.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.migration.proof import Served, ended_s
from cotenant.engine.rebalancer.missed import MISSED
from cotenant.engine.rebalancer.room import DEFRAGMENTATION, PACKING
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.groups.migration import MigrationJob
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.violations.anti_affinity import conflicts
from cotenant.policy.rebalance.violations.contract import PlacedPod, Placement, Rule
from cotenant.policy.rebalance.violations.node_rules import allows
from cotenant.policy.rebalance.violations.spread import skews

LastWindow = Callable[[str], "tuple[float, float] | None"]  # UID -> p99 over objective, and when it was measured


class Purposes:
    """Answers about jobs of one cluster."""

    def __init__(self, cluster: Cluster, last_window: LastWindow) -> None:
        self._cluster, self._last_window = cluster, last_window

    def __call__(self, job: MigrationJob, is_due: bool) -> Served | None:
        """See `Purpose`."""
        about = job.note.kind.partition("/")[2] if job.note is not None else ""
        if job.trigger == DEFRAGMENTATION:
            return self._placed(about)
        if job.trigger == MISSED:
            return self._within_objective(job, about)
        if job.trigger == PACKING or job.trigger in tuple(Rule):
            if not is_due:  # they count pods of the whole cluster, and are about the end of the time
                return Served(None, "")
            return self._emptied(job, about) if job.trigger == PACKING else self._keeps_rule(job)
        return None

    def _placed(self, key: str) -> Served:
        entry = self._cluster.find(key)
        if entry is None:
            return Served(None, f"{key} is gone", is_settled=True)
        if entry.node:
            return Served(True, f"{key} was placed on {entry.node}", is_settled=True)
        return Served(False, f"{key} still waits")

    def _replacement(self, job: MigrationJob) -> PodInfo | None:
        entry = self._cluster.find(job.new_pod.key) if job.new_pod is not None else None
        return entry if entry is not None and job.new_pod is not None and entry.seen.uid == job.new_pod.uid else None

    def _within_objective(self, job: MigrationJob, key: str) -> Served:
        entry = self._replacement(job) if key == job.pod.key else self._cluster.find(key)
        if entry is None:
            return Served(None, f"{key} is gone", is_settled=True)
        found = self._last_window(entry.seen.uid)
        if found is None or found[1] <= ended_s(job):
            return Served(None, f"p99 of {entry.seen.pod.key} was not measured since")
        return Served(None, f"p99 of {entry.seen.pod.key} over its objective:", sample=found[0])

    def _keeps_rule(self, job: MigrationJob) -> Served:
        entry = self._replacement(job)
        node = next((each for each in self._cluster.nodes() if entry is not None and each.name == entry.node), None)
        if entry is None or node is None:
            return Served(None, "its replacement is gone")
        if job.trigger in (Rule.ANTI_AFFINITY, Rule.SPREAD):
            return self._keeps_rule_about_pods(job, entry)
        pod = entry.seen.pod
        if job.trigger == Rule.NODE_AFFINITY:
            holds = allows(pod, node)
            return Served(holds, f"{node.name} {'satisfies' if holds else 'does not satisfy'} the node affinity of {pod.key}")  # fmt: skip
        holds = first_repelling(node.effective_taints, pod.tolerations) is None
        return Served(holds, f"{pod.key} {'tolerates' if holds else 'does not tolerate'} the taints of {node.name}")

    def _keeps_rule_about_pods(self, job: MigrationJob, entry: PodInfo) -> Served:
        nodes = {each.name: each for each in self._cluster.nodes()}
        entries = [each for each in self._cluster.every_pod() if each.node in nodes and not (each.seen.reservation or each.seen.terminating)]  # fmt: skip
        namespaces = {facts.name: facts.labels for facts in self._cluster.namespaces()}
        placement = Placement(nodes, namespaces, {each.seen.uid: each.node for each in entries})
        pods = {each.seen.uid: PlacedPod(LoadPod(each.seen.pod.key, each.seen.uid, None), each.seen.pod, each.node) for each in entries}  # fmt: skip
        key, uid = entry.seen.pod.key, entry.seen.uid
        if uid not in pods:
            return Served(None, "its replacement is gone")
        if job.trigger == Rule.ANTI_AFFINITY:
            others = sorted(each.load.key for each in conflicts(pods.values(), placement).get(uid, {}).values())
            if not others:
                return Served(True, f"anti-affinity allows {key} on {entry.node}")
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            return Served(False, f"anti-affinity forbids {key} a common domain with {others[0]}{more}")
        groups = skews(pods[uid], pods.values(), placement)
        if not groups:
            return Served(None, f"no hard spread constraint of {key} counts {entry.node}")
        group, domain = max(groups, key=lambda each: each[0].counts[each[1]] - each[0].least - each[0].constraint.max_skew)  # fmt: skip
        skew, most = group.counts[domain] - group.least, group.constraint.max_skew
        figures = f"{group.constraint.topology_key} {domain} has {group.counts[domain]} pods, the smallest domain {group.least}: at most {most} more are allowed"
        return Served(skew <= most, figures)

    def _emptied(self, job: MigrationJob, node: str) -> Served:
        if all(each.name != node for each in self._cluster.nodes()):
            return Served(True, f"{node} was removed")
        left = [each.seen for each in self._cluster.pods_on(node) if not (each.seen.terminating or each.seen.reservation or _stays(each))]  # fmt: skip
        if not left:
            return Served(True, f"{node} is empty")
        came = sum(each.created_s > job.created_s for each in left)
        if came:
            return Served(False, f"{node} has {len(left)} pods, {came} of which came after the move")
        return Served(None, f"{node} still has {len(left)} pods from before the move")


def _stays(entry: PodInfo) -> bool:
    """Whether it is a DaemonSet's or a static pod, which an empty node has too."""
    return any(each.controller and each.kind in ("DaemonSet", "Node") for each in entry.seen.owned_by)
