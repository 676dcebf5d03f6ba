"""Extenders among the plugins of the engine (docs/adr/0050).

A pod that an extender is interested in is set aside when its turn comes: the engine says which nodes pass its own
filters (`AskExtenders`) and goes on with other pods. The answer is a fact like others: the pod is judged again, by
what is true then, and a node that was not asked about, or that the extender refused, is not used. An answer serves one
judgement. An error of an extender that may not be ignored is the pod's reason, and it is asked again after a back-off.

A gang is judged when the last of its members has an answer: extenders are asked about each, as if none of the others
were placed, since what they are told of a pod has no place for others.

Limits: victims are asked about one node at a time, and those of a gang not at all, as in kube-scheduler.
Source: kube-scheduler's findNodesThatPassExtenders, prioritizeNodes and callExtenders, v1.36.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Self

import numpy as np

from cotenant.engine.cycle.access import CycleAccess
from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.framework.node_view import NodeView
from cotenant.engine.framework.plugin import Plugin, PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.extenders.question import AskExtenders, ExtenderAnswer, ExtenderQuestion
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.extender import Extender
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement.gangs.spec import gang_key

NAME = "Extenders"
STALE_S = 10.0  # an answer that is older is asked for again
GANG_STALE_S = 120.0  # of a gang's first answer, while others come in
_MARGIN_S = 60.0  # beyond the timeouts of all extenders, until an answer is given up
MAX_OPEN = 128  # questions to the same extenders at a time; other pods wait for their turn
_SPARED_S = 60.0  # for so long no victims are proposed again where an extender spared them
_USUAL = Backoff()


class Extenders(Plugin):
    """Asks extenders about pods, and judges by their answers."""

    name = NAME

    def __init__(self, extenders: Sequence[Extender] = (), backoff: Backoff = _USUAL, *, asks: bool = True) -> None:
        """`asks`: False in a copy that only simulates: pods are judged as if every extender agreed."""
        self.extenders = tuple(extenders)
        self._backoff, self._asks = backoff, asks
        self._asked = tuple(i for i, e in enumerate(self.extenders) if e.filter_verb or e.prioritize_verb)
        self._questions: dict[str, ExtenderQuestion] = {}  # by UID
        self._failures: dict[str, int] = {}  # by UID, in a row
        self._open: Counter[tuple[int, ...]] = Counter()  # open questions, by whom
        self._queued: dict[tuple[int, ...], dict[str, None]] = {}  # UIDs that wait for their turn, by whom
        self._entries: dict[str, PodInfo] = {}  # by UID: pods that some extender is interested in
        self._keys: dict[str, str] = {}  # namespace/name -> UID
        self._gangs: dict[str, dict[str, None]] = {}  # UIDs of those that are members, by gang
        self._spared: dict[str, dict[str, float]] = {}  # UID -> node -> until when
        self._numbers = 0
        self._now_s = 0.0

    # ---- which pods

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Pods that no extender is interested in."""
        return not any(is_interested(extender, pod, demands) for extender in self.extenders)

    def interested(self, uid: str) -> tuple[int, ...]:
        """The extenders, by their positions, that are interested in a pod."""
        entry = self._entries.get(uid)
        if entry is None:
            return ()
        pod, demands = entry.seen.pod, entry.seen.demands
        return tuple(i for i, extender in enumerate(self.extenders) if is_interested(extender, pod, demands))

    def is_in_gang(self, uid: str) -> bool:
        """Whether a pod is placed together with others."""
        entry = self._entries.get(uid)
        return entry is not None and bool(_gang_of(entry))

    def _to_ask(self, entry: PodInfo) -> tuple[int, ...]:
        """Those that are asked before it is judged."""
        if not self._asks:
            return ()
        return tuple(i for i in self.interested(entry.seen.uid) if i in self._asked)

    def pod_arrived(self, entry: PodInfo) -> None:
        """See `Plugin`."""
        self._entries[entry.seen.uid] = entry
        self._keys[entry.seen.pod.key] = entry.seen.uid
        if gang := _gang_of(entry):
            self._gangs.setdefault(gang, {})[entry.seen.uid] = None

    def pod_left(self, entry: PodInfo) -> None:
        """See `Plugin`."""
        uid = entry.seen.uid
        self._entries.pop(uid, None)
        self._forget(uid)
        if members := self._gangs.get(gang := _gang_of(entry)):
            members.pop(uid, None)
            if members:
                self._reconsider(next(iter(members)))  # it may have been the last one that was waited for
            else:
                del self._gangs[gang]
        self._failures.pop(uid, None)
        for waiting in self._queued.values():
            waiting.pop(uid, None)
        if self._keys.get(entry.seen.pod.key) == uid:  # and not of a later pod of that name
            del self._keys[entry.seen.pod.key]
        self._spared.pop(uid, None)

    def sign(self, entry: PodInfo) -> Hashable:
        """Each pod has an answer of its own."""
        return entry.seen.uid

    # ---- questions

    def pre_filter(self, pods: Sequence[PodInfo], now_s: float) -> Mapping[int, PodRefused]:
        """Pods whose answer is there are judged; about the others, extenders are asked. A gang waits for its last
        answer.
        """
        self._now_s = max(self._now_s, now_s)
        found: dict[int, PodRefused] = {}
        gangs: dict[str, list[int]] = {}
        for position, entry in enumerate(pods):
            if whom := self._to_ask(entry):
                key = _gang_of(entry)
                if key:
                    gangs.setdefault(key, []).append(position)
                elif (why := self._why_not_yet(entry, whom, now_s, now_s - STALE_S)) is not None:
                    found[position] = why
        for positions in gangs.values():
            found |= self._why_not_all({at: pods[at] for at in positions}, now_s)
        return found

    def _why_not_all(self, members: Mapping[int, PodInfo], now_s: float) -> dict[int, PodRefused]:
        """Why a gang is not judged, by member; where one waits for an answer, all of them do."""
        last_s = max((self._answered_s(entry.seen.uid) for entry in members.values()), default=-inf)
        since_s = now_s - (GANG_STALE_S if last_s >= now_s - STALE_S else STALE_S)  # the first serves until the last
        found: dict[int, PodRefused] = {}
        for at, entry in members.items():
            why = self._why_not_yet(entry, self._to_ask(entry), now_s, since_s)
            if why is not None:
                found[at] = why
        waits = next((why for why in found.values() if not why.is_told), None)
        return found if waits is None else dict.fromkeys(members, waits)

    def _answered_s(self, uid: str) -> float:
        question = self._questions.get(uid)
        return -inf if question is None or question.answer is None else question.answered_s

    def _why_not_yet(self, entry: PodInfo, whom: tuple[int, ...], now_s: float, since_s: float) -> PodRefused | None:
        """`since_s`: answers from before are too old."""
        uid = entry.seen.uid
        question = self._questions.get(uid)
        if question is not None and question.error and now_s < question.retry_s:
            return PodRefused(NAME, question.error)
        if question is not None and question.is_open and now_s < question.expires_s:
            return self._waits(whom)
        if _gang_of(entry) and (question is None or question.answer is None) and self._open[whom] >= MAX_OPEN:
            self._queued.setdefault(whom, {})[uid] = None  # its members are many, and a look at all nodes is not free
            return self._waits(whom)
        feasible = self._feasible(entry)
        if question is not None and question.answer is not None:
            fresh = not question.is_used and question.answered_s >= since_s
            if fresh and (not feasible or feasible & question.answer.nodes or feasible <= question.nodes):
                blocked = (question.nodes | feasible) - question.answer.nodes
                self._questions[uid] = replace(question, blocked=blocked)
                return None
        if not feasible:
            self._forget(uid)
            return None  # there is nothing to ask: the reasons are ours, and so are the victims
        if self._open[whom] >= MAX_OPEN:
            self._queued.setdefault(whom, {})[uid] = None
        else:
            self._ask(entry, whom, feasible, now_s)
        return self._waits(whom)

    def _ask(self, entry: PodInfo, whom: tuple[int, ...], feasible: frozenset[str], now_s: float) -> None:
        self._forget(entry.seen.uid)
        self._numbers += 1
        self._open[whom] += 1
        within_s = 2 * sum(self.extenders[i].timeout_s for i in whom) + _MARGIN_S  # filters, then scores
        self._questions[entry.seen.uid] = ExtenderQuestion(self._numbers, whom, feasible, now_s + within_s)
        self.host.say(AskExtenders(entry.seen.uid, entry.seen.pod.key, self._numbers, tuple(sorted(feasible)), whom))

    def _waits(self, whom: tuple[int, ...]) -> PodRefused:
        return PodRefused(NAME, f"waits for the answer of extender {self._urls(whom)}", is_told=False)

    def _feasible(self, entry: PodInfo) -> frozenset[str]:
        """Nodes that pass every filter of ours."""
        cycle = self.host.cycle
        assert isinstance(cycle, CycleAccess)
        before = self._questions.pop(entry.seen.uid, None)  # whose answer is not a filter of ours
        try:
            return cycle.components.placing.feasible(entry)
        finally:
            if before is not None:
                self._questions[entry.seen.uid] = before

    # ---- answers

    def answered(self, uid: str, number: int, answer: ExtenderAnswer, now_s: float) -> bool:
        """What the extenders said. Returns whether it was waited for."""
        question = self._awaited(uid, number)
        if question is None:
            return False
        self._closed(question)
        known = frozenset(answer.nodes & question.nodes)
        self._questions[uid] = replace(question, answer=replace(answer, nodes=known), answered_s=now_s)
        self._failures.pop(uid, None)
        self._reconsider(uid)
        return True

    def failed(self, uid: str, number: int, why: str, now_s: float) -> bool:
        """An extender that may not be ignored gave no usable answer. Returns whether it was waited for."""
        question = self._awaited(uid, number)
        if question is None:
            return False
        self._closed(question)
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        self._questions[uid] = replace(question, error=why, retry_s=now_s + self._backoff.rest_s(failures))
        self._reconsider(uid)
        return True

    def _reconsider(self, uid: str) -> None:
        """Judge a pod anew; a gang, once no answer about it is waited for."""
        entry = self._entries.get(uid)
        gang = _gang_of(entry) if entry is not None else ""
        members = self._gangs.get(gang, {uid: None})
        if not any((asked := self._questions.get(one)) is not None and asked.is_open for one in members):
            self.host.reconsider(uid)

    def _awaited(self, uid: str, number: int) -> ExtenderQuestion | None:
        question = self._questions.get(uid)
        return question if question is not None and question.number == number and question.is_open else None

    def _closed(self, question: ExtenderQuestion) -> None:
        """A question is answered, or nobody waits for its answer: the next pod has its turn."""
        self._open[question.whom] -= 1
        waiting = self._queued.get(question.whom)
        if waiting:
            uid = next(iter(waiting))
            del waiting[uid]
            self.host.reconsider(uid)

    def _forget(self, uid: str) -> None:
        question = self._questions.pop(uid, None)
        if question is not None and question.is_open:
            self._closed(question)

    def standing(self, uid: str) -> tuple[str, bool]:
        """How the pod stands with extenders, in words, and whether it waits for them; empty = it has no question."""
        question = self._questions.get(uid)
        if question is None:
            whom = next((whom for whom, waiting in self._queued.items() if uid in waiting), None)
            return (f"waits for its turn at extender {self._urls(whom)}", True) if whom is not None else ("", False)
        if question.error:
            return question.error, True
        if question.answer is None:
            return f"waits for the answer of extender {self._urls(question.whom)}", True
        left = f"{len(question.answer.nodes)} of {len(question.nodes)} nodes"
        return f"extender {self._urls(question.whom)} left {left}", False

    def _urls(self, whom: tuple[int, ...]) -> str:
        return ", ".join(self.extenders[i].url for i in whom)

    def spared(self, uid: str, node: str, now_s: float) -> None:
        """An extender does not allow the victims that were proposed on a node: others are proposed elsewhere."""
        if uid in self._entries:
            self._spared.setdefault(uid, {})[node] = now_s + _SPARED_S

    # ---- judgement

    def filter(self, pod: Pod, nodes: NodeView) -> RuleResult | None:
        """Nodes that the answer allows; all of them where nothing was asked."""
        uid = self._keys.get(pod.key, "")
        question = self._questions.get(uid)
        blocked = question.blocked if question is not None and question.answer is not None else frozenset()
        if question is not None and not question.is_judged:
            self._questions[uid] = replace(question, is_judged=True)
        spared = {node for node, until_s in self._spared.get(uid, {}).items() if self._now_s < until_s}
        if not blocked and not spared:
            return None
        left = nodes.everywhere()
        rows = [nodes.rows[name] for name in blocked | spared if name in nodes.rows]
        left[rows] = False
        why = dict(question.answer.refused) if question is not None and question.answer is not None else {}
        why |= dict.fromkeys(spared, "it spares the pods that would have to go")
        return RuleResult(NAME, "node(s) were refused by an extender", left, False, _Words(nodes, why))

    def score(self, pod: Pod, nodes: NodeView, rows: Int) -> Float | None:
        """What extenders add to the score."""
        question = self._questions.get(self._keys.get(pod.key, ""))
        if question is None or question.answer is None or not question.answer.points:
            return None
        points = question.answer.points
        return np.array([points.get(nodes.node(row).name, 0.0) for row in rows.tolist()], dtype=np.float64)

    def reserve(self, entry: PodInfo, node: str) -> None:
        """The pod was placed by its answer."""
        self._use(entry.seen.uid)

    def unreserve(self, entry: PodInfo) -> None:
        """It was taken back, or found no node."""
        self._use(entry.seen.uid)

    def _use(self, uid: str) -> None:
        question = self._questions.get(uid)
        if question is not None and question.answer is not None and question.is_judged and not question.is_used:
            self._questions[uid] = replace(question, is_used=True)

    def post_bind(self, entry: PodInfo) -> None:
        """See `Plugin`."""
        self._forget(entry.seen.uid)

    # ---- time

    def queueing_hint(self, entry: PodInfo) -> bool:
        """Not while an answer is waited for."""
        question = self._questions.get(entry.seen.uid)
        if question is None:
            return True
        return not question.is_open and not (question.error and self._now_s < question.retry_s)

    def turn(self, now_s: float) -> None:
        """Ask again what is due, and give up what was not answered."""
        self._now_s = now_s
        for uid, question in list(self._questions.items()):
            if question.is_open and question.expires_s <= now_s:
                self.failed(uid, question.number, "no extender answered in time", now_s)
            elif question.error and question.retry_s <= now_s:
                del self._questions[uid]
                self.host.reconsider(uid)
        for uid, nodes in list(self._spared.items()):
            left = {node: until_s for node, until_s in nodes.items() if until_s > now_s}
            if len(left) < len(nodes):
                self._spared[uid] = left
                self.host.reconsider(uid)
            if not left:
                del self._spared[uid]

    def next_s(self) -> float:
        """See `Plugin`."""
        due = [
            question.expires_s if question.is_open else question.retry_s if question.error else inf
            for question in self._questions.values()
        ]
        due += [until_s for nodes in self._spared.values() for until_s in nodes.values()]
        return min(due, default=inf)

    # ---- state

    def capture(self) -> Callable[[], Self]:
        """See `Plugin`: a copy asks nobody."""
        made, extenders, backoff = type(self), self.extenders, self._backoff
        return lambda: made(extenders, backoff, asks=False)

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        questions, failures = dict(self._questions), dict(self._failures)
        spared = {uid: dict(nodes) for uid, nodes in self._spared.items()}
        numbers, now_s, open_ = self._numbers, self._now_s, Counter(self._open)
        queued = {whom: dict(waiting) for whom, waiting in self._queued.items()}

        def put_back() -> None:
            self._questions, self._failures, self._spared = questions, failures, spared
            self._numbers, self._now_s, self._open, self._queued = numbers, now_s, open_, queued

        return put_back


class _Words:
    """The reason of an extender for one of the nodes that count."""

    def __init__(self, nodes: NodeView, why: Mapping[str, str]) -> None:
        self._nodes, self._why = nodes, why

    def __call__(self, mask: Mask) -> str:
        for row in np.flatnonzero(mask).tolist():
            said = self._why.get(self._nodes.node(row).name)
            if said:
                return said
        return ""


def _gang_of(entry: PodInfo) -> str:
    return gang_key(entry.seen.pod, entry.seen.demands.gang)


def is_interested(extender: Extender, pod: Pod, demands: Demands) -> bool:
    """Whether an extender is asked about pods like this one."""
    return extender.is_interested((*pod.requests.names(), *demands.beyond))
