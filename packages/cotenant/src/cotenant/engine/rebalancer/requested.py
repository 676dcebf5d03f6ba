"""The what-if of a move that another process asks for: which of the named pods should move, and where it lands.

The agent's recovery or an operator knows that a pod suffers, or which neighbour is the cause, and not whether there is
a better place. Each named pod is simulated on the scheduling engine with the limits of the moves under way; only nodes
are offered whose measured CPU use stays below that of the pod's node, where both are measured. A landing is refused
where the predicted violation on both nodes grows. Of the pods that land, the first in the order of what a move costs is
chosen (class, priority, QoS, costs). Nothing remains in the engine.
Limits: the request itself is not questioned: whether the pod does suffer is not measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from cotenant.engine.migration.steps import SimulatedMove
from cotenant.engine.rebalancer.choosing import RoundChoice
from cotenant.engine.rebalancer.kind_context import KindContext
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.prediction import growth_of
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.model.groups.migration import MigrationJob, MoveNote, PodRef
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.rebalance.loads.order import LoadPod, sorted_pods


class RequestedMoves:
    """Simulates requests beside a planner (see `MoveSimulator` in engine/migration)."""

    def __init__(
        self, planner: Planner, kept: Callable[[float], Mapping[str, str]] = lambda now_s: MappingProxyType({})
    ) -> None:
        """`kept`: reasons against pods at a time, by UID."""
        self._planner, self._kept = planner, kept

    def __call__(self, job: MigrationJob, moving: Sequence[MigrationJob], now_s: float) -> SimulatedMove:
        """The what-if of one job; final where waiting does not change it."""
        with self._planner.simulating(now_s, moving, self._kept(now_s)) as (choice, context):
            choice.simulator.place_waiting()
            return self._best(job, choice, context, now_s)

    def _best(self, job: MigrationJob, choice: RoundChoice, context: KindContext, now_s: float) -> SimulatedMove:
        reasons: list[str] = []
        candidates: list[LoadPod] = []
        for key in dict.fromkeys((job.pod.key, *job.alternatives)):
            entry = choice.cluster.find(key)
            if entry is None or not entry.node or (key == job.pod.key and job.pod.uid not in ("", entry.seen.uid)):
                reasons.append(f"{key}: there is no such pod on a node")
            else:
                candidates.append(context.load_pod(entry))
        may_later = ""
        for pod in sorted_pods(candidates, {}, {}):
            node = choice.entries[pod.uid].node
            if pod.refused:
                reasons.append(f"{pod.key}: {pod.refused}")
                continue
            waits = choice.admit(pod, node)
            if waits:
                may_later = may_later or f"{pod.key}: {waits}"
                continue
            targets = self._planner.use.cooler_than(node, pod.key, now_s)
            if not targets:
                reasons.append(f"{pod.key}: with it no other node would use less of its CPU than {node} does")
                continue
            with choice.trial():
                landing = choice.land(pod, node, targets)
                why = landing.reason or growth_of(choice.effects.get(pod.uid))
                note = None if why else self._note(job, pod, choice, (node, landing.node), now_s)
            if note is not None:
                namespace, _, name = pod.key.partition("/")
                return SimulatedMove(PodRef(namespace, name, pod.uid), note)
            reasons.append(f"{pod.key}: {why}")
        if may_later:
            return SimulatedMove(why=may_later)
        return SimulatedMove(why="; ".join(reasons), final=True)

    def _note(
        self, job: MigrationJob, pod: LoadPod, choice: RoundChoice, nodes: tuple[str, str], now_s: float
    ) -> MoveNote:
        entry, (node, target) = choice.entries[pod.uid], nodes
        owner, used = controller(entry), self._planner.use.used_by(pod.key, node)
        before, target_before = self._planner.use.percents(node, now_s), self._planner.use.percents(target, now_s)
        self._planner.use.count(pod.key, node, target, used)
        return MoveNote(
            kind=f"{job.trigger or 'Requested'}/{job.pod.key}",
            node=node,
            target=target,
            resource=CPU_NAME if CPU_NAME in before and CPU_NAME in target_before else "",
            workload=owner.uid if owner is not None else "",
            replicas=self._planner.replicas.get(owner.uid, 1) if owner is not None else 1,
            used={CPU_NAME: used.cpu_m, MEMORY_NAME: used.memory_bytes},
            node_before=before,
            node_after=self._planner.use.percents(node, now_s),
            target_before=target_before,
            target_after=self._planner.use.percents(target, now_s),
        )
