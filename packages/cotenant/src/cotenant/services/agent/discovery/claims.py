"""Which of two pods has a CPU that both claim, where no seal says so.

Without the scheduler's certificate, a pod that is entitled to two CPUs can write any two into its annotation, those of
another pod among them; bound to neither is what the policy does with a contested CPU, so the claim alone would take the
other's away. Who was seen with a CPU first keeps it; a later claim of it is left out whole, until the first pod has
left. A seal goes before everything.
Limits: what is found together at the agent's start has no order: there both are contested, as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cotenant.model.cluster.seal import SealStanding
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.machine.node_pod import NodePod, NodePodPhase


class CpuClaims:
    """Remembers who has which CPU."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, ...]] = {}  # by uid: claims that stood at the last look

    def settled(self, pods: Iterable[NodePod]) -> tuple[NodePod, ...]:
        """The pods, without claims of CPUs that another pod had before."""
        found = tuple(pods)
        taken: dict[int, str] = {}  # by CPU: the key of the pod that has it
        for pod in found:
            if self._stands(pod):
                taken.update(dict.fromkeys(pod.own_cpus, pod.key))
        settled = tuple(pod if not pod.own_cpus or self._stands(pod) else _checked(pod, taken) for pod in found)
        self._held = {pod.uid: pod.own_cpus for pod in settled if pod.own_cpus and pod.phase is not NodePodPhase.OVER}
        return settled

    def _stands(self, pod: NodePod) -> bool:
        return bool(pod.own_cpus) and (pod.holdings is SealStanding.SEALED or self._held.get(pod.uid) == pod.own_cpus)


def _checked(pod: NodePod, taken: dict[int, str]) -> NodePod:
    others = [cpu for cpu in pod.own_cpus if cpu in taken]
    if not others:
        return pod
    text = (
        f"the CPUs {format_cpus(pod.own_cpus)} of its annotation have no seal, and {taken[others[0]]} has "
        f"{format_cpus(others)} already"
    )
    return replace(pod, own_cpus=(), unbelieved=text)
