"""The answer of attribution for one service in trouble, in words and in terms.

Who reads it is a person with a burning service, or a page: the text says what was measured, against what, over which
part of the trouble, and who is meant by which means, or that no cause is certain and what came first.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.devices.card_sample import CardPath
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_state import PPM, NodeState, PodUse
from cotenant.policy.interference.attribution.causes import CandidateCause, TroubleCause
from cotenant.policy.interference.attribution.evidence import Split
from cotenant.policy.interference.attribution.settings import EvidenceSignal

RULE = "attribution"
_TEXT = {
    EvidenceSignal.SELF_TIME: "p99 of its own time over the objective",
    EvidenceSignal.LATENCY: "p99 over the objective",
    EvidenceSignal.CPI: "cycles per instruction",
    EvidenceSignal.RUN_DELAY: "waiting per CPU time",
    EvidenceSignal.STALL: "stalled share of time",
    EvidenceSignal.IO_STALL: "share of time stalled on a disk",
}
_ON_CARDS = {
    CardPath.SM: "multiprocessors",
    CardPath.MEMORY_BANDWIDTH: "memory bandwidth",
    CardPath.PCIE: "the PCIe root",
}


@dataclass(frozen=True, slots=True)
class Attribution:
    """The answer for one service in trouble. `culprit` is None where no pod is named."""

    victim: str  # uid
    at_us: int
    cause: TroubleCause
    culprit: CandidateCause | None
    candidates: tuple[CandidateCause, ...]  # highest confidence first
    signal: EvidenceSignal  # the one that decides
    level_ppm: int  # its mean over the bad samples
    threshold_ppm: int
    reason: Reason
    since_us: int = 0  # of its bad samples those since then tell of it; 0: all of the present trouble


def answer(
    parts: Split,
    state: NodeState,
    victim: PodUse,
    top: CandidateCause | None,
    candidates: tuple[CandidateCause, ...],
    cause: TroubleCause,
) -> Attribution:
    """The answer by the evidence, in words and terms."""
    signal = _TEXT[parts.signal]
    since_us = _told_since(parts)
    over_us = state.at_us - since_us + parts.bad[0][0].length_us
    last = f", in the last {over_us / 1e6:.0f} s" if since_us else ""
    text = f"{victim.pod.key}: {signal} {parts.level_ppm / PPM:.2f}, threshold {parts.threshold_ppm / PPM:.2f}{last}: "
    terms = [DecisionTerm("signal", parts.level_ppm, "ppm"), DecisionTerm("threshold", parts.threshold_ppm, "ppm")]
    if cause is TroubleCause.UNKNOWN:
        first = (
            f"; first of {len(candidates)} candidates is {top.called} with {top.confidence_ppm / PPM:.2f}"
            if top
            else ""
        )
        gaps = parts.card_gaps()
        text += f"no cause is certain{first}" + (f"; not measured on its cards: {'; '.join(gaps)}" if gaps else "")
    elif top is None:
        text += "its own load grew and no other candidate has evidence"
    else:
        means = _means_text(parts, top)
        text += f"caused by {top.called}{means}, confidence {top.confidence_ppm / PPM:.2f}"
    if top is not None:
        terms += [DecisionTerm("confidence", top.confidence_ppm, "ppm"), *top.evidence]
    growth = parts.growth_ppm()
    if growth is not None:
        terms.append(DecisionTerm("growth of its demand", growth, "ppm"))
    return Attribution(
        victim=victim.pod.uid,
        at_us=state.at_us,
        cause=cause,
        culprit=top if cause is TroubleCause.POD else None,
        candidates=candidates,
        signal=parts.signal,
        level_ppm=parts.level_ppm,
        threshold_ppm=parts.threshold_ppm,
        reason=Reason(RULE, text, tuple(terms)),
        since_us=since_us,
    )


def _means_text(parts: Split, top: CandidateCause) -> str:
    """By what a candidate disturbs, where that is not the CPU."""
    if not top.by_card:
        return " by its use of disks" if top.by_disk else ""
    cards = sorted({card.called for card in parts.bad[-1][0].cards if parts.uid in card.uids})
    return f" by its use of {_ON_CARDS[CardPath(top.by_card)]} of {', '.join(cards)}"


def _told_since(parts: Split) -> int:
    """The first of the bad samples that were asked about, where those before it were not; else 0."""
    return parts.bad[0][0].at_us if parts.earlier else 0
