"""Which of the node's pods is the agent itself, with its keeper, which is another container of the same pod.

By name or label anyone could look like an agent, and would then not be suspected of anything. The kernel says in which
groups this process is; where it is in a cgroup namespace of its own, and sees no path, the pod's UID is in its own
environment, which the kubelet writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cotenant.model.machine.node_pod import NodePod

UID_VARIABLE = "POD_UID"  # in the manifests, from metadata.uid


@dataclass(frozen=True, slots=True)
class OwnPods:
    """What this process knows of itself."""

    groups: Collection[str]
    uid: str = ""

    def marked(self, pods: Iterable[NodePod]) -> tuple[NodePod, ...]:
        """The pods, with `ours` set where it holds, and nowhere else."""
        return tuple(pod if pod.ours is (mine := self._is_ours(pod)) else replace(pod, ours=mine) for pod in pods)

    def _is_ours(self, pod: NodePod) -> bool:
        if self.uid and pod.uid == self.uid:
            return True
        return bool(pod.group) and any(own == pod.group or own.startswith(f"{pod.group}/") for own in self.groups)
