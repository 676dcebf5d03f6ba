"""Causes of a service's trouble, and those that are no pod's and are tested before any pod is looked at.

The service's own quota, a card that failed, and a service that it calls: where one of them explains the trouble, a
limit on a neighbour would cost work and help nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.machine.node_decision import DecisionTerm
from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.attribution.activity import mean
from cotenant.policy.interference.attribution.cards import faults
from cotenant.policy.interference.attribution.evidence import Split
from cotenant.policy.interference.attribution.settings import AttributionSettings, EvidenceSignal


class TroubleCause(StrEnum):
    """Causes of a service's trouble."""

    POD = "pod"  # a co-located pod, which is named
    OWN_LOAD = "own-load"
    OWN_QUOTA = "own-quota"
    OWN_CARD = "own-card"  # a GPU that it has failed
    CALLEE = "callee"  # a service that it calls
    OUTSIDE = "outside"  # work outside the pods, or the hypervisor
    UNKNOWN = "unknown"  # not enough evidence for any


@dataclass(frozen=True, slots=True)
class CandidateCause:
    """One candidate: a pod, or a cause that is no pod."""

    cause: TroubleCause
    uid: str  # of the pod; "" for other causes
    name: str  # namespace/name of the pod, else the cause
    confidence_ppm: int
    evidence: tuple[DecisionTerm, ...] = ()  # share by signal, ppm
    workload: str = (
        ""  # the candidate is all best-effort pods of this workload; `uid` and `name` are the most active one's
    )
    by_disk: bool = False  # the larger part of its share is explained by what it reads and writes
    by_card: str = ""  # ... or by what it takes of the service's cards: on which path most
    owner: str = ""  # of a best-effort pod that is meant alone: what made it, "Job shop/hogs"

    @property
    def identity(self) -> str:
        """The workload, where it is one, else the pod's uid."""
        return self.workload or self.uid

    @property
    def called(self) -> str:
        """For people."""
        return self.workload or (f"{self.name} of {self.owner}" if self.owner else self.name)


def own_quota(parts: Split, settings: AttributionSettings) -> CandidateCause | None:
    """Its own quota, where it throttled the service."""
    throttled = round(mean([float(sample.throttled_ppm) for _, sample in parts.bad]))
    if throttled < settings.own_throttled_ppm:
        return None
    share = sum(sample.throttled_ppm >= settings.own_throttled_ppm for _, sample in parts.bad) * PPM // len(parts.bad)
    return CandidateCause(
        TroubleCause.OWN_QUOTA, "", "its own quota", share, (DecisionTerm("throttled", throttled, "ppm"),)
    )


def own_card(parts: Split) -> CandidateCause | None:
    """A card that the service had in the window, and that failed since. A reading without any card says nothing."""
    last = parts.bad[-1][0]
    had = {card.uuid for sample, _ in parts.pairs for card in sample.cards if parts.uid in card.uids}
    failed = faults(last.cards, had) if last.cards else ()
    return CandidateCause(TroubleCause.OWN_CARD, "", "; ".join(failed), PPM) if failed else None


def called(parts: Split, settings: AttributionSettings) -> CandidateCause | None:
    """A called service, where the service's own time explains too little of the excess latency."""
    if parts.signal is not EvidenceSignal.LATENCY:
        return None
    pairs = [
        (sample, own) for _, sample in parts.bad if (own := sample.levels.get(EvidenceSignal.SELF_TIME)) is not None
    ]
    if not pairs:
        return None
    before = [
        (sample, own) for _, sample in parts.calm if (own := sample.levels.get(EvidenceSignal.SELF_TIME)) is not None
    ]
    own_excess = mean([float(own) for _, own in pairs]) - mean([float(own) for _, own in before])
    excess = mean([float(sample.levels[EvidenceSignal.LATENCY]) for sample, _ in pairs]) - mean(
        [float(sample.levels[EvidenceSignal.LATENCY]) for sample, _ in before]
    )
    share = max(0.0, own_excess) / excess if excess > 0 else 1.0
    if share * PPM >= settings.own_time_ppm:
        return None
    terms = (DecisionTerm("own time", round(share * PPM), "ppm"),)
    return CandidateCause(TroubleCause.CALLEE, "", "a service that it calls", round((1 - share) * PPM), terms)
