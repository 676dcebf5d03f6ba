"""Who disturbs a service on a GPU: a pod and the path on which it does, the service itself, or nobody that is known.

As on the CPU, all candidates are fitted together to the service's excess, so that an innocent pod explains only what
the others leave, and the service's own activity is a candidate as well. A pod is named where its share of the excess
and its lead are sufficient. A path that was not measured is said with its reason, and where what was measured explains
too little, the verdict is that it cannot be known here: a neighbour that nobody measures is not acquitted, nor is
somebody else blamed for it.
Limits: linear in the activity, while a card's queue is not; a pod that takes two paths at once is named by the larger;
pods that are always active together are not told apart; an innocent whose activity follows the culprit's by chance is
blamed at times (`tests/unit/policy/interference/test_cards.py` has how often).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import log
from statistics import fmean, pstdev

from cotenant.model.devices.card_sample import CardPath, CardSample
from cotenant.policy.interference.attribution.regression import explained, nonnegative_fit

_GOOD_MILLI = 1000  # a level up to here meets the objective
_MAX_RELUCTANCE = 25.0


class CardCause(StrEnum):
    """Why the service is slow."""

    POD = "pod"
    OWN_LOAD = "own load"
    UNKNOWN = "unknown"  # all paths were measured, and nothing on them explains it
    NOT_MEASURABLE = "not measurable"  # what was measured does not explain it, and not all was
    TOO_FEW = "too few samples"
    NO_TROUBLE = "no trouble"


@dataclass(frozen=True, slots=True)
class CardSettings:
    """What is sufficient. Confidence and lead are shares of the excess, thousandths."""

    min_calm: int = 8  # samples that meet the objective
    min_bad: int = 4  # and that do not
    min_confidence_permille: int = 500
    min_lead_permille: int = 250
    min_rise_sigmas: float = 1.0  # of a candidate's activity, over its scatter in calm samples


@dataclass(frozen=True, slots=True)
class CardCandidate:
    """One pod on one path."""

    pod: str
    path: CardPath
    share_permille: int  # of the excess that its activity explains
    calm: int  # its mean activity in calm samples, and in bad ones
    bad: int


@dataclass(frozen=True, slots=True)
class CardVerdict:
    """The answer. `pod` and `path` only with `CardCause.POD`."""

    cause: CardCause
    text: str
    pod: str = ""
    path: CardPath | None = None
    confidence_permille: int = 0
    candidates: tuple[CardCandidate, ...] = ()  # the likeliest first
    gaps: tuple[str, ...] = ()  # paths that were not measured, and why


def who_disturbs(service: str, samples: Sequence[CardSample], settings: CardSettings) -> CardVerdict:
    """The cause of the service's trouble over these samples, oldest first."""
    gaps = _gaps(samples)
    calm = [at for at, sample in enumerate(samples) if sample.level_milli <= _GOOD_MILLI]
    bad = [at for at, sample in enumerate(samples) if sample.level_milli > _GOOD_MILLI]
    if not bad:
        return CardVerdict(CardCause.NO_TROUBLE, f"{service} meets its objective in all {len(samples)} samples")
    if len(calm) < settings.min_calm or len(bad) < settings.min_bad:
        text = (
            f"{len(calm)} samples in which {service} meets its objective and {len(bad)} in which it does not: at least "
            f"{settings.min_calm} and {settings.min_bad} are needed"
        )
        return CardVerdict(CardCause.TOO_FEW, text, gaps=gaps)
    candidates = _candidates(service, samples, calm, bad, settings)
    by_pod: dict[str, int] = {}
    for candidate in candidates:
        by_pod[candidate.pod] = by_pod.get(candidate.pod, 0) + candidate.share_permille
    ranked = sorted(by_pod, key=lambda pod: (-by_pod[pod], pod))
    if not ranked or by_pod[ranked[0]] < settings.min_confidence_permille:
        return _unknown(service, candidates, gaps)
    first, confidence = ranked[0], by_pod[ranked[0]]
    if first == service:
        text = f"{service} is slow when it works more itself: {confidence / 10:.0f} % of the excess"
        return CardVerdict(CardCause.OWN_LOAD, text, "", None, confidence, candidates, gaps)
    if len(ranked) > 1 and confidence - by_pod[ranked[1]] < settings.min_lead_permille:
        return _unknown(service, candidates, gaps)
    best = next(candidate for candidate in candidates if candidate.pod == first)
    text = (
        f"{first} by {best.path}: {confidence / 10:.0f} % of what {service} is slower follows its activity, "
        f"{best.calm} before and {best.bad} during"
    )
    return CardVerdict(CardCause.POD, text, first, best.path, confidence, candidates, gaps)


def _candidates(
    service: str, samples: Sequence[CardSample], calm: Sequence[int], bad: Sequence[int], settings: CardSettings
) -> tuple[CardCandidate, ...]:
    """All that became more active, with their shares of the excess."""
    target = _from_calm([log(max(1, sample.level_milli) / _GOOD_MILLI) for sample in samples], calm)
    excess = _mean_at(target, bad)
    names: list[tuple[str, CardPath]] = []
    columns: list[list[float]] = []
    for path in CardPath:
        if any(path not in sample.use for sample in samples):
            continue
        for pod in sorted({pod for sample in samples for pod in sample.use[path]}):
            column = [float(sample.use[path].get(pod, 0)) for sample in samples]
            scatter = pstdev(column[at] for at in calm)
            if _mean_at(column, bad) - _mean_at(column, calm) > settings.min_rise_sigmas * scatter / len(bad) ** 0.5:
                names.append((pod, path))
                columns.append(column)
    if not columns or excess <= 0:
        return ()
    risen = [_from_calm(column, calm) for column in columns]
    rises = [_mean_at(column, bad) for column in risen]
    coefficients = nonnegative_fit(risen, target, _reluctance(service, names, rises))
    quality = explained(risen, target, coefficients)
    shares = [coefficient * rise / excess for coefficient, rise in zip(coefficients, rises, strict=True)]
    part = quality / max(1.0, sum(shares))
    found = [
        CardCandidate(
            pod, path, round(1000 * share * part), round(_mean_at(column, calm)), round(_mean_at(column, bad))
        )
        for (pod, path), column, share in zip(names, columns, shares, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (-one.share_permille, one.pod, one.path)))


def _reluctance(service: str, names: Sequence[tuple[str, CardPath]], rises: Sequence[float]) -> list[float]:
    """Pods that rise together on a path are told apart by how much they rose there."""
    most: dict[CardPath, float] = {}
    for (pod, path), rise in zip(names, rises, strict=True):
        if pod != service:
            most[path] = max(most.get(path, 0.0), rise)
    return [
        1.0 if pod == service else min(_MAX_RELUCTANCE, (most[path] / rise) ** 2)
        for (pod, path), rise in zip(names, rises, strict=True)
    ]


def _unknown(service: str, candidates: tuple[CardCandidate, ...], gaps: tuple[str, ...]) -> CardVerdict:
    best = candidates[0] if candidates else None
    nearest = "" if best is None else f"; the nearest, {best.pod} by {best.path}, {best.share_permille / 10:.0f} %"
    if gaps:
        text = f"not measurable here: what was measured does not explain why {service} is slow{nearest}"
        return CardVerdict(CardCause.NOT_MEASURABLE, text, candidates=candidates, gaps=gaps)
    text = f"nothing that was measured explains why {service} is slow{nearest}"
    return CardVerdict(CardCause.UNKNOWN, text, candidates=candidates)


def _gaps(samples: Sequence[CardSample]) -> tuple[str, ...]:
    """Each path that some sample lacks, with the last reason that was given."""
    reasons: Mapping[CardPath, str] = {path: why for sample in samples for path, why in sample.gaps.items()}
    lacking = [path for path in CardPath if any(path not in sample.use for sample in samples)]
    return tuple(f"{path}: {reasons.get(path) or 'not in every sample'}" for path in lacking)


def _from_calm(values: Sequence[float], calm: Sequence[int]) -> list[float]:
    base = _mean_at(values, calm)
    return [value - base for value in values]


def _mean_at(values: Sequence[float], places: Sequence[int]) -> float:
    return fmean(values[at] for at in places)
