"""Placement of a bundle of gangs in one transaction: bound together, or undone without a trace.

Members placed one by one take resources from one another and from other pods, and a gang with half of its nodes is of
no use. One transaction per bundle and round: the plugins admit every member, all are placed in one run, and only then
does anything count. If every gang that must be satisfied is, the members with a node are bound and the others are
placed alone later. Otherwise ledger, narrowing, node rules, admissions and nominations are as before, and the bundle
gets one verdict: which member failed, and why, beside those that were placed. It is tried again like every rejected
group, after events that may help a member. Nothing is held meanwhile, so there is no time-out. The minimum of each gang
goes before other members, and among these the largest requests. A gang with a topology is tried in the domains of its
keys (engine/plugins/gangs/topology.py).

Limits: one order of members and the profile's own choice of nodes: a gang that would fit in another arrangement may be
rejected.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.cycle.admission import refusals
from cotenant.engine.cycle.eviction.simulated_evictions import trial
from cotenant.engine.cycle.placing import PodJudgement
from cotenant.engine.framework.budget import FILTER
from cotenant.engine.framework.plugin import PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup
from cotenant.engine.plugins.gangs.directory import NAME, GangDirectory
from cotenant.engine.plugins.gangs.member_order import MemberOrder
from cotenant.engine.plugins.gangs.nested import is_nested, place_nested
from cotenant.engine.plugins.gangs.nominations import GangNominations
from cotenant.engine.plugins.gangs.preemption import GangPreempting, PreemptionPlan, place_each
from cotenant.engine.plugins.gangs.topology import TopologyPlace, may_be_together, places, topology_of
from cotenant.engine.state.narrowing import EVERYWHERE

_PREEMPTIONS_A_ROUND = 1
_SEARCHES_A_ROUND = 4  # for victims


@dataclass(frozen=True, slots=True)
class _Rejected:
    group: QueuedGroup
    verdict: PlacementVerdict
    by_nodes: bool  # nodes were evaluated: evictions may help
    admitted: tuple[PodInfo, ...] = ()  # members that may be placed


class GangJudging:
    """Places bundles of gangs."""

    def __init__(self, cycle: CycleAccess, gangs: GangDirectory) -> None:
        self._components = components = cycle.components
        self._pods = cycle.pods
        self._outbox = cycle.outbox
        self._placer = cycle.placer
        self._assume = cycle.assume
        self._gangs = gangs
        self._preempting = GangPreempting(components, gangs, cycle.placer)
        self._nominations = GangNominations(cycle)
        self._order = MemberOrder(components, gangs)
        self._rejected: list[_Rejected] = []

    def judge(self, group: QueuedGroup, now_s: float) -> None:
        """Place the bundle, or change nothing; `queue_rejected` must follow after the round's other pods."""
        self._placer.prepare()
        entries = [self._pods.by_uid[uid] for uid in group.pods]
        keys = self._keys(entries)
        lacking = self._gangs.lacking(keys, entries)
        if lacking:
            words = "; ".join(self._short(tally.key, tally.lacks()) for tally in lacking)
            self._rejected.append(
                _Rejected(group, self._unevaluated(entries[0], PodRefused(NAME, words), now_s), False)
            )
            return
        entries = self._order.of(keys, entries)
        with self._nominations.hidden(entries):
            admitted, why, plugins = self._admitted(entries, now_s)
        if why is not None and (not admitted or self._gangs.lacking(keys, admitted)):
            self._withdraw(admitted)
            first, refusal = why
            words = (
                f"{self._name(keys)}: {len(admitted)} of {len(entries)} members are admitted; "
                f"{first.seen.pod.key} is not: {refusal.message}"
            )
            verdict = self._unevaluated(first, replace(refusal, message=words), now_s)
            self._post_filter(keys, entries, admitted, replace(verdict, subject=self._name(keys)), now_s)
            self._rejected.append(_Rejected(group, replace(verdict, filters=plugins), False))
            return
        with self._nominations.hidden(admitted):
            found = self._try(group, keys, admitted, now_s)
            if isinstance(found, PlacementVerdict):
                found = replace(found, filters=found.filters | plugins)  # one more member might be enough
                self._withdraw(admitted)
            else:
                self._accept(group, admitted, found, now_s)
        if isinstance(found, PlacementVerdict):
            by_nodes = not is_nested(self._gangs, keys) and not any(map(self._placer.insists, admitted))
            self._rejected.append(_Rejected(group, found, by_nodes, tuple(admitted)))
        else:
            self._gangs.note(keys, "")

    def queue_rejected(self, now_s: float) -> None:
        """Queue what was rejected in this round, with a preemption where one helps."""
        rejected, self._rejected = self._rejected, []
        allowance, searches = _PREEMPTIONS_A_ROUND, _SEARCHES_A_ROUND
        for rejection in rejected:
            group, verdict, by_nodes = rejection.group, rejection.verdict, rejection.by_nodes
            if not group.pods or FILTER in verdict.filters:  # the cycle sets it aside
                continue
            entries = [self._pods.by_uid[uid] for uid in group.pods]
            # the search for a large gang's victims is not limited
            may_preempt = by_nodes and not group.is_large and self._could_help(entries)
            keeps = may_preempt and self._fits_later(group, entries, now_s, False)
            if not keeps:  # else the last victims are gone, and what they had is not free yet
                self._nominations.reconsider(entries)
            late = self._components.preempting.late(entries)
            plan: PreemptionPlan | None = None
            if may_preempt and not keeps and self._could_help(entries):
                if not (allowance and searches):
                    continue  # the group stays active: its turn is in the next round
                searches -= 1
                plan, words = self._plan(entries, rejection.admitted, now_s)
                if plan is not None:
                    allowance -= 1
                    self._nominations.forget(entries)
                elif not self._fits_later(group, entries, now_s, True):
                    for entry in entries:  # room that the rebalancer makes is kept until it says
                        if self._components.nominations.victims_of(entry.seen.uid):
                            self._pods.drop_nomination(entry)
                words = " ".join(f"{part.rstrip('.')}." for part in (words, late) if part)
                if words:
                    verdict = replace(verdict, message=f"{verdict.message} {words}")
            if not verdict.is_told:  # it is over in a moment
                self._components.queue.refuse(group, verdict, now_s)
                continue
            back_off = self._gangs.back_off_of(self._keys(entries))
            if back_off:
                verdict = replace(verdict, message=f"{verdict.message} The gang backs off: {back_off}.")
            group.shapes = tuple(sorted({entry.shape for entry in entries}))
            self._components.queue.refuse(group, verdict, now_s)
            self._gangs.note(self._keys(entries), verdict.message)
            rows = plan.rows if plan is not None else ()
            nodes = {member.seen.uid: self._components.assignments.names[row] for member, row in rows}
            for entry in entries:
                node = nodes.get(entry.seen.uid, "")
                held = verdict.is_held or bool(self._components.nominations.moving_of(entry.seen.uid))
                self._outbox.waits(entry, verdict.message, verdict.record, verdict.missing, held=held, nominated=node)
            if plan is not None:
                self._nominations.evict(plan, now_s)

    # ---- one transaction

    def _try(
        self, group: QueuedGroup, keys: tuple[str, ...], entries: list[PodInfo], now_s: float
    ) -> list[PodJudgement] | PlacementVerdict:
        """The node of each, written; or why not, with nothing written."""
        kept = self._on_nominated(keys, entries, now_s)
        if kept is not None:
            return kept
        failure: PlacementVerdict | None = None
        nominations = self._components.nominations
        closed = nominations.closed_to(entries)
        for entry in places(self._components.assignments, self._gangs, keys, entries, self._nominations.rows(entries)):
            place = entry._replace(only=nominations.without(entry.only, closed))
            found = self._attempt(keys, entries, place, now_s)
            if (
                isinstance(found, PlacementVerdict) and self._placer.drew
            ):  # resources that they drew from reservations may be missing for the others
                without = self._attempt(keys, entries, place, now_s, drawing=False)
                found = found if isinstance(without, PlacementVerdict) else without
            if not isinstance(found, PlacementVerdict):
                return found
            failure = found
        topology = topology_of(self._gangs, keys)
        if failure is None and topology is not None:
            words = f"{self._name(keys)}: no domain of {topology.keys[-1]} has room for its {len(entries)} members"
            failure = self._unevaluated(entries[0], PodRefused("GangTopology", words, about_nodes=True), now_s)
        assert failure is not None
        return failure

    def _on_nominated(self, keys: tuple[str, ...], entries: list[PodInfo], now_s: float) -> list[PodJudgement] | None:
        """Place each on its nominated node, as the simulated eviction did, and members without one beside them."""
        placing, assignments = self._components.placing, self._components.assignments
        nominated, topology = self._nominations.rows(entries), topology_of(self._gangs, keys)
        if (
            not len(nominated)
            or is_nested(self._gangs, keys)
            or any(map(self._placer.insists, entries))
            or not may_be_together(assignments, self._gangs, keys, nominated)
        ):
            return None
        nominations = self._components.nominations
        others = nominated if topology is not None and topology.required else EVERYWHERE
        others = nominations.without(others, nominations.closed_to(entries))
        nodes, node_of = assignments.encoder.node_rows, nominations.node_of
        expected = [(entry, nodes.get(node_of(entry.seen.uid), -1)) for entry in entries]
        expected.sort(key=lambda pair: pair[1] < 0)
        for drawing in (True, False):
            mark = placing.mark()
            found = place_each(self._placer, len(assignments.names), expected, others, now_s, drawing)
            judged = {entry: judgement for (entry, _), judgement in zip(expected, found, strict=True)}
            placed = [entry for entry in entries if judged[entry].row >= 0]
            if placed and not self._gangs.lacking(keys, placed):
                return [judged[entry] for entry in entries]
            drew = self._placer.drew
            placing.undo(placed, mark)
            self._placer.undo(now_s)
            if not drew:
                break
        return None

    def _attempt(
        self, keys: tuple[str, ...], entries: list[PodInfo], place: TopologyPlace, now_s: float, drawing: bool = True
    ) -> list[PodJudgement] | PlacementVerdict:
        placing = self._components.placing
        mark = placing.mark()
        if is_nested(self._gangs, keys):
            judged = place_nested(self._components, self._placer, self._gangs, entries, place.only, now_s)
        else:
            judged = self._placer.place(entries, now_s, place.only, drawing)
        placed = [entry for entry, judgement in zip(entries, judged, strict=True) if judgement.row >= 0]
        if len(placed) == len(entries):
            return judged
        lacking = self._gangs.lacking(keys, placed)
        if placed and not lacking and not place.all_of_it:
            return judged
        refused = [entry for entry, judgement in zip(entries, judged, strict=True) if judgement.row < 0]
        first = refused[0]
        verdict = self._verdict_on_all(refused, now_s)  # with the others placed
        placing.undo(placed, mark)
        self._placer.undo(now_s)
        fit = f"{len(placed)} of {len(entries)} members fit"
        where = f" in {place.name}" if place.name else ""
        words = f"{self._name(keys)}: {fit}{where}; the {_ordinal(len(placed) + 1)}, {first.seen.pod.key}, does not"
        if place.name:
            verdict = replace(verdict, filters=verdict.filters | {"GangTopology"})
        return of_gang(verdict, words)

    def _verdict_on_all(self, refused: Sequence[PodInfo], now_s: float) -> PlacementVerdict:
        """Why the first of these found no node, and by which filters any of them did not: an event that helps only a
        later one may be enough for the gang.
        """
        kinds: dict[Hashable, PodInfo] = {}
        for entry in refused:
            kinds.setdefault((entry.shape, entry.kind, entry.seen.volumes, entry.seen.demands), entry)
        verdicts = [self._verdict(entry, now_s) for entry in kinds.values()]
        return replace(verdicts[0], filters=frozenset[str]().union(*(verdict.filters for verdict in verdicts)))

    def _verdict(self, entry: PodInfo, now_s: float) -> PlacementVerdict:
        why = self._placer.refusal(entry)
        return self._unevaluated(entry, why, now_s) if why else self._components.placing.verdict(entry, now_s)

    def _accept(self, group: QueuedGroup, entries: list[PodInfo], judged: list[PodJudgement], now_s: float) -> None:
        left = []
        together = sum(judgement.row >= 0 for judgement in judged)
        for entry, judgement in zip(entries, judged, strict=True):
            entry.attempts += 1
            if judgement.row >= 0:
                self._assume(entry, group, judgement, together, now_s)
            else:
                left.append(entry)
        self._withdraw(left)
        for uid in list(group.pods):
            self._pods.requeue(self._pods.by_uid[uid], now_s)  # they are placed alone from now on

    def _admitted(
        self, entries: list[PodInfo], now_s: float
    ) -> tuple[list[PodInfo], tuple[PodInfo, PodRefused] | None, frozenset[str]]:
        """Those that every plugin admits; the first that was not admitted, with its reason; and the plugins that
        refused any.
        """
        rejected = refusals(self._components.roster, entries, now_s)
        if not rejected:
            return entries, None, frozenset()
        first = min(rejected[0])
        out = set[int]().union(*rejected)
        admitted = [entry for at, entry in enumerate(entries) if at not in out]
        plugins = frozenset(why.plugin for by_position in rejected for why in by_position.values())
        return admitted, (entries[first], rejected[0][first]), plugins

    def _post_filter(
        self,
        keys: tuple[str, ...],
        entries: list[PodInfo],
        admitted: list[PodInfo],
        verdict: PlacementVerdict,
        now_s: float,
    ) -> None:
        """Let the plugin that rejected the gang free resources for as many members as must be placed together."""
        admitted_uids = {entry.seen.uid for entry in admitted}
        needed, _ = self._order.needed(
            keys, sorted(entries, key=lambda pod_info: pod_info.seen.uid not in admitted_uids)
        )
        if needed and not self._gangs.lacking(keys, needed):
            for plugin in entries[0].calls.post_filter:
                if plugin.name in verdict.filters:
                    plugin.post_filter(needed, verdict, now_s)

    def _withdraw(self, entries: Sequence[PodInfo]) -> None:
        for entry in entries:
            for call in entry.calls.withdraw:
                call(entry)

    # ---- preemption

    def _could_help(self, entries: list[PodInfo]) -> bool:
        """Whether there is anything to evict for them, or a nomination that may be in vain."""
        return any(
            entry.seen.uid in self._components.nominations or self._components.preempting.could_help(entry)
            for entry in entries
        )

    def _fits_later(self, group: QueuedGroup, entries: list[PodInfo], now_s: float, overdue: bool) -> bool:
        """Whether a nominated bundle fits once what ends for it is gone; those that are overdue count as gone with
        `overdue` only.
        """
        nominations, preempting, placing = (
            self._components.nominations,
            self._components.preempting,
            self._components.placing,
        )
        if not any(entry.seen.uid in nominations for entry in entries):
            return False
        going = {
            uid for entry in entries for uid in (*nominations.victims_of(entry.seen.uid), *preempting.ending(entry))
        }
        leaving = [self._pods.by_uid[uid] for uid in sorted(going) if uid in self._pods.by_uid]
        mark = placing.mark()
        with self._nominations.hidden(entries), trial(self._components.assignments) as off:
            off.remove(
                pod_info for pod_info in leaving if pod_info.node and (overdue or not preempting.is_overdue(pod_info))
            )
            keys = self._keys(entries)
            entries = self._order.of(keys, entries)
            found = self._try(group, keys, entries, now_s)
            if not isinstance(found, PlacementVerdict):
                placing.undo(
                    [entry for entry, judgement in zip(entries, found, strict=True) if judgement.row >= 0], mark
                )
                self._placer.undo(now_s)
        return not isinstance(found, PlacementVerdict)

    def _plan(
        self, entries: list[PodInfo], admitted: Sequence[PodInfo], now_s: float
    ) -> tuple[PreemptionPlan | None, str]:
        """Whom to evict for a bundle: for those of its members only that may be placed then."""
        with self._nominations.hidden(entries):
            keys = self._keys(entries)
            found = self._preempting.attempt(keys, self._order.of(keys, list(admitted)), now_s)
        return (found, "") if isinstance(found, PreemptionPlan) else (None, found)

    # ---- messages

    def _keys(self, entries: Sequence[PodInfo]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._gangs.key_of(entry.seen.uid) for entry in entries))

    @staticmethod
    def _name(keys: tuple[str, ...]) -> str:
        return f"gang {keys[0]}" if len(keys) == 1 else f"gangs {', '.join(keys)}"

    def _short(self, key: str, lacks: int) -> str:
        gang = self._gangs.get(key)
        least = gang.spec.min_available if gang is not None and gang.spec is not None else 0
        return f"gang {key}: {lacks} of the {least} members that must be placed together do not wait for a node now"

    def _unevaluated(self, entry: PodInfo, why: PodRefused, now_s: float) -> PlacementVerdict:
        """The verdict where no node was evaluated."""
        record = self._pods.record(entry, why.message, now_s)
        return PlacementVerdict(
            record,
            why.message,
            frozenset({why.plugin}),
            why.missing,
            is_held=not why.about_nodes,
            is_told=why.is_told,
        )


def of_gang(verdict: PlacementVerdict, why: str) -> PlacementVerdict:
    """The verdict of a member as that of its gang; `why` goes before the member's message."""
    record = replace(verdict.record, waiting_because=why)
    return replace(verdict, record=record, message=f"{why}: {verdict.message}")


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
