"""Whether what a move was made for is so now, for the proof after it (engine/migration/proof.py).

Moves other than those of LowNodeLoad do not change a node's use by a planned amount, so figures of nodes do not show
whether they helped. Each kind is judged by its purpose: the pod or gang member that waited has a node; the replacement
satisfies the rule that the moved pod violated; the service's p99, averaged over the windows after the move, is within
its objective, or where a ServiceObjective's budget burnt, no alert fires any more or its shortest window's burn rate is
half of what it was. What a move is to lower (`MoveAim`) is compared with what it was: pods in a forbidden common
domain, those that came to the old place since included; the skew of a constraint, and what the left domain exceeds the
smallest by; the pods that keep a node from being empty, of which at most half of those that left may have been followed
by others.
Limits: what is compared is counted once, at the end of the time of watching; of the pods that an anti-affinity kept
apart at most 16 are followed; load and other moves meanwhile count as effects.
"""

from __future__ import annotations

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.migration.proof import MIN_SHARE, ServedProof, ended_s
from cotenant.engine.rebalancer.missed import MISSED
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.repairs import placed_pods
from cotenant.engine.rebalancer.room import DEFRAGMENTATION, PACKING
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.groups.migration import MigrationJob, MoveAim
from cotenant.model.traces.objective import ObjectiveState
from cotenant.policy.rebalance.violations.anti_affinity import forbids
from cotenant.policy.rebalance.violations.contract import PlacedPod, PodPlacement, ViolationRule
from cotenant.policy.rebalance.violations.node_rules import allows
from cotenant.policy.rebalance.violations.spread import group_now


class Purposes:
    """Answers about jobs of one cluster."""

    def __init__(self, cluster: Cluster, planner: Planner) -> None:
        self._cluster, self._planner = cluster, planner

    def __call__(self, job: MigrationJob, is_due: bool) -> ServedProof | None:
        """See `Purpose`."""
        note = job.note
        about = note.kind.partition("/")[2] if note is not None else ""
        if job.trigger == DEFRAGMENTATION:
            return self._placed(about)
        by_objective = note is not None and note.aim is not None and note.aim.objective
        if job.trigger == MISSED and not by_objective:
            return self._within_objective(job, about)
        if not is_due:  # the others look at many nodes and pods, and are about the end of the time
            return None
        if job.trigger in (ViolationRule.NODE_AFFINITY, ViolationRule.NODE_TAINTS):
            return self._keeps_rule(job)
        if note is None or note.aim is None:
            return None
        if job.trigger == MISSED:
            return self._burns_less(job, note.aim)
        if job.trigger == PACKING:
            return self._emptied(job, note.node, note.aim)
        if job.trigger == ViolationRule.ANTI_AFFINITY:
            return self._apart(job, note.aim)
        return self._spread(job, note.aim) if job.trigger == ViolationRule.SPREAD else None

    def _placed(self, key: str) -> ServedProof:
        entry = self._cluster.find(key)
        if entry is None:
            return ServedProof(None, f"{key} is gone", is_settled=True)
        if entry.node:
            return ServedProof(True, f"{key} was placed on {entry.node}", is_settled=True)
        return ServedProof(False, f"{key} still waits")

    def _replacement(self, job: MigrationJob) -> PodInfo | None:
        entry = self._cluster.find(job.new_pod.key) if job.new_pod is not None else None
        return entry if entry is not None and job.new_pod is not None and entry.seen.uid == job.new_pod.uid else None

    def _within_objective(self, job: MigrationJob, key: str) -> ServedProof:
        entry = self._replacement(job) if key == job.pod.key else self._cluster.find(key)
        if entry is None:
            return ServedProof(None, f"{key} is gone", is_settled=True)
        found = self._planner.last_window(entry.seen.uid)
        if found is None or found[1] <= ended_s(job):
            return ServedProof(None, f"p99 of {entry.seen.pod.key} was not measured since")
        return ServedProof(None, f"p99 of {entry.seen.pod.key} over its objective:", sample=found[0])

    def _burns_less(self, job: MigrationJob, aim: MoveAim) -> ServedProof:
        name = f"ServiceObjective {aim.objective}"
        found = self._planner.standings.find(aim.objective)
        if found is None:
            return ServedProof(None, f"{name} is gone")
        status, changed_s = found
        rate = status.burn.get(aim.window)
        if rate is None or changed_s <= ended_s(job) or status.state in (None, ObjectiveState.NO_DATA):
            return ServedProof(None, f"{name} has no data since")
        served = not status.firing or rate <= (1.0 - MIN_SHARE) * aim.burn_before
        fires = "an alert fires" if status.firing else "no alert fires"
        return ServedProof(
            served, f"burn rate of {name} over {aim.window}: {aim.burn_before:.2f} before, {rate:.2f} after; {fires}"
        )

    def _keeps_rule(self, job: MigrationJob) -> ServedProof:
        entry = self._replacement(job)
        node = next(
            (element for element in self._cluster.nodes() if entry is not None and element.name == entry.node), None
        )
        if entry is None or node is None:
            return ServedProof(None, "its replacement is gone")
        pod = entry.seen.pod
        if job.trigger == ViolationRule.NODE_AFFINITY:
            holds = allows(pod, node)
            return ServedProof(
                holds, f"{node.name} {'satisfies' if holds else 'does not satisfy'} the node affinity of {pod.key}"
            )
        holds = first_repelling(node.effective_taints, pod.tolerations) is None
        return ServedProof(
            holds, f"{pod.key} {'tolerates' if holds else 'does not tolerate'} the taints of {node.name}"
        )

    def _places(self, job: MigrationJob) -> tuple[PlacedPod | None, list[PlacedPod], PodPlacement]:
        """The replacement, every pod that rules count, and where they are."""
        nodes = {node.name: node for node in self._cluster.nodes() if self._planner.use.takes_part(node)}
        pods = placed_pods(self._cluster, nodes)
        namespaces = {facts.name: facts.labels for facts in self._cluster.namespaces()}
        uid = job.new_pod.uid if job.new_pod is not None else ""
        own = next((pod for pod in pods if pod.load.uid == uid), None)
        return own, pods, PodPlacement(nodes, namespaces, {pod.load.uid: pod.node for pod in pods})

    def _apart(self, job: MigrationJob, aim: MoveAim) -> ServedProof:
        own, pods, places = self._places(job)
        if own is None:
            return ServedProof(None, "its replacement is gone")
        others = [pod for pod in pods if pod is not own]
        left = sum(forbids(own, placed_pod, places) for placed_pod in others)
        came = [placed_pod for placed_pod in others if placed_pod.load.created_s > job.created_s]
        peers = [placed_pod for placed_pod in others if placed_pod.load.key in aim.peers]
        again = sum(
            any(forbids(peer, placed_pod, places) for peer in peers if peer is not placed_pod) for placed_pod in came
        )
        figures = (
            f"pods that its anti-affinity forbids beside {job.pod.key}: {aim.before} before, {left} beside "
            f"{own.load.key} on {own.node}"
        )
        return ServedProof(left + again == 0, f"{figures}, {again} that came beside them since")

    def _spread(self, job: MigrationJob, aim: MoveAim) -> ServedProof:
        own, pods, places = self._places(job)
        if own is None:
            return ServedProof(None, "its replacement is gone")
        hard = (entry for entry in own.pod.spread if entry.forbids and entry.topology_key == aim.topology_key)
        constraint = next(hard, None)
        if constraint is None:
            return ServedProof(None, f"{own.load.key} has no constraint over {aim.topology_key}")
        group = group_now(own, constraint, pods, places)
        excess = group.counts[aim.domain] - group.least
        domain, most = group.eligible.domains.get(own.node, ""), constraint.max_skew
        here = group.counts[domain] - group.least
        nearer = excess < aim.domain_before and group.skew <= aim.before and here <= most
        return ServedProof(
            group.skew <= most or nearer,
            f"skew over {aim.topology_key}: {aim.before} before, {group.skew} after, {most} allowed; above the "
            "smallest: "
            f"{aim.domain} {aim.domain_before} before, {excess} after; {domain or own.node}, where it is, {here}",
        )

    def _emptied(self, job: MigrationJob, node: str, aim: MoveAim) -> ServedProof:
        if self._cluster.node(node) is None:
            return ServedProof(True, f"{node} was removed")
        pods = [
            pod_info
            for pod_info in self._cluster.pods_on(node)
            if not (pod_info.seen.reservation or pod_info.seen.terminating)
        ]
        pods = [pod for pod in pods if self._planner.must_leave(pod)]
        came = sum(pod.seen.created_s > job.created_s for pod in pods)
        went = aim.before - (len(pods) - came)
        served = not pods or went - came >= max(1.0, MIN_SHARE * went)
        return ServedProof(
            served,
            f"pods that keep {node} from being empty: {aim.before} before, {len(pods)} after, "
            f"{came} of them came since",
        )
