"""A pod that the CPU rule watches: what it needs, what it was given, and what is reserved for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cotenant.engine.framework.node_rules import Lent
from cotenant.engine.rules.cpus.accounts import CpuClaim
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.spec import ExclusivePolicy, ResourceStatus
from cotenant.model.cpus.topology import mask_of
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.placement.cpus.drawing import give_from
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import CpuNode, GivenCpus, Sets, give
from cotenant.policy.placement.numa import Provider, no_hints
from cotenant.policy.placement.refusal import Refusal


@dataclass(slots=True)
class CpuPod:
    """Mutable; owned by the rule."""

    key: str
    need: CpuNeed | None
    exclusive: ExclusivePolicy
    cpu_m: int = 0  # that it requests
    memory_bytes: int = 0
    claim: CpuClaim | None = None  # chosen or reported
    chosen_for: str = ""  # the node that `claim` was chosen for; "" = reported
    node: str = ""  # the node it is assigned to
    elsewhere: Sets = ()  # NUMA nodes for the resources of other rules on the row chosen last
    lent: Mapping[int, Lent] = field(default_factory=dict)  # row -> what is reserved for it there

    @classmethod
    def of(cls, pod: Pod, need: CpuNeed | None) -> CpuPod:
        """One that holds nothing."""
        exclusive = need.spec.exclusive if need is not None else ExclusivePolicy.NONE
        return cls(pod.key, need, exclusive, pod.requests.get(CPU_NAME), pod.requests.get(MEMORY_NAME))

    def reported(self, status: ResourceStatus) -> CpuClaim:
        """What its annotation says that it holds."""
        return CpuClaim.reported(self.key, status, self.exclusive, self.cpu_m, self.memory_bytes)

    def given_on(
        self, node: CpuNode, need: CpuNeed, row: int, providers: Callable[[], Provider]
    ) -> GivenCpus | Refusal | None:
        """What it would get on a row, aligned with what other rules give; reserved devices are not realigned."""
        lent = self.lent.get(row)
        others = no_hints if lent is not None and lent.holds.devices else providers()
        if lent is None or lent.holds.cpus is None:
            return give(node, need, others)
        return give_from(node, need, mask_of(lent.holds.cpus.cpus), CPU_NAME in lent.strict, others)
