"""An EvictionRequest of ours, and how far the Eviction that it began has come (KEP-4563).

Its source is Kubernetes 1.37: group lifecycle.k8s.io, version v1alpha1, behind the feature gate EvictionRequestAPI;
1.36 has neither. There, responders (interceptors in the KEP's first drafts) act one after another, each until it
completes or has not reported for twenty minutes; the last one calls the eviction API.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan

API_GROUP = "lifecycle.k8s.io"
REQUESTS = "evictionrequests"
REBALANCER, SCHEDULER = "cotenant.io/rebalancer", "cotenant.io/scheduler"  # names of our requesters
LAST_RESPONDER = "imperative-eviction.k8s.io/evictor"
HEARTBEAT_S = 1200.0  # a responder that reports less often loses its turn
INVALID = "EvictionInvalid"  # reason of Failed: the API does not evict such a pod


@dataclass(frozen=True, slots=True)
class EvictionRequest:
    """A request as stored. Times are Unix times, NaN where not known."""

    namespace: str
    name: str
    uid: str
    requester: str
    pod_uid: str
    pod_name: str = ""
    created_s: float = nan
    withdrawn: bool = False
    evicted: bool = False
    failed: str = ""  # reason of its condition Failed, while that is True
    message: str = ""  # of it

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class EvictionProgress:
    """Whose turn it is in the Eviction of a pod, and what it reports."""

    key: str  # namespace/name of the Eviction
    pod_uid: str
    responder: str = ""  # empty = none is active
    since_s: float = nan
    heartbeat_s: float = nan
    expected_s: float = nan
    message: str = ""
    waiting: int = 0  # responders after it
    created_s: float = -inf

    def in_words(self, now_s: float) -> str:
        """For a status or an explanation."""
        if not self.responder:
            return "no responder has begun yet"
        if self.responder == LAST_RESPONDER:
            return f"the eviction API is called{': ' + self.message if self.message else ''}"
        said = f"responder {self.responder} has it for {_age(self.since_s, now_s)}"
        if self.message:
            said += f": {self.message}"
        if not isnan(self.expected_s):
            left_s = self.expected_s - now_s
            said += f"; expects to be done in {left_s:.0f} s" if left_s >= 0 else f"; is {-left_s:.0f} s late"
        last_s = self.since_s if isnan(self.heartbeat_s) else self.heartbeat_s
        if not isnan(last_s):
            said += f"; loses its turn unless it reports within {max(0.0, last_s + HEARTBEAT_S - now_s):.0f} s"
        return f"{said}; {self.waiting} more after it" if self.waiting else said


def _age(since_s: float, now_s: float) -> str:
    return "an unknown time" if isnan(since_s) else f"{max(0.0, now_s - since_s):.0f} s"
