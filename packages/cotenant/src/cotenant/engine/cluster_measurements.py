"""What is measured of a cluster's pods, as events of its engine: use, latency, interference, and what was learned
before.

`Cluster` has these beside the events of objects. What follows from a measurement is in engine/workloads.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.cluster_state import ClusterState
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.state.estimates import Learned
from cotenant.engine.state.learned_profiles import ProfileStore
from cotenant.engine.workloads.measured import MeasuredPods
from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.interference_profile import InterferenceProfile
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import WorkloadProfile
from cotenant.model.machine.node_metric import NodeMetric


class ClusterMeasurements(ClusterState):
    """Measurements of the pods of one cluster."""

    def __init__(
        self,
        components: ClusterComponents,
        pods: Pods,
        nodes: Mapping[str, Node],
        namespaces: Mapping[str, NamespaceFacts],
        budgets: DisruptionBudgets,
        outbox: Outbox,
        plugins: PluginRegistry,
    ) -> None:
        super().__init__(components, pods, nodes, namespaces, budgets)
        self.plugins = plugins
        self.profile = components.profile
        self._measured = MeasuredPods(self.profile, components, pods, outbox, nodes)

    @property
    def wants_measurements(self) -> bool:
        """Whether the policy reads the measured use or latency of pods."""
        profile = self.profile
        return profile.reads_metrics or profile.weighs_slack or profile.moves_victims

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """The NodeMetric of a node. Estimates are corrected by all of them together, once a minute, before a round."""
        self._measured.metric_seen(metric, now_s)

    def workload_profile_seen(self, profile: WorkloadProfile, now_s: float) -> None:
        """A WorkloadProfile was created or changed: it is the prior of its workload's interference, and its status
        follows what is measured.
        """
        self._measured.workload_profile_seen(profile)
        self.plugins.neighbours.profile_seen(profile)

    def workload_profile_gone(self, key: str, now_s: float) -> None:
        """A WorkloadProfile was deleted."""
        self._measured.workload_profile_gone(key)
        self.plugins.neighbours.profile_gone(key)

    def usage_measured(self, numbers: Int, cpu_cores: Float, memory_bytes: Float, now_s: float) -> None:
        """Measured use of running pods, columns aligned with their `numbers`; pods on no node are skipped.

        Corrects the estimates of their shapes where the profile asks for it.
        """
        self._measured.usage(numbers, cpu_cores, memory_bytes, now_s)

    def adopt(self, learned: tuple[Learned, ...], now_s: float, profiles: ProfileStore | None = None) -> None:
        """Take over what another engine has measured of equal shapes, and learned of applications; the store is not
        copied.
        """
        self._measured.adopt(learned, now_s, profiles)

    def correct(self, now_s: float) -> None:
        """Correct estimates by the NodeMetrics so far, where a minute has passed. `decide` does it too; an engine
        that only simulates calls this.
        """
        self._measured.use_new_priors(now_s)
        if now_s >= self._measured.due_s:
            self._measured.correct(now_s)

    def latency_measured(self, numbers: Int, p99_ratio: Float, requests: Int, now_s: float) -> None:
        """The last window of replicas, by number: p99 over objective, and the number of its requests. Replicas
        worth moving are evicted (`Evict`) where the profile says so.
        """
        self._measured.latency(numbers, p99_ratio, requests, now_s)

    def interference_measured(self, numbers: Int, cpu_cores: Float, signal: Float, now_s: float) -> None:
        """One window of running pods, columns aligned with their `numbers`; pods on no node are skipped. Call before
        `usage_measured`.

        `signal` is p99 over objective of a service's replica; of another pod time per unit of progress, or cycles per
        instruction; NaN where it was not measured. Values that are not finite or absurd are refused and counted
        (`ProfileStore.refused`).
        """
        self._measured.interference(numbers, cpu_cores, signal, now_s)

    def workload_profile(self, pod: Pod) -> InterferenceProfile | None:
        """What was learned of the pod's application, or its prior; None where the policy does not learn. The pod
        need not exist.
        """
        return self._measured.workload_profile(pod)

    def outgrew(self, uid: str, memory_bytes: float) -> None:
        """A pod that is being evicted for memory used this much: the estimate of its shape is raised to it. Call
        before the pod is gone.
        """
        self._measured.outgrew(uid, memory_bytes)
