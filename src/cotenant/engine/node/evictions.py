"""Who is asked to leave, how fast, and what came of it.

Problem: policies wish evictions at every tick until the pressure is gone, and a burst of them would empty a node for a peak of seconds.
Choice: a pod is asked once and is outstanding until it is gone, it refuses, or nothing is heard for long; limits hold over the last minute and
hour, over each tenant, and over how many may be outstanding at once. Limits: whom to evict is the policies' judgement; here it is only when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.settings import SECOND_US, EvictionLimits
from cotenant.model.errors import Permanent
from cotenant.model.machine.node_decision import EvictPod
from cotenant.model.machine.node_pod import NodePod, Phase
from cotenant.model.machine.verdict import Verdict

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US


@dataclass(slots=True)
class Asked:
    """One pod that was asked to leave."""

    wish: EvictPod
    policy: str
    at_us: int
    accepted: bool = False  # by whoever evicts
    rest_until_us: int | None = None  # refused: not asked again before
    rest_us: int = 0
    detail: str = ""

    @property
    def outstanding(self) -> bool:
        """Whether it may still leave for this request."""
        return self.rest_until_us is None


def tenant_of(pod: NodePod) -> str:
    """Whose pod it is: its tenant, else its namespace."""
    return pod.tenant or pod.namespace


class Evictions:
    """Paces evictions."""

    def __init__(self, limits: EvictionLimits, counts: AgentCounts) -> None:
        self._limits = limits
        self._counts = counts
        self._asked: dict[str, Asked] = {}  # by UID
        self._history: deque[tuple[int, str]] = deque()  # time, tenant; of the last hour
        self._paced: dict[str, str] = {}  # UIDs that wait for the limits, and for which

    def asked(self) -> Mapping[str, Asked]:
        """By UID: who was asked and is still here."""
        return self._asked

    def paced(self) -> Mapping[str, str]:
        """By UID: whose eviction is wished and waits, and for which limit."""
        return self._paced

    def choose(
        self, verdicts: Sequence[tuple[str, Verdict]], pods: Mapping[str, NodePod], now_us: int
    ) -> tuple[tuple[str, EvictPod], ...]:
        """Whom to ask now, with the policy that wished it first; `verdicts` in the roster's order, `pods` by UID."""
        self._forget(pods, now_us)
        wished: dict[str, tuple[str, EvictPod]] = {}
        for policy, verdict in verdicts:
            for wish in verdict.evictions:
                wished.setdefault(wish.uid, (policy, wish))
        chosen: list[tuple[str, EvictPod]] = []
        paced: dict[str, str] = {}
        # Who was asked in vain comes after who was not: one that never leaves must not keep all others.
        for uid, (policy, wish) in sorted(wished.items(), key=lambda entry: entry[0] in self._asked):
            pod = pods.get(uid)
            if pod is None or pod.phase is not Phase.RUNNING or not self._may_ask(uid, now_us):
                continue
            limit = self._limit(tenant_of(pod), now_us)
            if limit:
                paced[uid] = limit
                continue
            before = self._asked.get(uid)
            self._asked[uid] = Asked(wish, policy, now_us, rest_us=before.rest_us if before else 0)
            self._history.append((now_us, tenant_of(pod)))
            self._counts.evictions_asked += 1
            chosen.append((policy, wish))
        self._counts.evictions_paced += len(paced.keys() - self._paced.keys())
        self._paced = paced
        return tuple(chosen)

    def answered(self, uid: str, accepted: bool, detail: str, now_us: int) -> Asked | None:
        """How asking went; None where it was not asked."""
        asked = self._asked.get(uid)
        if asked is None or not asked.outstanding:
            self._counts.stray_answers += 1
            return None
        asked.accepted, asked.detail = accepted, detail
        if accepted:
            self._counts.evictions_accepted += 1
        else:
            self._counts.evictions_refused += 1
            asked.rest_us = min(self._limits.leave_us, max(self._limits.retry_us, 2 * asked.rest_us))
            asked.rest_until_us = now_us + asked.rest_us
        return asked

    def _may_ask(self, uid: str, now_us: int) -> bool:
        asked = self._asked.get(uid)
        return asked is None or (asked.rest_until_us is not None and now_us >= asked.rest_until_us)

    def _limit(self, tenant: str, now_us: int) -> str:
        """The limit that stands in the way, "" where none does."""
        limits = self._limits
        if sum(asked.outstanding for asked in self._asked.values()) >= limits.outstanding:
            return f"{limits.outstanding} asked to leave and still here"
        if len(self._history) >= limits.per_hour:
            return f"{limits.per_hour} within an hour"
        if sum(now_us - at < MINUTE_US for at, _ in self._history) >= limits.per_minute:
            return f"{limits.per_minute} within a minute"
        if sum(other == tenant for _, other in self._history) >= limits.per_tenant_per_hour:
            return f"{limits.per_tenant_per_hour} of tenant {tenant} within an hour"
        return ""

    def _forget(self, pods: Mapping[str, NodePod], now_us: int) -> None:
        for uid in [uid for uid in self._asked if uid not in pods]:
            del self._asked[uid]
        for asked in self._asked.values():
            patience = self._limits.leave_us if asked.accepted else self._limits.answer_us
            if asked.outstanding and now_us - asked.at_us >= patience:
                asked.rest_until_us = now_us  # not heard of any more: may be asked again
        while self._history and now_us - self._history[0][0] >= HOUR_US:
            self._history.popleft()

    def validate(self, now_us: int) -> None:
        """The limits hold. Raises `Permanent`."""
        limits = self._limits
        recent = [at for at, _ in self._history]
        if recent != sorted(recent) or any(at > now_us for at in recent):
            raise Permanent("evictions are out of order")
        if len(recent) > limits.per_hour or sum(now_us - at < MINUTE_US for at in recent) > limits.per_minute:
            raise Permanent("more evictions than the limits allow")
        if sum(asked.outstanding for asked in self._asked.values()) > max(limits.outstanding, 0):
            raise Permanent("more evictions outstanding than the limits allow")
