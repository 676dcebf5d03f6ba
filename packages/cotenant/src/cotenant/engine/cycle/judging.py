"""A scheduling round over a cluster's queue: which groups are tried again, which pods are placed or refused, and which may preempt.

Problem: thousands of pods wait for the same few reasons, and evaluating them is useful only where something has changed. Choice: groups are
woken only by events that may help them, pods are placed in runs, and one verdict applies to a whole refused group; a few of the refused pods may preempt.
Source: kube-scheduler's scheduling cycle and queueing hints. Limits: a maximum number of preemptions per round; the others follow in the next round.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from math import inf
from typing import NamedTuple

from cotenant.engine.cycle.access import CycleAccess, group_placer
from cotenant.engine.cycle.components import Components
from cotenant.engine.cycle.ordering import in_order, rank
from cotenant.engine.cycle.placing import CLOSED, ROW_LOCAL, Judgement
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.waiting_pods import WaitingPods
from cotenant.engine.framework.budget import (
    FILTER,
    MEMBER_S,
    MOST_S,
    SHARE,
    TOO_EXPENSIVE,
    USUAL_S,
    OverBudget,
    elements,
    of_what,
)
from cotenant.engine.framework.events import EVERYTHING, Event, helping
from cotenant.engine.framework.instructions import Bind, ClaimChoice, Preempt
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.plugin import Plugin, Refused, overriding
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.framework.queueing import Group, Verdict, Whole
from cotenant.model.decisions.record import DecisionRecord

_PREEMPTIONS_A_ROUND = 4
_SET_ASIDE = "judgement set aside: too expensive"
_MANY_GROUPS = 256
_WAKE_EVERY_S = 0.25
_EVERYTHING = frozenset({EVERYTHING})
_RULES_BETWEEN_PODS = frozenset({"PodTopologySpread", "InterPodAffinity"})
_NODE_RULES = frozenset({"NodeNUMAResource"})
_HOOKS = (
    *("before_round", "rows_changed", "queueing_hint", "before_run", "segments", "pre_filter", "withdraw"),
    *("permit", "permitted_with", "complete_record", "complete_verdict", "after_judging", "after_round"),
)


class _Refusal(NamedTuple):
    """A refused group, by its first refused pod. `why` None = no feasible node."""

    entry: PodInfo
    group: Group
    why: Refused | None = None
    judgement: Judgement = CLOSED


def _in_words(found: Preempt) -> str:
    """What the pod waits for, instead of what it waited for before."""
    if not found.victims:
        return f"it waits for {found.node}, where pods that end already make room"
    more = f" and {len(found.victims) - 1} more" if len(found.victims) > 1 else ""
    return f"it waits for {found.node}, where {found.victims[0].key}{more} must end first"


class Judging:
    """Runs scheduling rounds over one cluster's pending pods."""

    def __init__(self, components: Components, pods: Pods, outbox: Outbox, schedulers: tuple[str, ...]) -> None:
        """`schedulers`: spec.schedulerName of the pods that are ours."""
        self._components = components
        self._pods = pods
        self._profile = profile = components.profile
        self._outbox = outbox
        self._waiting = WaitingPods(components, pods, self._send)
        access = CycleAccess(
            components, pods, outbox, self._waiting, group_placer(components), self._assume, schedulers
        )
        for plugin in components.plugins:
            plugin.join(access)
        self._with = {hook: overriding(components.plugins, hook) for hook in _HOOKS}
        self._woken_s = 0.0
        self._overdue_at_s = inf  # when a pod that another waits for becomes overdue
        self._corrects = profile.reads_metrics or profile.weighs_slack
        self._placed: set[int] = set()  # shapes placed in this round, if the profile weighs slack
        self.judged = 0  # pods, in all rounds

    @property
    def waiting(self) -> WaitingPods:
        """The pods that hold a node without being bound."""
        return self._waiting

    def round(self, most_pods: int, now_s: float) -> None:
        """Wake groups that events may help, then evaluate up to `most_pods` pending pods. The arrays must be up to date."""
        queue = self._components.queue
        self._waiting.forget_gone()
        self._components.preempting.turn(now_s)
        moved = False
        for plugin in self._with["before_round"]:
            moved |= plugin.before_round(now_s)
        if moved:
            self._components.assignments.write()
        self._wake(now_s)
        queue.release(now_s)
        taken = queue.take(most_pods)
        if taken:
            self._judge_all(taken, now_s)
        large = queue.take_large(now_s)
        if large:
            self._judge_large(large, not taken, now_s)
        for plugin in self._with["after_round"]:
            plugin.after_round(now_s)
        self._components.assignments.narrowing.terms.release_large()

    def _judge_all(self, taken: list[tuple[str, Group]], now_s: float) -> None:
        """Judge pods that were taken from the queue, and settle them."""
        self.judged += len(taken)
        if self._corrects:
            shapes = {self._pods.by_uid[uid].shape for uid, _ in taken}
            self._components.assignments.correct_waiting(
                shapes, now_s, self._profile.weighs_slack, self._profile.measures_use
            )
        refused = self._judge(taken, now_s)
        self._refuse(refused, now_s)
        for plugin in self._with["after_judging"]:
            plugin.after_judging(now_s)
        self._components.queue.settle(taken)
        if self._placed:
            self._components.assignments.estimates.started(self._placed, now_s)
            self._placed.clear()

    def _judge_large(self, taken: list[tuple[str, Group]], is_idle: bool, now_s: float) -> None:
        """Judge one large pod, or one large group, within its limit of CPU time; one that exceeds it is set aside."""
        budget, group = self._components.budget, taken[0][1]
        entries = [self._pods.by_uid[uid] for uid, _ in taken]
        first, largest = entries[0], max(entries, key=lambda each: elements(each.seen))
        begun_s, limit_s = budget.now(), USUAL_S
        if is_idle:  # longer only where nobody waits for it
            limit_s = min(MOST_S, USUAL_S * 2**group.overruns)
        try:
            with budget.within(limit_s + MEMBER_S * (len(taken) - 1)):
                self._judge_all(taken, now_s)
        except OverBudget:  # by a question of a plugin, before a node was chosen
            self._components.queue.settle(taken)
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
        message = f"set aside: {TOO_EXPENSIVE}, for {words}; large pods are judged apart from the others, and it is tried again later"
        self._components.queue.set_aside(
            group, Verdict(self._pods.record(first, message, now_s), message, frozenset({FILTER})), now_s
        )
        for uid in group.pods:
            self._outbox.waits(
                self._pods.by_uid[uid], message, self._pods.record(self._pods.by_uid[uid], message, now_s)
            )

    def next_s(self) -> float:
        """When `round` must be called next; -inf = at once, inf = never."""
        soonest = self._components.queue.next_s()
        assignments = self._components.assignments
        if self._components.queue.unschedulable_groups() and (
            self._pods.happened or assignments.changed or (assignments.stirred and len(self._components.nominations))
        ):
            soonest = min(soonest, self._wake_again_s())
        return min(soonest, self._overdue_at_s)

    def _wake(self, now_s: float) -> None:
        """Wake groups that events may help; for row-local filters, exactly those that now pass on a changed row."""
        happened, rows = self._pods.happened, self._components.assignments.changed
        stirred = self._components.assignments.stirred
        if self._overdue_at_s <= now_s:
            self._wake_nominated(None, now_s)
        if not (happened or rows or stirred) or now_s < self._wake_again_s():
            return
        self._woken_s = now_s
        self._wake_nominated(stirred, now_s)
        stirred.clear()
        for plugin in self._with["rows_changed"]:
            plugin.rows_changed(rows, now_s)
        if self._components.queue.unschedulable_groups():
            event = min(happened, default=Event.NODE_CHANGED)
            by_row: list[Group] = []
            preempting: list[Group] = []
            hinted: dict[frozenset[str], bool] = {}
            for group in self._components.queue.unschedulable():
                filters = group.verdict.filters if group.verdict is not None else _EVERYTHING
                may = hinted.get(filters)  # thousands of groups wait for the same few reasons
                if may is None:
                    may = hinted[filters] = any(helping(name) & happened for name in filters - ROW_LOCAL)
                if may and self._may_help(group, filters):
                    self._components.queue.wake(group, now_s, event.value)
                    continue
                if filters & ROW_LOCAL or not filters:
                    by_row.append(group)
                if rows and group.verdict is not None and group.verdict.record.rejections:
                    if group.is_large:  # the question costs as much as the judgement, which has a limit
                        self._components.queue.wake(group, now_s, event.value)
                    else:
                        preempting.append(group)
            if by_row and rows:
                asked = [(group, shape) for group in by_row for shape in group.shapes or (group.shape,)]
                helped = self._components.placing.helped([shape for _, shape in asked], sorted(rows))
                for (group, _), helps in zip(asked, helped, strict=True):
                    if helps:
                        self._components.queue.wake(group, now_s, event.value)
            for group in self._components.clearing.helped(preempting, rows, self._pods.by_uid) if preempting else ():
                self._components.queue.wake(group, now_s, event.value)
        happened.clear()
        rows.clear()

    def _wake_nominated(self, nodes: Set[str] | None, now_s: float) -> None:
        """Wake pods that are nominated for one of these nodes, None = any: they may fit there already, or never. Rules between pods depend on other nodes too."""
        nominations, assignments = self._components.nominations, self._components.assignments
        for each in nominations.each():
            if nodes is None or each.node in nodes or assignments.narrowing.is_narrowed(each.entry.number):
                group = self._components.queue.group_of(each.entry.seen.uid)
                if group is not None:
                    self._components.queue.wake(group, now_s, Event.NODE_CHANGED.value)
        self._overdue_at_s = self._components.preempting.overdue_at_s(now_s)

    def _may_help(self, group: Group, filters: frozenset[str]) -> bool:
        """Whether the plugins that refused the group may admit it now."""
        asked = [plugin for plugin in self._with["queueing_hint"] if plugin.name in filters]
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

    def _judge(self, taken: list[tuple[str, Group]], now_s: float) -> dict[int, _Refusal]:
        """Place pods; returns the refused groups by id, each with its first refused pod."""
        refused: dict[int, _Refusal] = {}
        run: list[tuple[PodInfo, Group]] = []
        wholes: set[int] = set()
        for uid, group in taken:
            if not group.whole:
                run.append((self._pods.by_uid[uid], group))
            elif id(group) not in wholes:
                wholes.add(id(group))
                self._judge_run(run, refused, now_s)
                run = []
                for plugin in self._with["before_run"]:
                    plugin.before_run()
                assert isinstance(group.key, Whole)
                self._named(group.key.plugin).judge_whole(group, now_s)
        self._judge_run(run, refused, now_s)
        return refused

    def _judge_run(self, pods: list[tuple[PodInfo, Group]], refused: dict[int, _Refusal], now_s: float) -> None:
        """Place each of these that can be placed."""
        if not pods:
            return
        pods = in_order(pods, self._profile, self._components.assignments.ledger.shapes, now_s)
        segments = self._components.nominations.segments(pods)
        for plugin in self._with["segments"]:
            segments = plugin.segments(segments)
        for segment in segments:
            left = [(entry, group) for entry, group in segment.pods if id(group) not in refused]
            left = self._admitted(left, refused, now_s)
            if not left:
                continue
            judged = self._components.placing.place([entry for entry, _ in left], now_s, segment.only)
            for (entry, group), judgement in zip(left, judged, strict=True):
                entry.attempts += int(judgement.row >= 0 or judgement.evaluation.counts[judgement.at, 0] >= 0)
                if judgement.row >= 0:
                    self._place(entry, group, judgement, now_s)
                    continue
                for plugin in self._with["withdraw"]:
                    plugin.withdraw(entry)
                if segment.last and (id(group) not in refused or refused[id(group)].why is not None):
                    refused[id(group)] = _Refusal(
                        entry, group, None, judgement
                    )  # later pods of the group are refused with it

    def _admitted(
        self, pods: list[tuple[PodInfo, Group]], refused: dict[int, _Refusal], now_s: float
    ) -> list[tuple[PodInfo, Group]]:
        """The pods that every plugin admits; the groups of the others are refused."""
        filtering = self._with["pre_filter"]
        for at, plugin in enumerate(filtering):
            rejected = plugin.pre_filter([entry for entry, _ in pods], now_s) if pods else {}
            for position, why in rejected.items():
                entry, group = pods[position]
                refused.setdefault(id(group), _Refusal(entry, group, why))
                for before in filtering[:at]:
                    before.withdraw(entry)
            if rejected:
                pods = [pod for position, pod in enumerate(pods) if position not in rejected]
        return pods

    def _place(self, entry: PodInfo, group: Group, judgement: Judgement, now_s: float) -> None:
        """Bind a pod that found a node, or let it wait until all plugins permit it."""
        record = self._components.placing.record(entry, judgement, now_s)
        if all(plugin.permit(entry) for plugin in self._with["permit"]):
            self._assign(entry, group, judgement, State.ASSUMED, now_s)
            others = [other for plugin in self._with["permitted_with"] for other in plugin.permitted_with(entry)]
            self._send(entry, record, 1 + len(others), now_s)
            self._waiting.allow(others, 1 + len(others), now_s)
            return
        self._assign(entry, group, judgement, State.WAITING, now_s)
        self._waiting.hold(entry, record)

    def _assume(self, entry: PodInfo, group: Group, judgement: Judgement, together: int, now_s: float) -> None:
        """Bind a pod that was placed as a member of a whole group."""
        record = self._components.placing.record(entry, judgement, now_s)
        self._assign(entry, group, judgement, State.ASSUMED, now_s)
        self._send(entry, record, together, now_s)

    def _named(self, name: str) -> Plugin:
        return next(plugin for plugin in self._components.plugins if plugin.name == name)

    def _assign(self, entry: PodInfo, group: Group, judgement: Judgement, state: State, now_s: float) -> None:
        uid = entry.seen.uid
        self._components.nominations.drop(uid)
        self._components.queue.remove(uid)
        self._components.queue.placed(group)
        entry.move(state, now_s)
        self._components.assignments.note_placed(entry, judgement.row)
        if self._profile.weighs_slack:
            self._placed.add(entry.shape)
        entry.last_message = ""
        self._pods.happened.add(Event.POD_ASSIGNED)

    def _send(self, entry: PodInfo, record: DecisionRecord, together: int, now_s: float) -> None:
        """Request the bind of an assigned pod; `together` pods are bound in this step."""
        uid = entry.seen.uid
        for plugin in self._with["complete_record"]:
            record = plugin.complete_record(entry, record, together)
        self._pods.answers[uid] = entry
        claims = self._choices(entry) if entry.seen.volumes else ()
        self._outbox.say(
            Bind(
                uid,
                entry.seen.pod.key,
                entry.node,
                record,
                claims,
                now_s - entry.queued_s,
                entry.attempts,
                entry.holds,
                entry.seen.written,
                entry.seen.settled,
            )
        )

    def _choices(self, entry: PodInfo) -> tuple[ClaimChoice, ...]:
        bindings = {need.claim: need.binding for need in entry.seen.volumes}
        chosen = self._components.assignments.narrowing.choices(entry.number, entry.row)
        return tuple(ClaimChoice(choice.claim, bindings[choice.claim], choice.volume) for choice in chosen)

    def _refuse(self, refused: dict[int, _Refusal], now_s: float) -> None:
        allowance = _PREEMPTIONS_A_ROUND
        for first, group, why, judgement in refused.values():
            if why is not None:
                self._not_admitted(first, group, why, now_s)
                continue
            verdict = self._components.placing.verdict(first, now_s, judgement)
            if FILTER in verdict.filters:
                continue  # its group is set aside
            words, done = "", False
            for uid in list(group.pods):
                entry = self._pods.by_uid[uid]
                words = self._components.preempting.obstacle(entry, now_s)
                if words or not self._components.preempting.could_help(entry):
                    done = True
                    break
                if allowance == 0:
                    break
                allowance -= 1
                try:
                    attempt = self._components.preempting.attempt(entry, now_s)
                except OverBudget:
                    break  # its group is set aside
                if attempt.preempt is None or self._waits_there(entry, attempt.preempt):
                    words, done = attempt.words, True
                    break
                self._nominate(entry, attempt.preempt, set(attempt.waits_for), verdict, now_s)
            if not group.pods or not done:
                continue  # all of them preempt, or more may preempt in the next round: the group stays active
            if words:
                message = f"{verdict.message} {words.rstrip('.')}."
                verdict = replace(verdict, message=message, filters=verdict.filters | self._beside(first))
            for plugin in self._with["complete_verdict"]:
                verdict = plugin.complete_verdict(first, verdict)
            self._components.queue.refuse(group, verdict, now_s)
            for uid in group.pods:
                self._outbox.waits(self._pods.by_uid[uid], verdict.message, verdict.record, verdict.missing)
            self._reconsider_nomination(first, now_s)

    def _beside(self, entry: PodInfo) -> frozenset[str]:
        """Filters that may be why no eviction helps a pod, although they turned down no node as it is: events about other nodes change them."""
        narrowing = self._components.assignments.narrowing
        rules = _RULES_BETWEEN_PODS if narrowing.has_rules(entry.number) else frozenset()
        return rules | _NODE_RULES if narrowing.node_rules_of(entry.number) else rules

    def _waits_there(self, entry: PodInfo, found: Preempt) -> bool:
        """Whether what was found is what the pod waits for already."""
        nominations, uid = self._components.nominations, entry.seen.uid
        return not found.victims and bool(nominations.victims_of(uid)) and nominations.node_of(uid) == found.node

    def _not_admitted(self, first: PodInfo, group: Group, why: Refused, now_s: float) -> None:
        """A plugin refused the group before nodes were evaluated."""
        record = self._pods.record(first, why.message, now_s)
        verdict = Verdict(record, why.message, frozenset({why.plugin}), why.missing)
        self._components.queue.refuse(group, verdict, now_s)
        for uid in group.pods:
            self._outbox.waits(self._pods.by_uid[uid], verdict.message, verdict.record, verdict.missing)
        self._reconsider_nomination(first, now_s)

    def _reconsider_nomination(self, first: PodInfo, now_s: float) -> None:
        """A refused pod keeps its nomination while pods on its node are still ending."""
        nominations, preempting, uid = self._components.nominations, self._components.preempting, first.seen.uid
        if uid not in nominations:
            return
        vain = bool(nominations.victims_of(uid)) and preempting.is_in_vain(first, now_s)
        if vain or not nominations.wait_for(uid, preempting.ending(first)):
            self._pods.drop_nomination(first)
            self._pods.requeue(first, now_s)

    def _nominate(self, entry: PodInfo, found: Preempt, victims: set[str], verdict: Verdict, now_s: float) -> None:
        uid = entry.seen.uid
        before = self._components.queue.group_of(uid)
        message = f"{verdict.message} preemption: {_in_words(found)}."
        self._outbox.waits(entry, message, verdict.record, verdict.missing)
        self._components.queue.remove(uid)
        self._components.nominations.drop(uid)
        for other in self._components.nominations.add(entry, found.node, victims):
            self._pods.drop_nomination(self._pods.by_uid[other])
            self._pods.requeue(self._pods.by_uid[other], now_s)
        group = self._components.queue.add(
            uid,
            uid,
            entry.seen.pod.priority,
            entry.shape,
            rank(entry.seen, self._profile, entry.advance_s),
            "Preempted",
            self._pods.is_large(entry),
        )
        if before is not None and not victims:
            group.refusals = before.refusals  # a repeated failure increases its back-off
        self._components.queue.refuse(group, verdict, now_s)
        if not victims:  # resources were freed meanwhile: no victim's end would wake it
            self._components.queue.wake(group, now_s, "Preempted")
        self._outbox.say(found)
        for victim in victims:
            self._waiting.preempted(victim, now_s)
