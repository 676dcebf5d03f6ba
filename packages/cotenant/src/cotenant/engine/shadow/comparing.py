"""Compares our choice for a pod with the node on which another scheduler has put it, and says what makes the
difference.

Equal scores are agreement: which of them is taken is chance, on both sides. Else it is the first filter that refuses
the real node, or the term of our score by which it falls behind most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from cotenant.engine.shadow.parking import JudgedPod
from cotenant.model.decisions.answers import NodeVerdict
from cotenant.model.decisions.record import CandidateNode
from cotenant.model.decisions.shadow import ShadowChoice, ShadowNomination, ShadowOutcome, ShadowPicture

NOT_EVALUATED = "not_evaluated"  # there was no CPU time left, or the node is not known
BY_THEN = "earlier_picture"  # when it was bound, the real node was the best for us too
EQUAL = 1e-9  # of the larger score


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """The outcome for one bound pod; the rest as in `Difference`."""

    outcome: ShadowOutcome
    reason: str = ""
    words: str = ""
    place: int = 0
    of: int = 0
    behind: float = nan


def at_once(judged: JudgedPod, real: str) -> ShadowComparison | None:
    """What the choice alone tells; None = the real node must be evaluated."""
    if judged.choice is ShadowChoice.NOT_JUDGED:
        return ShadowComparison(ShadowOutcome.NOT_JUDGEABLE, words=judged.words)
    if judged.choice is not ShadowChoice.PLACES:
        return None
    if judged.node == real:
        return ShadowComparison(ShadowOutcome.AGREED, behind=0.0)
    scores = {candidate.node: candidate.score for candidate in judged.best}
    if real in scores and judged.node in scores and _equal(scores[real], scores[judged.node]):
        return ShadowComparison(ShadowOutcome.EQUAL_SCORE, behind=0.0)
    return None


def evaluated(
    judged: JudgedPod, real: str, found: tuple[NodeVerdict, Sequence[CandidateNode]] | None, picture: ShadowPicture
) -> ShadowComparison:
    """The comparison where `at_once` does not suffice. `found`: what filters and scores say of the real node, and the
    best nodes, None = it was not evaluated.
    """
    outcome = {
        ShadowChoice.PLACES: ShadowOutcome.OTHER_NODE,
        ShadowChoice.PREEMPTS: ShadowOutcome.WOULD_PREEMPT,
        ShadowChoice.WAITS: ShadowOutcome.WOULD_WAIT,
        ShadowChoice.NOT_JUDGED: ShadowOutcome.NOT_JUDGEABLE,
    }[judged.choice]
    if found is None:
        refused_by = judged.plugins[0] if judged.plugins else NOT_EVALUATED
        return ShadowComparison(outcome, refused_by, judged.words)
    verdict, best = found
    if verdict.refusals:
        first = verdict.refusals[0]
        missing = f" ({first.missing})" if first.missing else ""
        more = f", and {len(verdict.refusals) - 1} more filters" if len(verdict.refusals) > 1 else ""
        return ShadowComparison(outcome, first.plugin, f"{real} is refused: {first.reason}{missing}{more}")
    if judged.choice is not ShadowChoice.PLACES or verdict.candidate is None or not best:
        return ShadowComparison(outcome, judged.plugins[0] if judged.plugins else NOT_EVALUATED, judged.words)
    if verdict.place == 1 and picture is ShadowPicture.EARLIER:
        words = f"when it was bound, {real} was the best for us too"
        return ShadowComparison(outcome, BY_THEN, words, verdict.place, verdict.of, 0.0)
    own = next((candidate for candidate in best if candidate.node == judged.node), best[0])
    behind = own.score - verdict.candidate.score
    if behind <= 0.0 or _equal(own.score, verdict.candidate.score):
        return ShadowComparison(ShadowOutcome.EQUAL_SCORE, behind=0.0, place=verdict.place, of=verdict.of)
    reason, words = _terms(own, verdict.candidate, behind)
    return ShadowComparison(outcome, reason, words, verdict.place, verdict.of, behind)


def nominated(judged: JudgedPod | None, node: str) -> ShadowNomination:
    """Our choice beside the other scheduler's nomination for a node."""
    if judged is None or judged.choice is ShadowChoice.NOT_JUDGED:
        return ShadowNomination.NOT_JUDGED
    if judged.choice is ShadowChoice.PREEMPTS:
        return ShadowNomination.SAME_NODE if judged.node == node else ShadowNomination.OTHER_NODE
    return ShadowNomination.WOULD_PLACE if judged.choice is ShadowChoice.PLACES else ShadowNomination.WOULD_WAIT


def _terms(own: CandidateNode, real: CandidateNode, behind: float) -> tuple[str, str]:
    """The term that decides, and the sentence with the largest three."""
    others = {part.name: part.value for part in real.parts}
    gaps = sorted(((part.value - others.get(part.name, 0.0), part.name) for part in own.parts), key=lambda gap: -gap[0])
    named = ", ".join(f"{value:+.4g} {name}" for value, name in gaps[:3] if abs(value) > EQUAL)
    words = f"{own.node} is ahead of {real.node} by {behind:.4g}"
    return (gaps[0][1] if gaps else "score"), f"{words}: {named}" if named else words


def _equal(one: float, other: float) -> bool:
    return abs(one - other) <= EQUAL * max(1.0, abs(one), abs(other))
