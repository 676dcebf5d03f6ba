"""Arbitration of jobs over the pods of a cluster: filters, limits and order.

Jobs come from this rebalancer, from users and from other controllers, and all of them share the limits of nodes,
namespaces, workloads and the cluster, PodDisruptionBudgets among them. The pure rules of policy/rebalance/migration
over the engine's pods; running jobs count as moving, and what passes counts for those after it.
Limits: the limits of a round (`maxNoOfPodsToEvict...`) hold where moves are planned, not here; the replicas of a job's
pod are those of its direct controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.eviction_facts import eviction_facts
from cotenant.engine.rebalancer.round_limits import RoundLimits, controller, surges
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.groups.migration import EVICT_POLICY, EvictPolicy, MigrationJob
from cotenant.policy.rebalance.loads.order import LoadPod, sorted_pods
from cotenant.policy.rebalance.migration.arbitration import ArbitrationVerdict, MoveJob, in_order

_BATCH_JOB = "Job"


class ClusterArbiter:
    """The arbiter of one cluster (see `Arbiter` in engine/migration). `notes_of` gives a pod's eviction notes by
    namespace/name.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: RebalancerSettings,
        replicas: Mapping[str, int],
        notes_of: Callable[[str], EvictionNotes],
    ) -> None:
        self._cluster, self._replicas, self._notes_of = cluster, replicas, notes_of
        self._settings = replace(
            settings,
            limits=replace(settings.limits, round_total=None, round_per_node=None, round_per_namespace=None),
        )

    def arbitrate(
        self, pending: Sequence[MigrationJob], moving: Sequence[MigrationJob], now_s: float
    ) -> Mapping[str, tuple[ArbitrationVerdict, str]]:
        """The verdict about each pending job, by name, with its reason."""
        limits = RoundLimits(self._cluster, self._settings, self._replicas, self._notes_of)
        taken: dict[str, str] = {}  # UIDs of pods that move, with the job
        by_job: Counter[str] = Counter()
        for job in moving:
            entry = self._pod(job)
            limits.moving(job, _workload(job, entry))
            taken[job.pod.uid] = job.name
            by_job[_batch_job(entry)] += 1
        entries = {job.name: entry for job in pending if (entry := self._pod(job)) is not None}
        jobs = [
            MoveJob(job.name, job.created_s, entries[job.name].seen.uid, job.pod.key, _batch_job(entries[job.name]))
            if job.name in entries
            else MoveJob(job.name, job.created_s)
            for job in pending
        ]
        policies = {job.name: job.policy for job in pending}
        found: dict[str, tuple[ArbitrationVerdict, str]] = {}
        for element in in_order(jobs, self._ranks(entries), by_job):
            pod = entries.get(element.name)
            if pod is None:
                found[element.name] = (ArbitrationVerdict.PASSED, "")  # so that it can end
                continue
            found[element.name] = self._verdict(pod, limits, taken, policies[element.name], now_s)
            if found[element.name][0] in (ArbitrationVerdict.PASSED, ArbitrationVerdict.SURGE):
                limits.moved(pod, pod.node)
                taken[pod.seen.uid] = element.name
        return found

    def _verdict(
        self, entry: PodInfo, limits: RoundLimits, taken: Mapping[str, str], policy: EvictPolicy | None, now_s: float
    ) -> tuple[ArbitrationVerdict, str]:
        seen = entry.seen
        if seen.uid in taken:
            return ArbitrationVerdict.FAILED, f"job {taken[seen.uid]} moves this pod already"
        node = self._cluster.node(entry.node)
        surging = policy in (None, EvictPolicy.EVICTION) and surges(entry, self._settings, self._replicas)
        never = self._settings.filter.refuses(
            eviction_facts(entry, self._notes_of(seen.pod.key), self._replicas, node, now_s, surging)
        )
        if never:
            return ArbitrationVerdict.FAILED, never
        given = next(
            (evict_policy for evict_policy in EvictPolicy if evict_policy.value == seen.pod.labels.get(EVICT_POLICY)),
            None,
        )
        several = "" if surging else limits.several_budgets(entry, given or policy)
        if several:
            return ArbitrationVerdict.FAILED, several
        now = limits.refuses(entry, entry.node)
        if now:
            return ArbitrationVerdict.WAITING, now
        return (
            (ArbitrationVerdict.SURGE, "it is the only replica of its workload")
            if surging
            else (ArbitrationVerdict.PASSED, "")
        )

    def _ranks(self, entries: Mapping[str, PodInfo]) -> dict[str, int]:
        """Places of the jobs by the importance of their pods, the least important first."""
        pods = []
        for name, entry in entries.items():
            seen, notes = entry.seen, self._notes_of(entry.seen.pod.key)
            pods.append(
                LoadPod(
                    name,
                    seen.uid,
                    None,
                    seen.pod.effective_class,
                    seen.pod.priority,
                    notes.kubernetes_qos,
                    seen.pod.qos,
                    notes.deletion_cost,
                    notes.eviction_cost,
                    seen.created_s,
                )
            )
        return {pod.key: at for at, pod in enumerate(sorted_pods(pods, {}, {}))}

    def _pod(self, job: MigrationJob) -> PodInfo | None:
        entry = self._cluster.find(job.pod.key)
        if entry is None or (job.pod.uid and entry.seen.uid != job.pod.uid):
            return None
        return entry


def _workload(job: MigrationJob, entry: PodInfo | None) -> str:
    owner = controller(entry) if entry is not None else None
    if owner is not None:
        return owner.uid
    return job.note.workload if job.note is not None else ""


def _batch_job(entry: PodInfo | None) -> str:
    owner = controller(entry) if entry is not None else None
    return owner.uid if owner is not None and owner.kind == _BATCH_JOB else ""
