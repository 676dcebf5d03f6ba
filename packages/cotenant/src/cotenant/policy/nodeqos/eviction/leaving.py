"""Terminating pods: how long their resources count as about to be freed.

A terminating pod frees its resources soon, so evicting others for the same need is waste; but a pod that never
terminates must not keep an overcommitted node from acting. It counts for a fixed time after it was first seen
terminating.
Limits: the time is the same for all pods; a pod's own grace period is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.model.machine.node_state import NodeState

PATIENCE_US = 60_000_000  # twice Kubernetes' default grace period


@dataclass(frozen=True, slots=True)
class Leaving:
    """Terminating pods with the time at which each was first seen terminating."""

    since_us: tuple[tuple[str, int], ...] = ()

    def seen(self, state: NodeState) -> Leaving:
        """Updated with the pods that are terminating now; pods that are gone are dropped."""
        known = dict(self.since_us)
        now = [entry.pod.uid for entry in state.pods if entry.pod.phase is NodePodPhase.TERMINATING]
        return Leaving(tuple((uid, known.get(uid, state.at_us)) for uid in now))

    def overdue(self, at_us: int, patience_us: int) -> frozenset[str]:
        """Pods that should have terminated by now."""
        return frozenset(uid for uid, since in self.since_us if at_us - since >= patience_us)


NONE_LEAVING = Leaving()
