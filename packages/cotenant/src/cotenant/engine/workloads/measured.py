"""What was measured of running pods, and what follows: estimates, slack, interference, workload profiles, moves.

Measurements arrive node by node and window by window, and each must correct the figures that placement reads before the
next round. NodeMetrics are gathered and used together once a minute (`correct`); columns of measurements, as the lab
has them, are used at once.
Limits: what is corrected is of a pod's shape or application, not of the single pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf, nan

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.moves import Moves
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.state.estimates import Learned
from cotenant.engine.state.learned_profiles import ProfileStore
from cotenant.engine.state.measurements import CORRECTION_EVERY_S, PodMeasurements, signal
from cotenant.engine.workloads.profiles import FollowedProfiles, PodWindow
from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import WorkloadProfile
from cotenant.model.machine.node_metric import NodeMetric
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.placement.profiles import PlacementProfile


class MeasuredPods:
    """The measurements of one cluster's pods. The other arguments are the cluster's own parts; `nodes` by name."""

    def __init__(
        self,
        profile: PlacementProfile,
        components: ClusterComponents,
        pods: Pods,
        outbox: Outbox,
        nodes: Mapping[str, Node],
    ) -> None:
        self._profile, self._components, self._pods, self._outbox, self._nodes = (
            profile,
            components,
            pods,
            outbox,
            nodes,
        )
        self._moves = Moves(components, nodes)
        self._measurements = PodMeasurements()
        self._workloads = FollowedProfiles()
        self._has_new_priors = False
        self.is_learning = profile.learns_interference  # else `tagged` and `use_new_priors` change nothing
        self.due_s = -inf if profile.reads_metrics or profile.weighs_slack else inf  # the next `correct`
        self.next_s = inf  # when `correct` has something to do for workload profiles

    def tagged(self, seen: ObservedPod) -> ObservedPod:
        """The pod with the WorkloadProfile that it belongs to, where the policy learns interference."""
        return self._workloads.tagged(seen) if self._workloads and self._profile.learns_interference else seen

    def _plan(self) -> None:
        self.next_s = self.due_s if self._measurements and self._workloads else inf

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """The NodeMetric of a node. Estimates are corrected by all of them together, once a minute, before a round."""
        if not self._profile.reads_metrics:
            return

        def uid_of(key: str) -> str | None:
            """Of the pod with this name on the node, if it was there when the node was measured: a namesake may be
            elsewhere, or have left.
            """
            entry = self._pods.by_uid.get(self._pods.by_key.get(key, ""))
            if entry is None or entry.node != metric.node or entry.seen.started_s > now_s - metric.age_s:
                return None
            return entry.seen.uid

        self._measurements.note(metric, uid_of)
        self._plan()

    def correct(self, now_s: float) -> None:
        """Correct estimates by the measurements since the last correction, and the remaining slack; not before
        `due_s`.
        """
        taken = self._measurements.take()
        entries = [self._pods.by_uid.get(uid) for uid in taken]
        numbers = np.array([-1 if entry is None else entry.number for entry in entries], dtype=np.int64)
        cpu = np.array([measured_pod.use.cpu_m / 1000.0 for measured_pod in taken.values()], dtype=np.float64)
        memory = np.array([measured_pod.use.memory_bytes for measured_pod in taken.values()], dtype=np.float64)
        if self._profile.learns_interference:
            signals = [
                nan if entry is None else signal(measured_pod.signals, entry.seen.pod)
                for entry, measured_pod in zip(entries, taken.values(), strict=True)
            ]
            self.interference(numbers, cpu, np.array(signals, dtype=np.float64), now_s)
        self.usage(numbers, cpu, memory, now_s)
        if self._workloads:
            self._profile_workloads(
                [
                    PodWindow(entry.seen, entry.node, measured_pod)
                    for entry, measured_pod in zip(entries, taken.values(), strict=True)
                    if entry is not None and entry.node
                ],
                now_s,
            )

    def _profile_workloads(self, windows: Sequence[PodWindow], now_s: float) -> None:
        """Add one round to the profiles of workloads, and queue the statuses that changed."""

        def capacity(name: str) -> tuple[float, float] | None:
            node = self._nodes.get(name)
            return None if node is None else (node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME))

        self._workloads.measured(windows, capacity, now_s)
        pods = Counter(self._workloads.key_of(window.seen) for window in windows)
        for status in self._workloads.statuses(self.workload_profile, pods, now_s):
            self._outbox.say(status)

    def workload_profile_seen(self, profile: WorkloadProfile) -> None:
        """A WorkloadProfile was created or changed: it is the prior of its workload's interference, and its status
        follows what is measured.
        """
        self._workloads.seen(profile)
        self._plan()
        self._set_prior(profile.key)

    def workload_profile_gone(self, key: str) -> None:
        """A WorkloadProfile was deleted."""
        self._workloads.gone(key)
        self._plan()
        self._set_prior(key)

    def _set_prior(self, key: str) -> None:
        profiles = self._components.assignments.estimates.profiles
        if profiles is not None:
            before = profiles.store.changes
            profiles.store.set_prior(key, self._workloads.prior(key))
            self._has_new_priors |= profiles.store.changes != before

    def use_new_priors(self, now_s: float) -> None:
        """Give pods the profile of their workload, after workloads have got or lost one, and write changed priors
        into the shapes of known pods.
        """
        if self._workloads.changed:
            self._workloads.changed = False
            if self._profile.learns_interference:
                for entry in list(self._pods.by_uid.values()):
                    seen = self._workloads.tagged(entry.seen)
                    if seen is not entry.seen:
                        self._pods.pod_seen(seen, now_s)
        if self._has_new_priors:
            self._has_new_priors = False
            assignments = self._components.assignments
            assignments.write()
            shapes = {entry.shape for entry in self._pods.by_uid.values() if entry.shape >= 0}
            known = np.array(sorted(shapes), dtype=np.int64)
            assignments.estimates.correct_profiles(known)
            assignments.estimates.rewrite(known)
            assignments.verdict_cache.forget()
            assignments.revise()

    def usage(self, numbers: Int, cpu_cores: Float, memory_bytes: Float, now_s: float) -> None:
        """Measured use of running pods, columns aligned with their `numbers`; pods on no node are skipped.

        Corrects the estimates of their shapes where the profile asks for it.
        """
        profile, assignments = self._profile, self._components.assignments
        if not (profile.reads_metrics or profile.weighs_slack):
            return
        self.due_s = now_s + CORRECTION_EVERY_S
        self._plan()
        assignments.write()
        estimates = assignments.estimates
        assigned = estimates.assigned_shapes()
        if profile.measures_use:
            known = assignments.on_nodes(numbers)
            estimates.measured(numbers[known], cpu_cores[known], memory_bytes[known])
            estimates.correct_use()
            self._components.placing.lend(estimates.trust)
        if profile.weighs_slack:
            estimates.correct_slack(estimates.batch_of(assigned), now_s)
        estimates.correct_profiles(assigned)
        estimates.rewrite(assigned)
        assignments.verdict_cache.forget()
        assignments.revise()

    def adopt(self, learned: tuple[Learned, ...], now_s: float, profiles: ProfileStore | None = None) -> None:
        """Take over what another engine has measured of equal shapes, and learned of applications; the store is not
        copied.
        """
        own = self._components.assignments.estimates.profiles
        if profiles is not None and own is not None:
            own.adopt(profiles)
            self._components.profiles = profiles
        if learned:
            self._components.assignments.write()
            self._components.assignments.estimates.adopt(learned)
            nothing = np.zeros(0)
            self.usage(np.zeros(0, dtype=np.int64), nothing, nothing, now_s)

    def latency(self, numbers: Int, p99_ratio: Float, requests: Int, now_s: float) -> None:
        """The last window of replicas, by number: p99 over objective, and the number of its requests. Replicas
        worth moving are evicted (`Evict`) where the profile says so.
        """
        if not self._profile.moves_victims:
            return
        self._components.assignments.write()
        known = self._components.assignments.on_nodes(numbers)
        for move in self._moves.consider(numbers[known], p99_ratio[known], requests[known], now_s):
            self._outbox.say(move)

    def interference(self, numbers: Int, cpu_cores: Float, signal: Float, now_s: float) -> None:
        """One window of running pods, columns aligned with their `numbers`; pods on no node are skipped. Call before
        `usage`.

        `signal` is p99 over objective of a service's replica; of another pod time per unit of progress, or cycles per
        instruction; NaN where it was not measured. Values that are not finite or absurd are refused and counted
        (`ProfileStore.refused`).
        """
        profiles = self._components.assignments.estimates.profiles
        if profiles is None:
            return
        self._components.assignments.write()
        known = self._components.assignments.on_nodes(numbers)
        profiles.observe(numbers[known], cpu_cores[known], signal[known], now_s)

    def workload_profile(self, pod: Pod) -> InterferenceProfile | None:
        """What was learned of the pod's application, or its prior; None where the policy does not learn. The pod
        need not exist.
        """
        profiles = self._components.assignments.estimates.profiles
        return profiles.of(pod.shape()) if profiles is not None else None

    def outgrew(self, uid: str, memory_bytes: float) -> None:
        """A pod that is being evicted for memory used this much: the estimate of its shape is raised to it. Call
        before the pod is gone.
        """
        entry = self._pods.by_uid.get(uid)
        if entry is not None:
            assignments = self._components.assignments
            assignments.write()
            assignments.estimates.outgrew(entry.shape, memory_bytes)
            assignments.verdict_cache.forget_shapes(np.array([entry.shape]))
