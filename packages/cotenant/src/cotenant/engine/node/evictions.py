"""Rate-limits evictions and tracks their outcomes.

Policies request evictions at every tick until the pressure is gone, and a burst of them would empty a node for a peak
of seconds. A pod is requested once and is outstanding until it is gone, it is refused, or there is no result for long;
limits apply to the last minute and hour, to each tenant, and to how many may be outstanding at once. They count what
was accepted or may yet be: a refusal gives its part back, and is followed by a back-off of that pod and, after many, of
all. A pod that no source has named is not requested: nobody could be asked to evict it.
Limits: which pod to evict is the policies' decision; here it is only when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.settings import SECOND_US, EvictionLimits
from cotenant.model.errors import Permanent
from cotenant.model.machine.node_decision import EvictPod
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.verdict import PolicyVerdict

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
NOT_NAMED = "a source that names it: only its group is known"


@dataclass(slots=True)
class RequestedEviction:
    """One pod whose eviction was requested."""

    eviction: EvictPod
    policy: str
    at_us: int
    tenant: str
    accepted: bool = False  # by the API server or kubelet
    retry_at_us: int | None = None  # refused: not requested again before
    backoff_us: int = 0
    detail: str = ""

    @property
    def outstanding(self) -> bool:
        """Whether the request may still take effect."""
        return self.retry_at_us is None


def tenant_of(pod: NodePod) -> str:
    """The pod's tenant, else its namespace."""
    return pod.tenant or pod.namespace


def _account(pod: NodePod) -> str:
    """What its eviction counts against. A tenant is its pods' owners' to write, so that of one namespace never uses
    up what another's may lose.
    """
    return pod.namespace if tenant_of(pod) == pod.namespace else f"{pod.tenant} in {pod.namespace}"


class Evictions:
    """Rate-limits evictions."""

    def __init__(self, limits: EvictionLimits, counts: AgentCounts) -> None:
        self._limits = limits
        self._counts = counts
        self._asked: dict[str, RequestedEviction] = {}  # by UID
        self._history: deque[tuple[int, str]] = deque()  # time, tenant; of the last hour, without those refused
        self._refused: deque[int] = deque()  # times of the last minute's refusals
        self._paced: dict[str, str] = {}  # UIDs that wait, and for what

    def asked(self) -> Mapping[str, RequestedEviction]:
        """Requests of pods that are still here, by UID."""
        return self._asked

    def paced(self) -> Mapping[str, str]:
        """Pods whose eviction waits, by UID, with what it waits for."""
        return self._paced

    def choose(
        self, verdicts: Sequence[tuple[str, PolicyVerdict]], pods: Mapping[str, NodePod], now_us: int
    ) -> tuple[tuple[str, EvictPod], ...]:
        """The evictions to request now, each with the first policy that wants it. `verdicts` in policy order,
        `pods` by UID.
        """
        self._forget(pods, now_us)
        requested: dict[str, tuple[str, EvictPod]] = {}
        for policy, verdict in verdicts:
            for eviction in verdict.evictions:
                requested.setdefault(eviction.uid, (policy, eviction))
        chosen: list[tuple[str, EvictPod]] = []
        paced: dict[str, str] = {}
        # Pods requested before come last: one that never leaves must not block all others.
        for uid, (policy, eviction) in sorted(requested.items(), key=lambda entry: entry[0] in self._asked):
            pod = pods.get(uid)
            if pod is None or pod.phase is not NodePodPhase.RUNNING or not self._may_ask(uid, now_us):
                continue
            # A verdict from before the pod was named judged a class that was not known.
            named = pod.is_named and eviction.key == pod.key
            waits_for = self._limit(_account(pod), now_us) if named else NOT_NAMED
            if waits_for:
                paced[uid] = waits_for
                continue
            before = self._asked.get(uid)
            backoff_us = before.backoff_us if before else 0
            self._asked[uid] = RequestedEviction(eviction, policy, now_us, _account(pod), backoff_us=backoff_us)
            self._history.append((now_us, _account(pod)))
            self._counts.evictions_asked += 1
            chosen.append((policy, eviction))
        self._counts.evictions_paced += len(paced.keys() - self._paced.keys())
        self._paced = paced
        return tuple(chosen)

    def answered(
        self, uid: str, accepted: bool, detail: str, now_us: int, *, rehearsed: bool = False
    ) -> RequestedEviction | None:
        """Record the outcome of a request; None where none was made. `rehearsed`: refused only because nothing is
        to happen, so that the limits count it.
        """
        asked = self._asked.get(uid)
        if asked is None or not asked.outstanding:
            self._counts.stray_answers += 1
            return None
        asked.accepted, asked.detail = accepted, detail
        if accepted:
            self._counts.evictions_accepted += 1
        else:
            self._counts.evictions_refused += 1
            if not rehearsed:
                counted = (asked.at_us, asked.tenant)
                if counted in self._history:  # not with an answer after more than an hour
                    self._history.remove(counted)
                self._refused.append(now_us)
            longest_us = max(self._limits.retry_us, self._limits.retry_most_us)
            asked.backoff_us = min(longest_us, max(self._limits.retry_us, 2 * asked.backoff_us))
            asked.retry_at_us = now_us + asked.backoff_us
        return asked

    def _may_ask(self, uid: str, now_us: int) -> bool:
        asked = self._asked.get(uid)
        return asked is None or (asked.retry_at_us is not None and now_us >= asked.retry_at_us)

    def _limit(self, tenant: str, now_us: int) -> str:
        """The limit that is reached, "" where none is."""
        limits = self._limits
        if len(self._refused) >= limits.refused_per_minute:
            return f"{limits.refused_per_minute} refused within a minute"
        if sum(asked.outstanding for asked in self._asked.values()) >= limits.outstanding:
            return f"{limits.outstanding} outstanding"
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
            timeout_us = self._limits.leave_us if asked.accepted else self._limits.answer_us
            if asked.outstanding and now_us - asked.at_us >= timeout_us:
                asked.retry_at_us = now_us  # no result: may be requested again
        while self._history and now_us - self._history[0][0] >= HOUR_US:
            self._history.popleft()
        while self._refused and now_us - self._refused[0] >= MINUTE_US:
            self._refused.popleft()

    def validate(self, now_us: int) -> None:
        """Check the limits. Raises `Permanent`."""
        limits = self._limits
        recent = [at for at, _ in self._history]
        if recent != sorted(recent) or any(at > now_us for at in recent):
            raise Permanent("evictions are out of order")
        if len(recent) > limits.per_hour or sum(now_us - at < MINUTE_US for at in recent) > limits.per_minute:
            raise Permanent("more evictions than the limits allow")
        if sum(asked.outstanding for asked in self._asked.values()) > max(limits.outstanding, 0):
            raise Permanent("more evictions outstanding than the limits allow")
