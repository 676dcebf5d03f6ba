"""Scheduling rounds over a cluster's queue: groups that may be helped are woken, pods are taken and judged, and what
was found is made true.

Large pods are judged apart, within a limit of CPU time (engine/framework/budget.py); one that exceeds it is set
aside.
"""

from __future__ import annotations

from cotenant.engine.cycle.access import CycleAccess, group_placer
from cotenant.engine.cycle.applying import Applying
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.judging import Judging, Taken
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.waking import Waking
from cotenant.engine.framework.budget import (
    FILTER,
    MAX_S,
    MEMBER_S,
    SHARE,
    TOO_EXPENSIVE,
    USUAL_S,
    OverBudget,
    elements,
    of_what,
)
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.queueing import PlacementVerdict

_SET_ASIDE = "judgement set aside: too expensive"


class Rounds:
    """Runs scheduling rounds over one cluster's pending pods."""

    def __init__(self, components: ClusterComponents, pods: Pods, outbox: Outbox, schedulers: tuple[str, ...]) -> None:
        """`schedulers`: spec.schedulerName of the pods that are ours."""
        self._components = components
        self._pods = pods
        self._roster = components.roster
        self._profile = profile = components.profile
        self._outbox = outbox
        self._waking = Waking(components, pods)
        self._judging = Judging(components, pods)
        self._applying = Applying(components, pods, outbox)
        self._corrects = profile.reads_metrics or profile.weighs_slack
        self.judged = 0  # pods, in all rounds
        self.access = CycleAccess(
            components,
            pods,
            outbox,
            self._applying.waiting,
            group_placer(components),
            self._applying.assume,
            schedulers,
        )

    @property
    def remembering(self) -> tuple[object, ...]:
        """The parts that remember something from one round to the next."""
        return (self, self._waking, self._applying, self._applying.waiting, self._components.preempting)

    def round(self, max_pods: int, now_s: float, only: str = "") -> None:
        """Wake groups that events may help, then judge up to `max_pods` pending pods. The arrays must be up to date.

        `only`: judge this queued pod, with its group where that is judged as a whole, and no other; back-offs do not
        matter.
        """
        queue = self._components.queue
        if self._applying.waiting.records:
            self._applying.waiting.forget_gone()
        self._components.preempting.round_s = now_s
        moved = False
        for plugin in self._roster.grouping:
            moved |= not plugin.is_idle and plugin.start_round(now_s)
        if moved:
            self._components.assignments.write()
        if only:
            taken, large = queue.take_only(only)
        else:
            self._waking.wake(now_s)
            queue.release(now_s)
            taken, large = queue.take(max_pods), []
        if taken:
            self._judge(taken, now_s)
        large = large if only else queue.take_large(now_s)
        if large:
            self._judge_large(large, now_s, USUAL_S if taken else min(MAX_S, USUAL_S * 2 ** large[0][1].overruns))
        for plugin in self._roster.grouping:
            if not plugin.is_idle:
                plugin.end_round(now_s)
        if victims := self._outbox.victims():
            self._applying.waiting.spare(victims, now_s)
        if self._applying.waiting.untold:
            self._applying.waiting.tell()
        terms = self._components.assignments.narrowing.terms
        if terms.large:
            terms.release_large()

    def next_s(self) -> float:
        """When `round` must be called next; -inf = at once, inf = never."""
        return min(self._components.queue.next_s(), self._waking.next_s())

    def _judge(self, taken: Taken, now_s: float) -> None:
        """Judge pods that were taken from the queue, and settle them."""
        self.judged += len(taken)
        if self._corrects:
            shapes = {self._pods.by_uid[uid].shape for uid, _ in taken}
            self._components.assignments.correct_waiting(
                shapes, now_s, self._profile.weighs_slack, self._profile.measures_use
            )
        for outcome in self._judging.judge(taken, now_s):
            self._applying.apply(outcome, now_s)
        for plugin in self._roster.grouping:
            if not plugin.is_idle:
                plugin.settle_groups(now_s)
        self._components.queue.requeue(taken)

    def _judge_large(self, taken: Taken, now_s: float, limit_s: float) -> None:
        """Judge one large pod, or one large group, within this limit of CPU time for the first; it is longer only where
        nobody waits for it.
        """
        budget, group = self._components.budget, taken[0][1]
        entries = [self._pods.by_uid[uid] for uid, _ in taken]
        first, largest = entries[0], max(entries, key=lambda entry: elements(entry.seen))
        begun_s = budget.now()
        try:
            with budget.within(limit_s + MEMBER_S * (len(taken) - 1)):
                self._judge(taken, now_s)
        except OverBudget:  # by a question of a plugin, before a node was chosen
            self._components.queue.requeue(taken)
        self._components.assignments.narrowing.terms.release_large()
        spent_s = budget.now() - begun_s
        self._components.queue.rest(now_s + spent_s * (1.0 - SHARE) / SHARE)
        if not budget.is_exceeded or not group.pods:
            return
        self._outbox.count(_SET_ASIDE)
        words = (
            f"{len(taken)} members, among them one of {of_what(largest.seen.pod)}"
            if group.whole
            else of_what(first.seen.pod)
        )
        message = (
            f"set aside: {TOO_EXPENSIVE}, for {words}; large pods are judged apart from the others, "
            "and it is tried again later"
        )
        self._components.queue.set_aside(
            group,
            PlacementVerdict(self._pods.record(first, message, now_s), message, frozenset({FILTER}), is_held=True),
            now_s,
        )
        for uid in group.pods:
            self._outbox.waits(
                self._pods.by_uid[uid], message, self._pods.record(self._pods.by_uid[uid], message, now_s), held=True
            )
