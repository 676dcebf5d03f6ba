"""What a pod needs of a card, from readings over time: the means of its multiprocessors and memory bandwidth.

Placement adds needs up over a card, so they are means: peaks of several pods seldom fall together, and where they do
the guard of the objective is there for it. A reading in which a path was not measured says nothing about it.
Limits: a pod that was slowed by its neighbours looks smaller than it is: take readings while it has its card alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from cotenant.model.devices.card_need import PERCENT, CardNeed
from cotenant.model.devices.card_sample import CardPath, CardSample
from cotenant.model.errors import InvalidInput

MIN_READINGS = 8


@dataclass(frozen=True, slots=True)
class MeasuredNeed:
    """A need, and from how many readings each of its parts is."""

    need: CardNeed
    of_sm: int
    of_bandwidth: int


def measured_need(samples: Sequence[CardSample], pod: str, cards: int = 1) -> MeasuredNeed:
    """The need of each of the pod's cards. Raises `InvalidInput` where too little was measured."""
    sm = _used(samples, pod, CardPath.SM)
    bandwidth = _used(samples, pod, CardPath.MEMORY_BANDWIDTH)
    if max(len(sm), len(bandwidth)) < MIN_READINGS:
        why = next((reason for sample in samples for reason in sample.gaps.values()), "")
        raise InvalidInput("FILE", f"{len(sm)} readings of {pod}", f"{MIN_READINGS} in which it is measured", why)
    need = CardNeed(_percent(sm, cards), _percent(bandwidth, cards))
    if (most := max(need.sm, need.bandwidth)) > PERCENT:
        raise InvalidInput("--cards", cards, f"as many cards as {pod} has", f"it takes {most} % of one")
    return MeasuredNeed(need, len(sm), len(bandwidth))


def _used(samples: Sequence[CardSample], pod: str, path: CardPath) -> list[int]:
    return [sample.use[path][pod] for sample in samples if pod in sample.use.get(path, {})]


def _percent(found: Sequence[int], cards: int) -> int:
    return round(fmean(found) / 10 / cards) if len(found) >= MIN_READINGS else 0
