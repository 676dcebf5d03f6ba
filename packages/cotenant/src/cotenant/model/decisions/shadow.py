"""What a scheduler that only watches has found: how its choices compare with those of the scheduler that binds.

The process fills these in, `cotenant explain shadow` and scripts read them as JSON, metrics count by the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ShadowChoice(StrEnum):
    """What we would have done with a pod."""

    PLACES = "places"
    WAITS = "waits"
    PREEMPTS = "preempts"
    NOT_JUDGED = "not_judged"  # its gates, its gang, a claim or a feature that we cannot evaluate holds it


class ShadowOutcome(StrEnum):
    """What became of a pod, compared with our choice."""

    AGREED = "agreed"
    EQUAL_SCORE = "equal_score"  # another node, on which our score is the same
    OTHER_NODE = "other_node"
    WOULD_WAIT = "would_wait"
    WOULD_PREEMPT = "would_preempt"
    NOT_JUDGEABLE = "not_judgeable"
    BEFORE_JUDGED = "bound_before_judged"
    DELETED = "deleted"  # before any scheduler placed it


class ShadowPicture(StrEnum):
    """Which state of the cluster a choice was made on."""

    AT_BIND = "at_bind"  # every earlier bind counted, this one not
    EARLIER = "earlier"  # when the pod appeared, or when something might have helped it
    NONE = "none"


class NodeSignal(StrEnum):
    """What may come of a node after a pod was placed."""

    PRESSURE = "pressure"  # memory, disk or process IDs, by its taints
    NOT_READY = "not_ready"
    EVICTIONS = "evictions"  # by its kubelet, for lack of something
    REFUSED_STARTS = "refused_starts"  # its kubelet had no room for a pod that was bound there
    CPU_USED = "cpu_used"  # fraction of allocatable, of the last report
    LATENCY_P99 = "latency_p99"
    VIOLATIONS = "violations"  # of objectives, by the last report


class Worse(StrEnum):
    """On which of two nodes a signal was worse."""

    REAL = "real"  # where the pod is
    OURS = "ours"  # where we would have put it
    ALIKE = "alike"
    NEITHER = "neither"  # it was seen on neither
    UNKNOWN = "unknown"  # not reported for both


@dataclass(frozen=True, slots=True)
class Difference:
    """A pod whose node is not the one that we would have chosen."""

    at_s: float
    pod: str
    outcome: ShadowOutcome
    real: str
    ours: str  # empty = none
    picture: ShadowPicture
    reason: str  # the filter, the term of the score or the plugin that makes the difference
    words: str
    place: int = 0  # of the real node among those that pass our filters, 1 = the best; 0 = it does not pass
    of: int = 0
    behind: float = 0.0  # the real node's score is so much lower; NaN where it was not computed


@dataclass(frozen=True, slots=True)
class Followed:
    """What came of the two nodes of a difference, `window_s` after it."""

    at_s: float
    pod: str
    real: str
    ours: str
    signals: tuple[tuple[NodeSignal, Worse], ...]


class ShadowNomination(StrEnum):
    """Our choice for a pod that the other scheduler has nominated for a node, where it evicts others."""

    SAME_NODE = "same_node"  # evictions there too
    OTHER_NODE = "other_node"  # evictions elsewhere
    WOULD_PLACE = "would_place"  # without an eviction
    WOULD_WAIT = "would_wait"
    NOT_JUDGED = "not_judged"  # or not yet


@dataclass(frozen=True, slots=True)
class CountedPods:
    """How many pods, and what share of those that were compared."""

    what: str
    pods: int


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """Everything since the process was started."""

    of: tuple[str, ...]  # spec.schedulerName of the pods
    profile: str
    since_s: float
    at_s: float
    nodes: int
    outcomes: tuple[CountedPods, ...]
    at_bind: int  # of those compared: with every earlier bind counted
    reasons: tuple[tuple[str, str, int], ...]  # outcome, reason, pods
    pending: tuple[CountedPods, ...]  # pods that have no node, by our choice
    followed: tuple[tuple[NodeSignal, Worse, int], ...]
    window_s: float
    waiting_to_follow: int
    judged: int
    judging_cpu_s: float
    share: float  # of one core, that judging may take
    put_off: int  # judgements for which there was no CPU time left
    forgotten: int  # pods beyond the most that are remembered
    differences: tuple[Difference, ...]  # the newest, the last one first
    came: tuple[Followed, ...]  # likewise
    nominations: tuple[CountedPods, ...] = ()  # by `ShadowNomination`
    extenders_left_out: int = 0  # of the configuration: a shadow asks none

    @property
    def compared(self) -> int:
        """Pods of which both choices are known."""
        of = (
            ShadowOutcome.AGREED,
            ShadowOutcome.EQUAL_SCORE,
            ShadowOutcome.OTHER_NODE,
            ShadowOutcome.WOULD_WAIT,
            ShadowOutcome.WOULD_PREEMPT,
        )
        return sum(counted.pods for counted in self.outcomes if counted.what in of)

    @property
    def agreed(self) -> int:
        """Pods on the node that we would have chosen, or on one that is as good by our score."""
        of = (ShadowOutcome.AGREED, ShadowOutcome.EQUAL_SCORE)
        return sum(counted.pods for counted in self.outcomes if counted.what in of)
