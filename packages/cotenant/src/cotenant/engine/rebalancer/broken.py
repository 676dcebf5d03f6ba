"""Whether an objective that a move touches burns since: of the pod that moved, or of a pod on its new node.

An objective of which an alert fired already when the move was planned is not counted against it.
Limits: what else happened in the time of watching counts as the move's; objectives about errors do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.model.groups.migration import MigrationJob
from cotenant.policy.rebalance.standings import MoveEvidence, Standings

MAX_BURNING = 32  # names that a job keeps


def burning(standings: Standings, now_s: float) -> tuple[str, ...]:
    """Names of the objectives that burn now."""
    return tuple(standing.status.key for standing in standings.burning(now_s)[:MAX_BURNING])


class BrokenObjectives:
    """Answers about jobs of one cluster, see `Broken` (engine/migration/proof.py)."""

    def __init__(self, cluster: Cluster, standings: Standings) -> None:
        self._cluster, self._standings = cluster, standings

    def __call__(self, job: MigrationJob, now_s: float) -> str:
        """The first of them by name; "" = none."""
        before = set(job.note.burning) if job.note is not None else set()
        if not job.is_ours or len(before) >= MAX_BURNING or not self._standings.burning(now_s):
            return ""
        found = {key for pod in self._touched(job) for key in self._burns(pod, now_s)} - before
        return f"ServiceObjective {min(found)}" if found else ""

    def _touched(self, job: MigrationJob) -> Iterator[PodInfo]:
        moved = self._cluster.find(job.new_pod.key) if job.new_pod is not None else None
        if moved is None:
            return
        yield moved
        if moved.node:
            yield from self._cluster.pods_on(moved.node)

    def _burns(self, pod: PodInfo, now_s: float) -> Iterator[str]:
        owner = controller(pod)
        own = pod.seen.pod
        found = self._standings.of(own.namespace, own.labels, owner.uid if owner is not None else "", now_s)
        if found is not None and found.evidence is MoveEvidence.BURNS:
            yield found.status.key
