"""Nodes on which this engine must not place, because another scheduler of the same cluster does.

Their pods count as everywhere, for quotas, spread and affinity; only new pods are kept off, by the same column that
keeps them off nodes that are not ready, so that nothing costs more where no node is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.fixed_filters import SHARD
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import AlikePods, QueueStanding
from cotenant.model.resources import Amounts


class ClosedNodes:
    """Closes and opens nodes of one engine, and finds what would help on closed ones."""

    def __init__(self, components: ClusterComponents, pods: Pods) -> None:
        self._components = components
        self._pods = pods

    @property
    def names(self) -> frozenset[str]:
        """Those that are closed."""
        return frozenset(self._components.assignments.encoder.closed)

    def close(self, names: Iterable[str], now_s: float) -> None:
        """Place nothing on these from now on. Pods that hold room there and wait for others give it back; a bind that
        is decided stays so.
        """
        assignments, nominations = self._components.assignments, self._components.nominations
        for name in names:
            if name in assignments.encoder.closed:
                continue
            assignments.set_closed(name, True)
            for entry in [
                e for e in assignments.residents.get(name, {}).values() if e.state is SchedulingState.WAITING
            ]:
                self._pods.give_back(entry, now_s, "NodeClosed")
            for entry in [self._pods.by_uid[uid] for uid in nominations.on(name)]:
                self._pods.drop_nomination(entry)
                self._pods.requeue(entry, now_s)

    def open(self, names: Iterable[str]) -> None:
        """Place on these again."""
        assignments = self._components.assignments
        for name in names:
            if name in assignments.encoder.closed:
                assignments.set_closed(name, False)
                self._pods.happened.add(EventKind.NODE_ADDED)
                self._components.elsewhere.opened()

    def forget(self, name: str) -> None:
        """A node was deleted: one that comes by its name is closed anew, or not."""
        if name in self.names:
            self._components.assignments.set_closed(name, False)

    def refused(self, names: frozenset[str]) -> None:
        """Those of the closed ones that are not to be had now: pods that wait for their room may preempt."""
        self._components.elsewhere.refused(names)

    def give_up(self, uid: str, now_s: float) -> bool:
        """Forget a pending pod, for which another decides from now on. False = its bind is decided or under way."""
        entry = self._pods.by_uid.get(uid)
        if entry is None:
            return True
        if entry.state in (SchedulingState.ASSUMED, SchedulingState.BINDING, SchedulingState.BOUND):
            return False
        if entry.state is SchedulingState.WAITING:
            self._pods.give_back(entry, now_s, "NotOurs")
        self._pods.forget(entry, now_s)
        return True

    def waiting(self) -> PodInfo | None:
        """Any pod that waits in the queue."""
        groups = (group for group in self._components.queue.groups() if group.pods)
        group = next(groups, None)
        return self._pods.by_uid[next(iter(group.pods))] if group is not None else None

    def waiting_alike(self) -> Iterator[AlikePods]:
        """The pods in the queue, alike ones as one, and so those that are placed together."""
        by_uid = self._pods.by_uid
        for group in self._components.queue.groups():
            if group.pods:
                together = tuple(by_uid[uid] for uid in group.pods) if group.whole else ()
                rests = group.standing is QueueStanding.UNSCHEDULABLE and group.verdict is not None
                refused_by = group.verdict.filters if rests and group.verdict is not None else frozenset[str]()
                yield AlikePods(by_uid[next(iter(group.pods))], len(group.pods), together, refused_by)

    def places(self, each: Amounts, most: int) -> int:
        """How many pods of such a request open nodes have room for, at most so many; other rules are not looked at."""
        assignments = self._components.assignments
        assignments.write()
        nodes, request = assignments.ledger.nodes, np.array(assignments.encoder.axis.row(each), dtype=np.int64)
        rows, asked = np.flatnonzero(nodes.ready), np.flatnonzero(request > 0)
        if not len(rows) or not len(asked):
            return most if len(rows) else 0
        left = (nodes.capacity[rows][:, asked] - nodes.requested[rows][:, asked]) // request[asked]
        return min(most, int(np.maximum(0, left.min(axis=1)).sum()))

    def deciding(self) -> Iterator[PodInfo]:
        """Pods whose bind is decided and not answered."""
        return iter(self._pods.answers.values())

    def is_awaited(self, name: str) -> bool:
        """Whether a pod is nominated for a node."""
        return bool(self._components.nominations.on(name))

    def helpful(self, max_shapes: int) -> Iterator[tuple[int, dict[str, int]]]:
        """For pods that wait because no open node has room, alike ones together: how many they are, and for how many of
        them each closed node has room, as far as the filters of a single pod say.
        """
        assignments, waiting = self._components.assignments, dict[int, list[PodInfo]]()
        if not assignments.encoder.closed:
            return
        for group in self._components.queue.groups():
            if group.verdict is None or SHARD not in group.verdict.filters:
                continue
            for uid in group.pods:
                entry = self._pods.by_uid[uid]
                waiting.setdefault(entry.shape, []).append(entry)
        largest = sorted(waiting.items(), key=lambda item: (-len(item[1]), item[0]))
        closed = assignments.encoder.closed_rows()
        for shape, entries in largest[:max_shapes]:
            assignments.write()
            checked = self._components.placing.check(shape, entries[0].number)
            rows = np.flatnonzero(checked.here & closed & (checked.misses == 1))
            nodes, request = assignments.ledger.nodes, assignments.ledger.shapes.request[shape]
            asked = np.flatnonzero(request > 0)
            left = (nodes.capacity[rows][:, asked] - nodes.requested[rows][:, asked]) // request[asked]
            fits = np.maximum(1, left.min(axis=1)) if len(asked) else np.ones(len(rows), dtype=np.int64)
            yield len(entries), dict(zip((assignments.names[row] for row in rows), fits.tolist(), strict=True))
