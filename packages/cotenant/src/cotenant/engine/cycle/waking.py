"""Which waiting groups an event may help.

Trying every waiting group after every event takes all of the scheduler's time. Groups that a row-local filter refused
are woken exactly where they pass on a changed row, others after the kinds of events that their filters name
(`Plugin.events`, engine/framework/events.py), and where plugins refused them only if those agree (`queueing_hint`).
Source: kube-scheduler's queueing hints.
Limits: with very many waiting groups events are looked at four times a second.
"""

from __future__ import annotations

from collections.abc import Set
from math import inf

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.placing import ROW_LOCAL
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.events import EVERYTHING, EventKind
from cotenant.engine.framework.queueing import QueuedGroup

_MANY_GROUPS = 256
_WAKE_EVERY_S = 0.25
_EVERYTHING = frozenset({EVERYTHING})


class Waking:
    """Wakes the waiting groups of one cluster."""

    def __init__(self, components: ClusterComponents, pods: Pods) -> None:
        self._components = components
        self._pods = pods
        self._roster = components.roster
        self._woken_s = 0.0
        self._overdue_at_s = inf  # when a pod that another waits for becomes overdue

    def next_s(self) -> float:
        """When there may be something to wake; -inf = at once, inf = never."""
        assignments, due_s = self._components.assignments, min(self._overdue_at_s, self._components.elsewhere.due_s)
        if self._components.queue.unschedulable_groups() and (
            self._pods.happened or assignments.changed or (assignments.stirred and self._components.nominations.by_uid)
        ):
            return min(self._wake_again_s(), due_s)
        return due_s

    def wake(self, now_s: float) -> None:
        """Wake groups that events may help; for row-local filters, exactly those that now pass on a changed row."""
        happened, rows = self._pods.happened, self._components.assignments.changed
        stirred = self._components.assignments.stirred
        if self._overdue_at_s <= now_s:
            self._wake_nominated(None, now_s)
        if self._components.elsewhere.due_s <= now_s:
            for group in self._components.elsewhere.take_due(self._components.queue.group_of, now_s):
                self._components.queue.hurry(group, now_s, EventKind.NODE_ADDED.value)
        if not (happened or rows or stirred) or now_s < self._wake_again_s():
            return
        self._woken_s = now_s
        self._wake_nominated(stirred, now_s)
        stirred.clear()
        for plugin in self._roster.grouping:
            if not plugin.is_idle:
                plugin.rows_changed(rows, now_s)
        if self._components.queue.unschedulable_groups():
            self._wake_waiting(happened, rows, now_s)
        happened.clear()
        rows.clear()

    def _wake_waiting(self, happened: Set[EventKind], rows: Set[int], now_s: float) -> None:
        queue, event = self._components.queue, min(happened, default=EventKind.NODE_CHANGED).value
        by_row: list[QueuedGroup] = []
        preempting: list[QueuedGroup] = []
        hinted: dict[frozenset[str], bool] = {}
        for group in queue.unschedulable():
            filters = group.verdict.filters if group.verdict is not None else _EVERYTHING
            may = hinted.get(filters)  # thousands of groups wait for the same few reasons
            if may is None:
                may = hinted[filters] = any(self._roster.helping(name) & happened for name in filters - ROW_LOCAL)
            if may and self._may_help(group, filters):
                queue.wake(group, now_s, event)
                continue
            if filters & ROW_LOCAL or not filters:
                by_row.append(group)
            if rows and group.verdict is not None and group.verdict.record.rejections:
                if group.is_large:  # the question costs as much as the judgement, which has a limit
                    queue.wake(group, now_s, event)
                else:
                    preempting.append(group)
        if by_row and rows:
            asked = [(group, shape) for group in by_row for shape in group.shapes or (group.shape,)]
            helped = self._components.placing.helped([shape for _, shape in asked], sorted(rows))
            for (group, _), helps in zip(asked, helped, strict=True):
                if helps:
                    queue.wake(group, now_s, event)
        for group in self._components.clearing.helped(preempting, rows, self._pods.by_uid) if preempting else ():
            queue.wake(group, now_s, event)

    def _wake_nominated(self, nodes: Set[str] | None, now_s: float) -> None:
        """Wake pods that are nominated for one of these nodes, None = any: they may fit there already, or never. Rules
        between pods depend on other nodes too.
        """
        nominations, assignments = self._components.nominations, self._components.assignments
        self._overdue_at_s = inf
        if not nominations.by_uid:
            return
        for nomination in nominations.each():
            if nodes is None or nomination.node in nodes or assignments.narrowing.is_narrowed(nomination.entry.number):
                group = self._components.queue.group_of(nomination.entry.seen.uid)
                if group is not None:
                    self._components.queue.wake(group, now_s, EventKind.NODE_CHANGED.value)
        self._overdue_at_s = self._components.preempting.overdue_at_s(self._pods.by_uid, now_s)

    def _may_help(self, group: QueuedGroup, filters: frozenset[str]) -> bool:
        """Whether the plugins that refused the group may admit it now."""
        asked = [plugin for plugin in self._roster.queueing_hint if plugin.name in filters]
        if not asked:
            return bool(group.pods)
        for uid in group.pods:
            if all(plugin.queueing_hint(self._pods.by_uid[uid]) for plugin in asked):
                return True
            if not group.whole:  # all of its pods are alike
                return False
        return False

    def _wake_again_s(self) -> float:
        """When to check groups for waking again: at once, unless there are so many that the check is expensive."""
        return self._woken_s + _WAKE_EVERY_S if self._components.queue.unschedulable_groups() > _MANY_GROUPS else -inf
