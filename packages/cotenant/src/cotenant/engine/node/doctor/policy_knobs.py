"""The knobs that each node policy writes on a kubelet's groups, as data: for the doctor and for the table of modes in
the agent's guide.

Limits: on a kubelet's node, as the policies write there; which pods are meant is each policy's own matter. Traffic and
cache classes belong to nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.groups import GroupKind, Level
from cotenant.model.machine.knob import Knob

_BEST_EFFORT = frozenset({KubernetesQoS.BEST_EFFORT})
_SERVICES = frozenset({KubernetesQoS.BURSTABLE, KubernetesQoS.GUARANTEED})
_PODS = frozenset({Level.POD, Level.CONTAINER})


@dataclass(frozen=True, slots=True)
class PolicyKnobs:
    """`policy`: a field of PolicySettings. `qos`: the Kubernetes classes of the groups. `what` says to people what
    is held.
    """

    policy: str
    what: str
    knobs: tuple[Knob, ...]
    levels: frozenset[Level]
    qos: frozenset[KubernetesQoS]

    def concerns(self, kind: GroupKind) -> bool:
        """Whether the policy writes groups of this kind."""
        return kind.level in self.levels and kind.qos in self.qos


POLICY_KNOBS: tuple[PolicyKnobs, ...] = (
    PolicyKnobs(
        "best_effort_cpu",
        "best-effort work as a whole",
        (Knob.CPU_MAX, Knob.CPUSET_CPUS, Knob.CPU_IDLE),
        frozenset({Level.QOS}),
        _BEST_EFFORT,
    ),
    PolicyKnobs(
        "batch_resources",
        "pods with batch resources",
        (Knob.CPU_WEIGHT, Knob.CPU_MAX, Knob.MEMORY_MAX),
        _PODS,
        _BEST_EFFORT,
    ),
    PolicyKnobs("own_cpus", "pods with CPUs of their own", (Knob.CPUSET_CPUS,), _PODS, _SERVICES),
    PolicyKnobs("burst", "services that burst", (Knob.CPU_BURST, Knob.CPU_MAX), _PODS, _SERVICES),
    PolicyKnobs("interference", "pods that disturb", (Knob.CPU_MAX,), frozenset({Level.POD}), _BEST_EFFORT),
    PolicyKnobs("recovery", "pods that disturb", (Knob.CPU_MAX, Knob.CPU_IDLE), frozenset({Level.POD}), _BEST_EFFORT),
    PolicyKnobs("recovery", "pods that disturb by disk use", (Knob.IO_MAX,), _PODS, _BEST_EFFORT),
    PolicyKnobs(
        "memory",
        "protection of memory",
        (Knob.MEMORY_MIN, Knob.MEMORY_LOW),
        frozenset({Level.QOS, Level.POD, Level.CONTAINER}),
        _SERVICES,
    ),
    PolicyKnobs("memory", "throttling of memory", (Knob.MEMORY_HIGH,), frozenset({Level.CONTAINER}), _SERVICES),
    PolicyKnobs("reclaim", "best-effort pods' memory", (Knob.MEMORY_HIGH,), frozenset({Level.POD}), _BEST_EFFORT),
    PolicyKnobs("io", "disks", (Knob.IO_WEIGHT, Knob.IO_MAX), frozenset({Level.POD}), frozenset(KubernetesQoS)),
)
