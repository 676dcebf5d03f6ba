"""A pod as amounts count it."""

from __future__ import annotations

from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.qos import PriorityClass, effective_class
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, MID_CPU, MID_MEMORY
from cotenant.policy.overcommit.facts import ActivePod
from cotenant.policy.rebalance.standings import application_of

_NATIVE = (CPU_NAME, MEMORY_NAME)


def active_pod(pod: ObservedPod) -> ActivePod:
    """The pod as it counts. A mid pod requests mid resources: they are what it may use of the node."""
    what = pod.pod
    cpu, memory = what.requests.get(CPU_NAME), what.requests.get(MEMORY_NAME)
    its_class = effective_class(what.priority_class, what.qos)
    if its_class is PriorityClass.NONE and not any(what.requests.get(n) or what.limits.get(n) for n in _NATIVE):
        its_class = PriorityClass.BATCH  # Kubernetes' BestEffort
    if its_class is PriorityClass.MID:
        cpu, memory = max(cpu, what.requests.get(MID_CPU)), max(memory, what.requests.get(MID_MEMORY))
    cpus = pod.holds.cpus
    zones = tuple(sorted({numa_amount.node for numa_amount in cpus.numa})) if cpus is not None and cpus.numa else None
    return ActivePod(what.key, its_class, Use(cpu, memory), what.qos, zones, pod.uid, application_of(what.labels))
