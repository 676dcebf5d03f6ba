"""Whether what a move was made for is so now, for the proof after it (engine/migration/proof.py).

Problem: moves other than those of LowNodeLoad do not change a node's use by a planned amount, so figures of nodes do not show whether they helped. Choice: each kind is judged by its purpose: the pod or gang member that waited has
a node; the replacement satisfies the rule that the moved pod violated; the service's p99, averaged over the windows after the move, is within its objective. Limits: anti-affinity and spread are not checked again, since the scheduler has placed the replacement by
them; a node that is emptied over several rounds is not judged; load that changes meanwhile counts as an effect.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.migration.proof import Served, ended_s
from cotenant.engine.rebalancer.missed import MISSED
from cotenant.engine.rebalancer.room import DEFRAGMENTATION
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.groups.migration import MigrationJob
from cotenant.policy.rebalance.violations.contract import Rule
from cotenant.policy.rebalance.violations.node_rules import allows

LastWindow = Callable[[str], "tuple[float, float] | None"]  # UID -> p99 over objective, and when it was measured


class Purposes:
    """Answers about jobs of one cluster."""

    def __init__(self, cluster: Cluster, last_window: LastWindow) -> None:
        self._cluster, self._last_window = cluster, last_window

    def __call__(self, job: MigrationJob) -> Served | None:
        """See `Purpose`."""
        about = job.note.kind.partition("/")[2] if job.note is not None else ""
        if job.trigger == DEFRAGMENTATION:
            return self._placed(about)
        if job.trigger == MISSED:
            return self._within_objective(job, about)
        if job.trigger in (Rule.NODE_AFFINITY, Rule.NODE_TAINTS):
            return self._keeps_rule(job)
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
        pod = entry.seen.pod
        if job.trigger == Rule.NODE_AFFINITY:
            holds = allows(pod, node)
            return Served(holds, f"{node.name} {'satisfies' if holds else 'does not satisfy'} the node affinity of {pod.key}")  # fmt: skip
        holds = first_repelling(node.effective_taints, pod.tolerations) is None
        return Served(holds, f"{pod.key} {'tolerates' if holds else 'does not tolerate'} the taints of {node.name}")
