"""A question about a pod, as it was asked of the engine, and the answer with everything that was tried out in copies of
it.

Trying a change takes as long as building an engine, and the engine that decides must not stop for it. Two steps. The
engine fills in what it knows and captures its facts (explain.py); the answer is completed from those alone, in another
thread if need be: is the pod placed as it is, or with what the question assumes; and with which of the proposed
changes. Only a change with which the pod is placed, with its gang and by its quota, is reported.
Limits: a bounded number of copies a question, fewer in large clusters; proposals beyond that are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cotenant.engine.explain.copying import Captured
from cotenant.engine.explain.remedies import Proposal, fitting
from cotenant.engine.explain.trial import NO_CHANGE, TrialChange, TrialOutcome, evictions_until, run
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.decisions.answers import Concern, Help, PodAnswer, WaitExplanation

_NAMED = 8  # pods in a sentence
_NODES_TRIED = 3  # of one proposal
_SETTLES_S = 5.0  # after the delay of a revocation: the engine looks once a second
_COPIES = ((2_000, 40), (10_000, 16), (1 << 62, 6))  # up to so many pods: copies a question
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Revocation:
    """A quota that uses more than its runtime."""

    quota: str
    pods: frozenset[str]  # its pods on nodes, namespace/name
    since_s: float
    after_s: float  # how long that must last


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that is needed to complete an answer; nothing of the engine."""

    draft: PodAnswer
    captured: Captured | None = None  # None: nothing is to be tried
    assumed: TrialChange = NO_CHANGE
    members: tuple[ObservedPod, ...] = ()  # waiting pods that a change of the pod applies to, as assumed; the pod first
    gang: str = ""  # placed as a whole
    mates: frozenset[str] = frozenset()  # all pods of its gang, namespace/name
    proposals: tuple[Proposal, ...] = ()
    levels: tuple[
        int, ...
    ] = ()  # priorities that would put more pods below it, ascending; empty if it must not preempt
    guess: int | None = None  # the least of those at which a node could be cleared for the pod alone
    passes: str = ""  # why it waits if it is placed in the copy
    revocation: Revocation | None = None

    def answer(self) -> PodAnswer:
        """The complete answer."""
        answer, captured = self.draft, self.captured
        if captured is None:
            return answer
        if self.revocation is not None:
            line = revoked(captured, self.revocation)
            answer = replace(
                answer, concerns=tuple(_with(concern, self.revocation, line) for concern in answer.concerns)
            )
        if answer.waiting is None or not self.members:
            return answer
        return _Completion(self, answer, answer.waiting, captured).answer()


class _Completion:
    """Completes the answer about one waiting pod."""

    def __init__(self, question: Question, draft: PodAnswer, waiting: WaitExplanation, captured: Captured) -> None:
        self._question = question
        self._draft = draft
        self._waiting = waiting
        self._captured = captured
        size = len(captured.placed) + len(captured.waiting)
        self._left = next(copies for pods, copies in _COPIES if size <= pods)
        self._base = TrialOutcome()

    def answer(self) -> PodAnswer:
        question, draft, waiting = self._question, self._draft, self._waiting
        self._base = base = self._run(NO_CHANGE)
        assumed = draft.supposed
        about = draft.asked_about
        if about is not None and about.candidate is not None and not base.node:
            about = replace(about, alone=True)
        if base.is_plain:
            waiting = replace(waiting, because=question.passes, held=False, preemption="")
            first = f", {draft.candidates[0].node} first" if draft.candidates else ""
            headline = f"with {assumed}, {waiting.because}{first}" if assumed else f"it waits: {waiting.because}"
            return replace(draft, waiting=waiting, headline=headline, asked_about=about)
        if base.node:
            waiting = replace(waiting, preemption=_evicting(base))
        else:
            assumes = bool(
                assumed and question.gang
            )  # what holds the gang as it is need not be what would hold it then
            because = (base.message if assumes else "") or waiting.because or base.message or "it is not placed"
            waiting = replace(waiting, because=because, helps=self._helps())
        headline = f"with {assumed} it would wait: " if assumed else "it waits: "
        headline += waiting.because or "pods must be evicted for it first"
        return replace(draft, waiting=waiting, headline=headline, candidates=(), asked_about=about)

    def _run(self, change: TrialChange, without: frozenset[str] = _NONE) -> TrialOutcome:
        if self._left == 0:
            return TrialOutcome()
        self._left -= 1
        uid = self._question.members[0].uid
        return run(self._captured, uid, self._question.assumed.and_then(change), without)

    # ---- what would help

    def _helps(self) -> tuple[Help, ...]:
        found = [element for proposal in self._question.proposals if (element := self._tried(proposal)) is not None]
        priority = self._priority()
        return (*found, priority) if priority is not None else tuple(found)

    def _tried(self, proposal: Proposal) -> Help | None:
        """The proposal in words, if the pod is placed with it."""
        unless = ""
        # A copy has no back-offs: there no pod comes before this one that is behind it in the queue.
        exact = not self._captured.cut and not self._captured.overtaken
        words = self._words(proposal, _NONE) if exact else None
        if words is None and self._captured.ahead:
            words, unless = (
                self._words(proposal, self._captured.ahead),
                ", unless a pod before it in the queue takes the room",
            )
        if words is None:
            return None
        text, nodes, more = words
        like = (
            "is like it"
            if nodes == more == 1
            else "are like it"
            if nodes == 1
            else "is like them"
            if more == 1
            else "are like them"
        )
        also = f"; {more} more {like}" if more else ""
        return Help(proposal.what, f"{proposal.verb}{text} then{unless}{also}", nodes)

    def _words(self, proposal: Proposal, without: frozenset[str]) -> tuple[str, int, int] | None:
        """The rest of the sentence, the number of nodes in it, and how many more nodes are like them."""
        gang = self._question.gang
        if proposal.on_pod is not None:
            change = TrialChange({member.uid: proposal.on_pod(member) for member in self._question.members})
            outcome = self._run(change, without)
            if not outcome.is_plain:
                return None
            if gang:
                return f"{self._for_each()}: gang {gang} fits", len(proposal.nodes), 0
            nodes = proposal.nodes if outcome.node in proposal.nodes else (outcome.node,)
            return f": {fitting(nodes)}", len(nodes), 0
        if gang:
            needed = self._needed(proposal, without)
            return (f" {', '.join(needed)}: gang {gang} fits", len(needed), 0) if needed else None
        fit = tuple(name for name in proposal.nodes[:_NODES_TRIED] if self._fits(proposal, name, without))
        if not fit:
            return None
        more = len(proposal.nodes) - min(len(proposal.nodes), _NODES_TRIED) + proposal.more
        return f": {fitting(fit)}", len(fit), more

    def _fits(self, proposal: Proposal, name: str, without: frozenset[str]) -> bool:
        """Whether the pod is placed on this node if the node is changed; a quota may also grow with the node and
        let the pod go elsewhere.
        """
        outcome = self._run(self._on(proposal, (name,)), without)
        return outcome.is_plain and outcome.node == name

    def _for_each(self) -> str:
        count = len(self._question.members)
        return f" for each of {count} pods" if count > 1 else ""

    def _needed(self, proposal: Proposal, without: frozenset[str]) -> tuple[str, ...]:
        """Nodes that must be changed for a whole gang; none if all of them do not suffice."""
        needed = proposal.nodes
        if not self._run(self._on(proposal, needed), without).is_plain:
            return ()
        for name in proposal.nodes:
            fewer = tuple(entry for entry in needed if entry != name)
            if fewer and self._run(self._on(proposal, fewer), without).is_plain:
                needed = fewer
        return needed

    def _on(self, proposal: Proposal, names: Sequence[str]) -> TrialChange:
        assert proposal.on_node is not None
        return TrialChange(nodes={name: proposal.on_node(self._captured.node(name)) for name in names})

    def _priority(self) -> Help | None:
        """The least priority with which it is placed, and what is evicted then."""
        question = self._question
        levels = question.levels
        if not levels:
            return None
        outcomes: dict[int, TrialOutcome] = {}

        def works(level: int) -> bool:
            if level not in outcomes:
                change = {
                    member.uid: replace(member, pod=replace(member.pod, priority=level)) for member in question.members
                }
                outcomes[level] = self._run(TrialChange(change))
            found = outcomes[level]
            return bool(found.node) and not question.mates.intersection(found.preempted)

        found: int | None = None
        if question.guess is not None and works(question.guess):
            found = question.guess
        elif works(levels[-1]):
            low, high = 0, len(levels) - 1
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if works(levels[middle]) else (middle + 1, high)
            found = levels[low]
        if found is None or not works(found):
            return None
        has = question.members[0].pod.priority
        evicts = _evicting(outcomes[found]) or "it comes before the pods that are ahead of it now"
        return Help("priority", f"priority {found} or more{self._for_each()} (it has {has}): {evicts}", 1)


def revoked(captured: Captured, revocation: Revocation) -> str:
    """Whether pods of a quota are evicted because it uses more than its runtime: tried with everything that waits
    now.
    """
    gone = evictions_until(captured, captured.now_s + revocation.after_s + _SETTLES_S)
    victims = [key for key in gone if key in revocation.pods]
    if not victims:
        return "it uses more than its runtime; no pod is evicted for that as things are"
    in_s = revocation.since_s + revocation.after_s - captured.now_s
    if in_s < -_SETTLES_S:  # looked at every second since, and nothing was evicted for it
        return "it has used more than its runtime for long enough; no pod is evicted for that as things are"
    in_s = max(0.0, in_s)
    are = "is" if len(victims) == 1 else "are"
    return f"it uses more than its runtime: {listed(victims)} {are} evicted in about {in_s:.0f} s unless that changes"


def _with(concern: Concern, revocation: Revocation, line: str) -> Concern:
    if concern.kind != "quota" or concern.name != revocation.quota:
        return concern
    return replace(concern, lines=(*concern.lines, line))


def _evicting(outcome: TrialOutcome) -> str:
    parts = []
    if outcome.preempted:
        beyond = outcome.beyond_budgets
        broken = f", {beyond} of them beyond their disruption budgets" if beyond else ""
        mates = f", with {listed(outcome.mates)} of the same gang" if outcome.mates else ""
        parts.append(f"{listed(outcome.preempted)} would be evicted on {listed(outcome.nominated)}{mates}{broken}")
    if outcome.terminated:
        parts.append(f"it would wait for {listed(outcome.terminated)} to terminate on {listed(outcome.nominated)}")
    others = [key for key in outcome.evicted if key not in (*outcome.preempted, *outcome.mates)]
    if others:
        parts.append(f"{listed(others)} would be evicted from its quota")
    return "; ".join(parts)


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
