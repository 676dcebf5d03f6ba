"""Judgement of the pods of a round: where each is placed, or why it is not and what would have to end for it.

Thousands of pods are judged together, one after the other, and each must be judged with those before it. Judgement
yields outcomes one by one, and goes on when each has been made true (engine/cycle/applying.py); it changes nothing
itself but what placement writes. Pods are placed in runs, and one verdict applies to a whole refused group; a few of
the refused pods may preempt.
Source: kube-scheduler's scheduling cycle.
Limits: a maximum number of preemptions per round; the others follow in the next round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from cotenant.engine.cycle.admission import refusals
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.ordering import in_order
from cotenant.engine.cycle.outcomes import Nominated, Outcome, Placed, Rejected, Unplaced
from cotenant.engine.cycle.placing import CLOSED, PodJudgement
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.budget import FILTER, OverBudget
from cotenant.engine.framework.contracts import Grouping
from cotenant.engine.framework.instructions import Preempt
from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup, Segment, WholeGroup
from cotenant.engine.state.narrowing import EVERYWHERE

_PREEMPTIONS_A_ROUND = 4
_RULES_BETWEEN_PODS = frozenset({"PodTopologySpread", "InterPodAffinity"})
_NODE_RULES = frozenset({"NodeNUMAResource"})

Taken = list[tuple[str, QueuedGroup]]  # UID and group of pods from the queue


class _Refusal(NamedTuple):
    """A refused group, by its first refused pod. `why` None = no feasible node."""

    entry: PodInfo
    group: QueuedGroup
    why: PodRefused | None = None
    judgement: PodJudgement = CLOSED


class Judging:
    """Judges the pending pods of one cluster."""

    def __init__(self, components: ClusterComponents, pods: Pods) -> None:
        self._components = components
        self._pods = pods
        self._roster = components.roster
        self._profile = components.profile

    def judge(self, taken: Taken, now_s: float) -> Iterator[Outcome]:
        """What becomes of these pods. Each outcome must have been made true when the next is requested. Whole groups
        are placed by their plugins.
        """
        refused: dict[int, _Refusal] = {}  # by id of the group
        run: list[tuple[PodInfo, QueuedGroup]] = []
        wholes: set[int] = set()
        for uid, group in taken:
            if not group.whole:
                run.append((self._pods.by_uid[uid], group))
            elif id(group) not in wholes:
                wholes.add(id(group))
                yield from self._judge_run(run, refused, now_s)
                run = []
                assert isinstance(group.key, WholeGroup)
                self._placer(group.key).place_group(group, now_s)
        yield from self._judge_run(run, refused, now_s)
        yield from self._refuse(refused, now_s)

    def _placer(self, key: WholeGroup) -> Grouping:
        return next(plugin for plugin in self._roster.grouping if plugin.name == key.plugin)

    def _judge_run(
        self, pods: list[tuple[PodInfo, QueuedGroup]], refused: dict[int, _Refusal], now_s: float
    ) -> Iterator[Outcome]:
        """Place each of these that can be placed."""
        if not pods:
            return
        if len(pods) > 1:
            pods = in_order(pods, self._profile, self._components.assignments.ledger.shapes, now_s)
        for segment in self._segments(pods):
            left = [(entry, group) for entry, group in segment.pods if id(group) not in refused]
            left = self._admitted(left, refused, now_s)
            if not left:
                continue
            judged = self._components.placing.place([entry for entry, _ in left], now_s, segment.only)
            for (entry, group), judgement in zip(left, judged, strict=True):
                if judgement.row >= 0:
                    yield Placed(entry, group, judgement, all(call(entry) for call in entry.calls.permit))
                    continue
                yield Unplaced(entry, bool(judgement.evaluation.counts[judgement.at, 0] >= 0))
                if segment.last and (id(group) not in refused or refused[id(group)].why is not None):
                    refused[id(group)] = _Refusal(entry, group, None, judgement)  # its later pods are refused with it

    def _segments(self, pods: list[tuple[PodInfo, QueuedGroup]]) -> Iterator[Segment]:
        nominations = self._components.nominations
        segments = nominations.segments(pods) if nominations.by_uid else iter((Segment(pods, EVERYWHERE, True),))
        for plugin in self._roster.grouping:
            if not plugin.is_idle:
                segments = plugin.divide(segments)
        return segments

    def _admitted(
        self, pods: list[tuple[PodInfo, QueuedGroup]], refused: dict[int, _Refusal], now_s: float
    ) -> list[tuple[PodInfo, QueuedGroup]]:
        """The pods that every plugin admits; the groups of the others are refused."""
        if not any(entry.calls.pre_filter for entry, _ in pods):
            return pods
        rejected: set[int] = set()
        for by_position in refusals(self._roster, [entry for entry, _ in pods], now_s):
            rejected.update(by_position)
            for position, why in by_position.items():
                entry, group = pods[position]
                refused.setdefault(id(group), _Refusal(entry, group, why))
        return [pod for position, pod in enumerate(pods) if position not in rejected] if rejected else pods

    # ---- refused groups

    def _refuse(self, refused: dict[int, _Refusal], now_s: float) -> Iterator[Outcome]:
        allowance = _PREEMPTIONS_A_ROUND
        for first, group, why, judgement in refused.values():
            if why is not None:  # nodes were not evaluated
                record = self._pods.record(first, why.message, now_s)
                yield Rejected(
                    group,
                    first,
                    PlacementVerdict(
                        record,
                        why.message,
                        frozenset({why.plugin}),
                        why.missing,
                        is_told=why.is_told,
                        is_held=not why.about_nodes,
                    ),
                )
                continue
            with self._components.nominations.without_own(first):
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
                words = self._components.elsewhere.awaited(entry, group.pods, now_s)
                if words:
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
                yield Nominated(entry, attempt.preempt, attempt.waits_for, verdict)
            if not group.pods or not done:
                continue  # all of them preempt, or more may preempt in the next round: the group stays active
            late = self._components.preempting.late((first,))
            words = " ".join(f"{part.rstrip('.')}." for part in (words, late and f"It waits on: {late}") if part)
            if words:
                message = f"{verdict.message} {words}"
                verdict = replace(verdict, message=message, filters=verdict.filters | self._beside(first))
            for plugin in first.calls.post_filter:
                verdict = plugin.post_filter((first,), verdict, now_s)
            yield Rejected(group, first, verdict)

    def _beside(self, entry: PodInfo) -> frozenset[str]:
        """Filters that may be why no eviction helps a pod, although they turned down no node as it is: events about
        other nodes change them.
        """
        narrowing = self._components.assignments.narrowing
        rules = _RULES_BETWEEN_PODS if narrowing.has_rules(entry.number) else frozenset()
        return rules | _NODE_RULES if narrowing.node_rules_of(entry.number) else rules

    def _waits_there(self, entry: PodInfo, found: Preempt) -> bool:
        """Whether what was found is what the pod waits for already."""
        nominations, uid = self._components.nominations, entry.seen.uid
        return not found.victims and bool(nominations.victims_of(uid)) and nominations.node_of(uid) == found.node
