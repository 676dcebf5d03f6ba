"""Answers questions to a cluster's engine: why a pod waits, why it is on its node, and what if its spec were different.

An explanation pieced together from logs is outdated and incomplete, and one computed by separate code disagrees with
the scheduler. The questions go to the code that decides (filters, rules, node rules, scores, preemption, the queue, the
newest decisions), over a copy of its arrays that may be changed without affecting the original (what_if.py); whether
the pod is placed, and with which changes, is tried in a copy of the whole engine (question.py). Nothing is computed
before a question is asked.
Limits: an answer is about the moment of the question; placements older than what engine/cycle/history.py keeps are in
the pod's annotation only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets
from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.score_parts import Ranking, ranking
from cotenant.engine.explain.concerns import concerns, gang_concern, node_concerns, quota_concern, quota_room
from cotenant.engine.explain.copying import Captured, Make, capture
from cotenant.engine.explain.evictions import PreemptionAnswers
from cotenant.engine.explain.headlines import BEST, gone, headline, shown, story, unusable_notes
from cotenant.engine.explain.kueue import why_gated
from cotenant.engine.explain.nodes import node_answer, node_reports
from cotenant.engine.explain.notes import affinity_note, notes
from cotenant.engine.explain.question import Question, Revocation, revoked
from cotenant.engine.explain.remedies import proposals
from cotenant.engine.explain.retry import retry
from cotenant.engine.explain.trial import TrialChange
from cotenant.engine.explain.what_if import WhatIfView, apply, viewed
from cotenant.engine.framework.budget import TOO_EXPENSIVE, USUAL_S, OverBudget
from cotenant.engine.framework.pod_state import ASSIGNED, PodInfo, SchedulingState
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.answers import (
    NO_WHAT_IF,
    Concern,
    NodeAnswer,
    NodeRefusal,
    NodeReported,
    NodeVerdict,
    PodAnswer,
    PodRetry,
    WaitExplanation,
    WhatIf,
)
from cotenant.model.decisions.reasons import Rejection
from cotenant.model.decisions.record import CandidateNode
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import format_amount
from cotenant.policy.placement.profiles import PlacementProfile

_NEAREST = 4
_RESERVED = "node(s) reserve their free resources for nominated pods"


class Explain:
    """Answers questions about one cluster."""

    def __init__(
        self,
        components: ClusterComponents,
        pods: Pods,
        past: DecisionHistory,
        budgets: DisruptionBudgets,
        plugins: PluginRegistry,
        profile: PlacementProfile,
        settings: EngineSettings,
        namespaces: Mapping[str, NamespaceFacts],
        make: Make | None,
    ) -> None:
        """`make` builds an engine of the same kind without facts; None = this kind of engine cannot be copied, and
        nothing is tried.
        """
        self.past = past
        self._components = components
        self._pods = pods
        self._budgets = budgets
        self._plugins = plugins
        self._profile = profile
        self._settings = settings
        self._namespaces = namespaces
        self._make = make
        self.eviction_progress: dict[str, str] = {}  # of pods that leave by request, by UID: set by the process
        self._evictions = PreemptionAnswers(components, pods, budgets, profile, self.eviction_progress)
        self.unusable_nodes: dict[str, str] = {}  # nodes that exist and are not among the engine's: why, by name

    def pod(self, key: str, now_s: float, what_if: WhatIf = NO_WHAT_IF) -> PodAnswer | None:
        """The answer about a pod by namespace/name, None if it is unknown. Raises `InvalidInput` for an unknown
        node or invalid amounts.
        """
        question = self.ask(key, now_s, what_if)
        return question.answer() if question is not None else None

    def ask(self, key: str, now_s: float, what_if: WhatIf = NO_WHAT_IF) -> Question | None:
        """The first step of `pod`: what is left to do reads nothing of this engine, so it may be done in another
        thread. Raises as `pod` does.

        Where the evaluation of a large pod costs too much, the answer is what the pod was last told.
        """
        entry = self._pods.by_uid.get(self._pods.by_key.get(key, ""))
        if entry is None:
            found = gone(self.past.about(key), key, now_s)
            return Question(found) if found is not None else None
        if not self._components.budget.is_large(entry.seen):
            return self._evaluated(entry, now_s, what_if)
        try:
            with self._components.budget.within(USUAL_S):
                return self._evaluated(entry, now_s, what_if)
        except OverBudget:
            return Question(self._unevaluated(entry, what_if, now_s))
        finally:
            self._components.assignments.narrowing.terms.release_large()

    def beside(self, uid: str, node: str, now_s: float) -> tuple[NodeVerdict, tuple[CandidateNode, ...]] | None:
        """What the filters and scores say of this node for a pod, and the best nodes; None where one of both is
        unknown, or where the evaluation of a large pod costs too much. Nothing is tried in copies.
        """
        assignments, entry = self._components.assignments, self._pods.by_uid.get(uid)
        if entry is None or node not in assignments.encoder.node_rows or self._components.budget.is_large(entry.seen):
            return None
        with viewed(assignments, entry, NO_WHAT_IF, self._profile, self._plugins.reservations) as view:
            ranks = self._ranking(view, now_s)
            return self._about(view, node, ranks), ranks.best(BEST)

    def _retry(self, entry: PodInfo, group: QueuedGroup | None, now_s: float) -> PodRetry:
        promised = bool(self._components.nominations.node_of(entry.seen.uid))
        return retry(entry, group, promised, self._settings, self._components.roster.helping, now_s)

    def _unevaluated(self, entry: PodInfo, what_if: WhatIf, now_s: float) -> PodAnswer:
        """What a large pod was last told."""
        draft = self._placed_answer(entry, what_if, now_s)
        waiting: WaitExplanation | None = None
        if entry.state not in ASSIGNED:
            group = self._components.queue.group_of(entry.seen.uid)
            because = entry.seen.obstacle or entry.last_message or TOO_EXPENSIVE
            waiting = WaitExplanation(
                because,
                len(self._components.assignments.encoder.node_rows),
                held=True,
                retry=self._retry(entry, group, now_s),
            )
        told = headline(entry, waiting, what_if, self._settings.schedulers)
        return replace(draft, headline=told, waiting=waiting)

    def _evaluated(self, entry: PodInfo, now_s: float, what_if: WhatIf) -> Question:
        assignments = self._components.assignments
        if what_if.node and what_if.node not in assignments.encoder.node_rows:
            raise InvalidInput("--if node", what_if.node, "a node that this scheduler knows", "see kubectl get nodes")
        waits = entry.state not in ASSIGNED
        question = Question(self._placed_answer(entry, what_if, now_s))
        assignments.write()
        placed = node_concerns(self._plugins, entry)  # before the view, in which the pod is on no node
        with viewed(assignments, entry, what_if, self._profile, self._plugins.reservations) as view:
            ranks = self._ranking(view, now_s)
            about = self._about(view, what_if.node, ranks) if what_if.node else None
            held = concerns(self._plugins, entry, view.pod, now_s, assignments.estimates.profiles)
            waiting = self._waiting(entry, view, what_if, ranks, held, now_s) if waits or what_if.changes else None
            draft = replace(
                question.draft,
                headline=headline(entry, waiting, what_if, self._settings.schedulers),
                priority=view.pod.priority,
                requests=_shown_amounts(view.pod),
                waiting=waiting,
                candidates=shown(entry, ranks),
                asked_about=about,
                concerns=(*held, *placed),
            )
            if waiting is None or not self._may_be_tried(entry):
                draft = replace(draft, candidates=() if waits else draft.candidates)
                return self._with_revocation(replace(question, draft=draft), entry, now_s)
            question = self._to_try(replace(question, draft=draft), entry, view, what_if, len(ranks), now_s)
        return self._with_revocation(question, entry, now_s)

    def _placed_answer(self, entry: PodInfo, what_if: WhatIf, now_s: float) -> PodAnswer:
        """What needs no evaluation."""
        key = entry.seen.pod.key
        return PodAnswer(
            pod=key,
            uid=entry.seen.uid,
            at_s=now_s,
            state=entry.state.name.lower(),
            headline="",
            priority=entry.seen.pod.priority,
            requests=_shown_amounts(entry.seen.pod),
            node=entry.node,
            promised=self._components.nominations.node_of(entry.seen.uid),
            supposed=what_if.words(),
            record=None if entry.state not in ASSIGNED else self.past.record(entry.seen.uid),
            preemptions=self.past.about(key),
            story=story(entry),
        )

    def node(self, name: str, now_s: float) -> NodeAnswer | None:
        """The engine's view of a node, None if it is unknown."""
        return node_answer(self._components, name, now_s)

    def reports(self, now_s: float) -> dict[str, NodeReported]:
        """The last report of every node that has sent one, by name."""
        return node_reports(self._components, now_s)

    def settle(self) -> None:
        """Write what pods that came and went changed: rounds do, and without one a member that describes itself would
        tell of pods that are gone.
        """
        self._components.assignments.write()

    def knows_node(self, name: str) -> bool:
        """Whether there is such a node."""
        return name in self._components.assignments.encoder.node_rows

    def quota(self, name: str, now_s: float) -> Concern | None:
        """A quota with every term of its runtime, None if it is unknown."""
        concern = quota_concern(self._plugins, name)
        revocation = self._revocation(name)
        if concern is None or revocation is None or self._make is None:
            return concern
        return replace(concern, lines=(*concern.lines, revoked(self._captured(None, now_s), revocation)))

    def gang(self, key: str, now_s: float) -> Concern | None:
        """A gang by namespace/name, None if it is unknown."""
        return gang_concern(self._plugins, key, now_s)

    def _ranking(self, view: WhatIfView, now_s: float) -> Ranking:
        rows = np.flatnonzero(view.passing)
        preferences = view.narrowing.preferences(view.number, rows) if len(rows) else ()
        nodes, shapes = view.encoder.nodes(), view.encoder.shapes()
        profile = self._components.placing.profile_named(view.pod.scored_by)
        return ranking(profile, nodes, shapes, view.shape, rows, now_s, preferences, self._components.assignments.names)

    def _about(self, view: WhatIfView, node: str, ranks: Ranking) -> NodeVerdict:
        """Every filter that rejects the pod on this node, or its place among the feasible nodes."""
        row = view.encoder.node_rows[node]
        refusals = []
        for check in view.checked.checks:
            if check.fails[row]:
                missing = ""
                if check.missing is not None and check.resource:
                    missing = f"{format_amount(check.resource, int(check.missing[row]))} {check.resource}"
                elif check.figures is not None:
                    missing = check.figures(np.arange(len(check.fails)) == row)
                else:
                    missing = affinity_note(check, row, view, self._components.assignments, self._namespaces.values())
                refusals.append(NodeRefusal(check.plugin, check.reason, missing))
        if not refusals and not view.passing[row]:
            refusals.append(NodeRefusal("Nominated", _RESERVED))
        candidate, place = ranks.of(row)
        return NodeVerdict(node, tuple(dict.fromkeys(refusals)), candidate, place, len(ranks))

    # ---- what is to be tried in copies

    def _may_be_tried(self, entry: PodInfo) -> bool:
        """Whether the scheduler evaluates the pod at all: no scheduling gate and no obstacle holds it."""
        return self._make is not None and entry.state not in (SchedulingState.GATED, SchedulingState.BLOCKED)

    def _to_try(
        self, question: Question, entry: PodInfo, view: WhatIfView, what_if: WhatIf, passing: int, now_s: float
    ) -> Question:
        gangs, assignments = self._plugins.gangs, self._components.assignments
        together = gangs.lacks(entry)
        captured = self._captured(entry, now_s)
        own = [seen for seen in captured.waiting if seen.uid in captured.own]
        own.sort(key=lambda seen: seen.uid != entry.seen.uid)
        mine = entry.seen.pod.requests
        alike = [seen for seen in own if together > 1 or seen.uid == entry.seen.uid]
        as_assumed = {
            seen.uid: replace(seen, pod=apply(seen.pod, what_if)) if seen.pod.requests == mine else seen
            for seen in alike
        }
        waits = question.draft.waiting
        assert waits is not None
        for_each = f" for each of {len(alike)} pods" if what_if.changes and len(alike) > 1 else ""
        nodes = waits.nodes
        return replace(
            question,
            draft=replace(question.draft, supposed=f"{question.draft.supposed}{for_each}"),
            captured=captured,
            assumed=TrialChange(as_assumed) if what_if.changes else TrialChange(),
            members=tuple(as_assumed.values()),
            gang=gangs.key_of(entry.seen.uid) if together > 1 else "",
            mates=self._mates(entry),
            proposals=tuple(
                proposals(view, assignments.names, self._plugins, together, quota_room(self._plugins, entry, together))
            ),
            levels=self._evictions.levels(entry, view),
            guess=self._evictions.min_priority(entry, view) if together == 1 and not passing else None,
            passes=self._passes(entry, passing, nodes),
        )

    def _passes(self, entry: PodInfo, passing: int, nodes: int) -> str:
        """What a pod that may be placed waits for."""
        words = f"{passing} of {nodes} nodes would take it" if passing else "it is placed at its next attempt"
        asked, waits = self._plugins.extenders.standing(entry.seen.uid)
        return f"{words}; it {asked}" if waits and asked.startswith("waits") else words

    def _mates(self, entry: PodInfo) -> frozenset[str]:
        gang = self._plugins.gangs.of(entry.seen.uid)
        return frozenset(member.seen.pod.key for member in gang.members.values()) if gang is not None else frozenset()

    def _captured(self, about: PodInfo | None, now_s: float) -> Captured:
        assert self._make is not None
        return capture(
            self._components,
            self._pods,
            self._plugins,
            self._namespaces.values(),
            self._budgets.all(),
            self._make,
            about,
            now_s,
        )

    def _with_revocation(self, question: Question, entry: PodInfo, now_s: float) -> Question:
        """The question, and whether the pod's quota loses pods because it uses too much."""
        name = next((concern.name for concern in question.draft.concerns if concern.kind == "quota"), "")
        revocation = self._revocation(name) if name and self._make is not None else None
        if revocation is None:
            return question
        captured = question.captured
        return replace(question, revocation=revocation, captured=captured or self._captured(None, now_s))

    def _revocation(self, name: str) -> Revocation | None:
        quotas = self._plugins.quotas
        state = quotas.describe(name)
        if state is None or state.over_since_s is None:
            return None
        pods = frozenset(
            entry.seen.pod.key
            for uid, entry in self._pods.by_uid.items()
            if entry.node and quotas.quota_of(uid)[0] == name
        )
        return Revocation(name, pods, state.over_since_s, quotas.settings.revoke_after_s)

    # ---- why it waits

    def _waiting(
        self,
        entry: PodInfo,
        view: WhatIfView,
        what_if: WhatIf,
        ranks: Ranking,
        held: tuple[Concern, ...],
        now_s: float,
    ) -> WaitExplanation:
        explanation = view.checked.explanation()
        rejections = explanation.rejections
        if len(view.allowed):
            kept = int((view.checked.here & (view.checked.misses == 0) & ~view.allowed).sum())
            rejections = (*rejections, Rejection("Nominated", _RESERVED, kept)) if kept else rejections
        group = self._components.queue.group_of(entry.seen.uid)
        refused = group.verdict.record.waiting_because if group is not None and group.verdict is not None else ""
        holding = next((concern.words for concern in held if concern.holds), "")
        if entry.state is SchedulingState.GATED:
            because = f"its scheduling gates are closed: {', '.join(entry.seen.gates)}"
            because = "; ".join(part for part in (because, why_gated(entry)) if part)
        elif entry.state is SchedulingState.BLOCKED:
            because = entry.seen.obstacle or entry.last_message or holding
        elif what_if.changes:
            because = holding
        else:
            because = refused or holding
        held_back = bool(because)
        if not because and len(ranks) == 0:
            because = explanation.headline()
        elif not because and self._make is None:
            because = f"{len(ranks)} of {explanation.nodes} nodes would take it"
        none = len(ranks) == 0
        return WaitExplanation(
            because=because,
            held=held_back,
            nodes=explanation.nodes,
            rejections=rejections,
            nearest=tuple(str(nearest_miss) for nearest_miss in view.checked.nearest()[:_NEAREST]) if none else (),
            passing=len(ranks),
            notes=(
                *notes(view, self._components.assignments, self._namespaces.values()),
                *unusable_notes(self.unusable_nodes),
            )
            if none
            else (),
            preemption=self._evictions.why_none(entry, view, held) if none or held_back else "",
            retry=self._retry(entry, group, now_s),
        )


def _shown_amounts(pod: Pod) -> tuple[tuple[str, str], ...]:
    return tuple((name, format_amount(name, amount)) for name, amount in pod.requests)
