"""Answers questions to a cluster's engine: why a pod waits, why it is on its node, and what if its spec were different.

Problem: an explanation pieced together from logs is outdated and incomplete, and one computed by separate code disagrees with the scheduler. Choice: the
questions go to the code that decides (filters, rules, node rules, scores, preemption, the queue, the newest decisions), over a copy of its state that may be
changed without affecting the original (engine/explain/what_if.py). Nothing is computed before a question is asked. Limits: an answer is about the moment of
the question; placements older than what engine/cycle/history.py keeps are in the pod's annotation only.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.cycle.components import Components
from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.cycle.ordering import obstacle
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.preemption import Budgets, preempt
from cotenant.engine.cycle.score_parts import Ranking, ranking
from cotenant.engine.explain.concerns import concerns, gang_concern, quota_concern
from cotenant.engine.explain.nodes import node_answer
from cotenant.engine.explain.remedies import helps, least_priority
from cotenant.engine.explain.retry import retry
from cotenant.engine.explain.what_if import View, viewed
from cotenant.engine.framework.pod_state import ASSIGNED, LEGAL, PodInfo, State
from cotenant.engine.framework.settings import Settings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.state.ledger import Ledger
from cotenant.model.decisions.answers import (
    NO_WHAT_IF,
    Concern,
    Help,
    NodeAnswer,
    NodeVerdict,
    PodAnswer,
    Refusal,
    Waiting,
    WhatIf,
)
from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import Candidate
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import format_amount
from cotenant.policy.placement.preemption import Preemption
from cotenant.policy.placement.profiles import PlacementProfile

BEST = 5
_NEAREST = 4
_NAMED = 8
_RESERVED = "node(s) reserve their free resources for nominated pods"


class Explain:
    """Answers questions about one cluster."""

    def __init__(
        self,
        components: Components,
        pods: Pods,
        past: DecisionHistory,
        budgets: Budgets,
        plugins: PluginRegistry,
        profile: PlacementProfile,
        settings: Settings,
    ) -> None:
        self.past = past
        self._components = components
        self._pods = pods
        self._budgets = budgets
        self._plugins = plugins
        self._profile = profile
        self._settings = settings

    def pod(self, key: str, now_s: float, what_if: WhatIf = NO_WHAT_IF) -> PodAnswer | None:
        """The answer about a pod by namespace/name, None if it is unknown. Raises `InvalidInput` for an unknown node or invalid amounts."""
        entry = self._pods.by_uid.get(self._pods.by_key.get(key, ""))
        if entry is None:
            return None
        assignments = self._components.assignments
        if what_if.node and what_if.node not in assignments.encoder.node_rows:
            raise InvalidInput("--if node", what_if.node, "a node that this scheduler knows", "see kubectl get nodes")
        waits = entry.state not in ASSIGNED
        with viewed(assignments, entry, what_if, self._profile, self._plugins.reservations) as view:
            ranks = self._ranking(view, now_s)
            about = _about(view, what_if.node, ranks) if what_if.node else None
            held = concerns(self._plugins, entry, view.pod, now_s)
            waiting = self._waiting(entry, view, what_if, ranks, held, now_s) if waits or what_if.changes else None
            shown = _shown(entry, ranks)
        return PodAnswer(
            pod=key,
            uid=entry.seen.uid,
            at_s=now_s,
            state=entry.state.name.lower(),
            headline=_headline(entry, what_if, waiting, ranks, self._settings.schedulers),
            priority=view.pod.priority,
            requests=tuple((name, format_amount(name, amount)) for name, amount in view.pod.requests),
            node=entry.node,
            promised=self._components.nominations.node_of(entry.seen.uid),
            supposed=what_if.words(),
            waiting=waiting,
            record=None if waits else self.past.record(entry.seen.uid),
            candidates=shown,
            asked_about=about,
            concerns=held,
            preemptions=self.past.about(key),
            story=_story(entry),
        )

    def node(self, name: str, now_s: float) -> NodeAnswer | None:
        """The engine's view of a node, None if it is unknown."""
        return node_answer(self._components, name, now_s)

    def knows_node(self, name: str) -> bool:
        """Whether there is such a node."""
        return name in self._components.assignments.encoder.node_rows

    def quota(self, name: str) -> Concern | None:
        """A quota with every term of its runtime, None if it is unknown."""
        return quota_concern(self._plugins, name)

    def gang(self, key: str, now_s: float) -> Concern | None:
        """A gang by namespace/name, None if it is unknown."""
        return gang_concern(self._plugins, key, now_s)

    def _ranking(self, view: View, now_s: float) -> Ranking:
        rows = np.flatnonzero(view.passing)
        preferences = view.narrowing.preferences(view.number, rows) if len(rows) else ()
        nodes, shapes = view.encoder.nodes(), view.encoder.shapes()
        return ranking(
            self._profile, nodes, shapes, view.shape, rows, now_s, preferences, self._components.assignments.names
        )

    # ---- why it waits

    def _waiting(
        self,
        entry: PodInfo,
        view: View,
        what_if: WhatIf,
        ranks: Ranking,
        held: tuple[Concern, ...],
        now_s: float,
    ) -> Waiting:
        explanation = view.checked.explanation()
        rejections = explanation.rejections
        if len(view.allowed):
            kept = int((view.checked.here & (view.checked.misses == 0) & ~view.allowed).sum())
            rejections = (*rejections, Rejection("Nominated", _RESERVED, kept)) if kept else rejections
        preemption, found = "", tuple[Help, ...]()
        if len(ranks) == 0:
            preemption, found = self._preemption(entry, view)
        group = self._components.queue.group_of(entry.seen.uid)
        refused = group.verdict.record.waiting_because if group is not None and group.verdict is not None else ""
        holding = next((each.words for each in held if each.holds), "")
        if entry.state is State.GATED:
            because = f"its scheduling gates are closed: {', '.join(entry.seen.gates)}"
        elif entry.state is State.BLOCKED:
            because = obstacle(entry.seen) or entry.last_message or holding
        elif what_if.changes:
            because = holding
        else:
            because = refused or holding
        held_back = bool(because)
        if not because:
            because = (
                explanation.headline()
                if len(ranks) == 0
                else f"{len(ranks)} of {explanation.nodes} nodes would take it"
            )
        return Waiting(
            because=because,
            held=held_back,
            nodes=explanation.nodes,
            rejections=rejections,
            nearest=tuple(str(each) for each in view.checked.nearest()[:_NEAREST]) if len(ranks) == 0 else (),
            passing=len(ranks),
            helps=(*helps(view, self._components.assignments.names), *found) if len(ranks) == 0 else (),
            preemption=preemption,
            retry=retry(entry, group, bool(self._nominated_node(entry)), self._settings, now_s),
        )

    def _nominated_node(self, entry: PodInfo) -> str:
        return self._components.nominations.node_of(entry.seen.uid)

    def _preemption(self, entry: PodInfo, view: View) -> tuple[str, tuple[Help, ...]]:
        """Whether preemption would make a node feasible, at the pod's priority or at a higher one: in words, and what would help."""
        node = self._nominated_node(entry)
        if node:
            leaving = self._names(self._components.nominations.victims_of(entry.seen.uid))
            return f"it is promised {node}" + (f" and waits for {leaving} to go" if leaving else ""), ()
        if not entry.seen.preempts:
            return "its preemptionPolicy is Never: nobody is evicted for it", ()
        priorities = self._components.assignments.pods.priorities
        assigned = np.flatnonzero(view.ledger.row >= 0)  # includes pods with a nominated node, which yield as well
        if (priorities[assigned] < view.pod.priority).any():
            attempt = self._attempt(entry, view, view.pod.priority)
            if attempt.row >= 0:
                return self._evicting(attempt), ()
            words = attempt.headline(int(view.checked.here.sum()))
        else:
            words = f"nobody of a priority below {view.pod.priority} is placed"
        wanted = least_priority(
            view.pod.priority, priorities[assigned], lambda priority: self._attempt(entry, view, priority).row >= 0
        )
        if wanted is None:
            return words, ()
        attempt = self._attempt(entry, view, wanted)
        would = f"priority {wanted} or more (it has {view.pod.priority}): {self._evicting(attempt)}"
        return words, (Help("priority", would, attempt.possible),)

    def _attempt(self, entry: PodInfo, view: View, priority: int) -> Preemption:
        assignments, preempting = self._components.assignments, self._components.preempting
        return preempt(
            view.encoder,
            self._ledger_for(view, priority),
            view.narrowing,
            self._profile,
            view.number,
            priority,
            assignments.pods.priorities,
            assignments.pods.sub_priorities,
            assignments.pods.started_s,
            self._budgets,
            view.stand_in,
            preempting.at_stake(preempting.losses.jobs(), entry, priority),
        )

    def _ledger_for(self, view: View, priority: int) -> Ledger:
        """The ledger as a pod of this priority sees it: without resources reserved for nominated pods of lower priority."""
        row = view.ledger.row
        nominated = [
            other.number
            for other in self._components.assignments.reserved.values()
            if other.seen.pod.priority < priority and row[other.number] >= 0
        ]
        if not nominated:
            return view.ledger
        nodes = view.ledger.nodes
        nodes = nodes._replace(
            requested=nodes.requested.copy(), sums=nodes.sums.copy(), group_count=nodes.group_count.copy()
        )
        ledger = view.ledger.copy(nodes, view.ledger.shapes)
        ledger.remove(np.array(nominated, dtype=np.int64))
        return ledger

    def _evicting(self, found: Preemption) -> str:
        assignments = self._components.assignments
        keys = [assignments.pods.by_number[number].seen.pod.key for number in found.victims]
        broken = f", {found.violations} of them beyond their disruption budgets" if found.violations else ""
        going = _listed(keys) if keys else "nobody"
        with_them = f", with {len(found.rest)} more of their gangs, which go whole" if found.rest else ""
        return f"{going} would be evicted on {assignments.names[found.row]}{with_them}{broken}"

    def _names(self, uids: frozenset[str]) -> str:
        pods = self._pods.by_uid
        return _listed(sorted(pods[uid].seen.pod.key for uid in uids if uid in pods))


# ---- values


def _shown(entry: PodInfo, ranks: Ranking) -> tuple[Candidate, ...]:
    """The best few nodes, and the pod's own node if that is not among them."""
    best = ranks.best(BEST)
    if entry.state not in ASSIGNED or any(each.node == entry.node for each in best):
        return best
    own, _ = ranks.of(entry.row)
    return best if own is None else (*best, own)


def _about(view: View, node: str, ranks: Ranking) -> NodeVerdict:
    row = view.encoder.node_rows[node]
    refusals = []
    for check in view.checked.checks:
        if check.fails[row]:
            missing = ""
            if check.missing is not None and check.resource:
                missing = f"{format_amount(check.resource, int(check.missing[row]))} {check.resource}"
            elif check.figures is not None:
                missing = check.figures(np.arange(len(check.fails)) == row)
            refusals.append(Refusal(check.plugin, check.reason, missing))
    if not refusals and not view.passing[row]:
        refusals.append(Refusal("Nominated", _RESERVED))
    candidate, place = ranks.of(row)
    return NodeVerdict(node, tuple(refusals), candidate, place, len(ranks))


def _headline(
    entry: PodInfo, what_if: WhatIf, waiting: Waiting | None, ranks: Ranking, schedulers: tuple[str, ...]
) -> str:
    if what_if.changes and waiting is not None:
        if waiting.passing == 0 or waiting.held:
            return f"with {what_if.words()} it would wait: {waiting.because}"
        return f"with {what_if.words()}, {waiting.passing} of {waiting.nodes} nodes would take it, {ranks.best(1)[0].node} first"
    if entry.state is State.BOUND:
        by = "" if entry.seen.scheduler in schedulers else f", placed by {entry.seen.scheduler}"
        return f"it is on {entry.node}{by}"
    if entry.state is State.WAITING:
        return f"it holds {entry.node} and waits for the rest of its gang"
    if entry.state in ASSIGNED:
        return f"it was given {entry.node}; its bind is on the way"
    return f"it waits: {waiting.because}" if waiting is not None else "it waits"


def _story(entry: PodInfo) -> tuple[tuple[float, str], ...]:
    lines, before = [], State.NEW
    for at_s, after in entry.story:
        lines.append((at_s, LEGAL.get((before, after), after.name.lower())))
        before = after
    return tuple(lines)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
