"""Pods that do not preempt yet, because closed nodes have room for them: another scheduler of the cluster may lend one.

Nobody must lose a pod while a node stands half empty in another shard. A pod that could preempt waits for room as long
as a closed node passes all filters but that of its shard, and was not refused. What is known of such a node may be
wrong, its shard may be dead or may not answer, so a pod waits `PATIENCE_S` at most, and then not again for `AGAIN_S`.
Limits: pods of gangs preempt at once. Nodes that a lender keeps count as room until it refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import numpy as np

from cotenant.engine.cycle.placing import Placing
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.engine.state.assignments import Assignments

PATIENCE_S = 10.0  # longer than a lost shard's Lease
AGAIN_S = 60.0


class RoomElsewhere:
    """Who waits for room on closed nodes of one engine instead of preempting."""

    def __init__(self, assignments: Assignments, placing: Placing) -> None:
        self._assignments = assignments
        self._placing = placing
        self._since_s: dict[str, float] = {}  # by UID, also of those whose patience is over
        self._waiting: set[str] = set()
        self._refused: frozenset[str] = frozenset()
        self.due_s = inf  # when those that wait must be judged again; -inf = at once

    def refused(self, names: frozenset[str]) -> None:
        """No room is to be had on these closed nodes now."""
        if self._waiting and names - self._refused:
            self.due_s = -inf
        self._refused = names

    def opened(self) -> None:
        """Some nodes were opened: who waits for room is judged again, whatever its back-off."""
        if self._waiting:
            self.due_s = -inf

    def awaited(self, entry: PodInfo, alike: Iterable[str], now_s: float) -> str:
        """What a pod waits for that could preempt, in words; empty where it may preempt. `alike`: UIDs of its group,
        whose time begins with its own.
        """
        if not self._assignments.encoder.closed:
            return ""
        since_s = self._since_s.get(entry.seen.uid, -inf)
        nodes = 0 if since_s + PATIENCE_S <= now_s < since_s + AGAIN_S else self._with_room(entry)
        if not nodes:
            self._waiting.discard(entry.seen.uid)
            return ""
        for uid in alike:
            if self._since_s.get(uid, -inf) + AGAIN_S <= now_s:
                self._since_s[uid] = now_s
            if self._since_s[uid] + PATIENCE_S > now_s:
                self._waiting.add(uid)
        self.due_s = min(self.due_s, self._since_s[entry.seen.uid] + PATIENCE_S)
        return f"no pod is preempted for it yet, as {nodes} node(s) of other shards have room, and one is asked for"

    def take_due(self, group_of: Callable[[str], QueuedGroup | None], now_s: float) -> list[QueuedGroup]:
        """The groups that must be judged again. `group_of`: of a pod that is still queued."""
        if now_s < self.due_s:
            return []
        due = {uid: group for uid in self._waiting if (group := group_of(uid)) is not None}
        self._since_s = {uid: since_s for uid, since_s in self._since_s.items() if group_of(uid) is not None}
        self._waiting = {uid for uid in due if self._since_s[uid] + PATIENCE_S > now_s}
        self.due_s = min((self._since_s[uid] + PATIENCE_S for uid in self._waiting), default=inf)
        return list({id(group): group for group in due.values()}.values())

    def _with_room(self, entry: PodInfo) -> int:
        assignments = self._assignments
        closed = assignments.encoder.closed_rows()
        checked = self._placing.check(entry.shape, entry.number)
        rows = np.flatnonzero(checked.here & closed & (checked.misses == 1))
        if not self._refused:
            return len(rows)
        return sum(assignments.names[row] not in self._refused for row in rows.tolist())
