"""Pods that are leaving already: whose room is counted on, and until when.

Problem: a pod that was told to go frees its room soon, so evicting others for the same need is waste; but one that never goes must not keep an
overfull node from acting. Choice: it is counted on for a while after it was first seen leaving, then no more. Limits: the while is the same for
all; a pod's own grace period is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.node_pod import Phase
from cotenant.model.machine.node_state import NodeState

PATIENCE_US = 60_000_000  # twice Kubernetes' usual grace period


@dataclass(frozen=True, slots=True)
class Leaving:
    """Who leaves, and since when it was seen to. As many entries as there are such pods."""

    since_us: tuple[tuple[str, int], ...] = ()

    def seen(self, state: NodeState) -> Leaving:
        """With those who leave now; who is gone is forgotten."""
        known = dict(self.since_us)
        now = [entry.pod.uid for entry in state.pods if entry.pod.phase is Phase.TERMINATING]
        return Leaving(tuple((uid, known.get(uid, state.at_us)) for uid in now))

    def overdue(self, at_us: int, patience_us: int) -> frozenset[str]:
        """Who should have left by now."""
        return frozenset(uid for uid, since in self.since_us if at_us - since >= patience_us)


NOBODY = Leaving()
