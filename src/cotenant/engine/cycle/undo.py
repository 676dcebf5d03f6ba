"""Undo of simulated decisions: the pods of an engine as they were before.

Problem: a plan of moves is simulated in a copy of the engine, and building the copy costs two seconds of CPU at 50,000 pods while a round moves fifty. Choice: simulate in the engine itself and restore the pods that
changed: what each pod was is remembered by reference, and what differs afterwards is removed and seen again, pods with a node before those without. Limits: nodes, objects of plugins and measurements must be as
before when `restore` is called; back-offs and verdicts of waiting pods begin again; gangs and reservations remember what happened to their members, so engines that have any are copied (`Cluster.tentative`).
"""

from __future__ import annotations

from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.model.cluster.observed import ObservedPod


class Undo:
    """The pods at the time of its creation."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods
        self._before: dict[str, tuple[PodInfo, ObservedPod, str, State]] = {
            uid: (entry, entry.seen, entry.node, entry.state) for uid, entry in pods.by_uid.items()
        }

    def restore(self, now_s: float) -> int:
        """Restore every pod that changed since; returns how many. May be called once."""
        now = self._pods.by_uid
        changed = []
        for uid, (entry, seen, node, state) in self._before.items():
            is_same = now.get(uid) is entry and entry.seen is seen and entry.node == node
            waits = state is not State.BOUND and entry.state not in (State.BOUND, State.ASSUMED, State.BINDING)
            if not (is_same and (entry.state is state or waits)):
                changed.append(seen)
        for uid in [*(uid for uid in now if uid not in self._before), *(seen.uid for seen in changed)]:
            self._pods.pod_gone(uid, now_s)
            self._pods.forget(uid)
        for seen in sorted(changed, key=lambda each: not each.node):
            self._pods.pod_seen(seen, now_s)
        return len(changed)
