"""What several clusters learned of the use of one kind of nodes, as one.

Each figure by itself is the weighted median of the clusters' figures: the usual hours of a day and a week, and of each
horizon the quantiles of errors. A cluster's weight is the hours of its series, at most those of the cluster in the
middle, and less than that of all others together (`bounded_weights`). Fewer than `LEAST_CLUSTERS` give nothing: of
three one that lies moves no figure beyond what the others state, of two it would decide half. A bound that is too low
evicts pods and one that is too high lends less, so between two middle ones the larger error counts.
Limits: a horizon that fewer than half of the weight, or than `LEAST_CLUSTERS`, state is left out. Clusters that lie
together with half of the weight decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median_low

from cotenant.model.prediction.shared_use import MAX_FORECASTS, HorizonEvidence, UseEvidence
from cotenant.policy.federation.medians import bounded_weights, upper_median, weighted_median

MAX_HOURS = 10_000
LEAST_CLUSTERS = 3


def predicted_together(name: str, told: Sequence[UseEvidence]) -> UseEvidence:
    """One evidence of those that different clusters have; one that only asks where they are too few."""
    learned = [one for one in told if one.hours]
    if len(learned) < LEAST_CLUSTERS:
        return UseEvidence(name)
    hours = [one.hours for one in learned]
    weights = bounded_weights(hours, min(MAX_HOURS, median_low(hours)))
    stated = sorted({one.hours for found in learned for one in found.horizons})
    horizons = (_horizon(hours, learned, weights) for hours in stated)

    def each(part: Callable[[UseEvidence], Sequence[int]]) -> tuple[int, ...]:
        return tuple(weighted_median(values, weights) for values in zip(*map(part, learned), strict=True))

    found = tuple(one for one in horizons if one is not None)
    if not found:
        return UseEvidence(name)
    return UseEvidence(
        name,
        min(MAX_HOURS, sum(weights)),
        each(lambda one: one.day_ppm),
        each(lambda one: one.week_ppm),
        each(lambda one: (one.trust_ppm,))[0],
        found,
        len(learned),
    )


def _horizon(hours: int, learned: Sequence[UseEvidence], weights: Sequence[int]) -> HorizonEvidence | None:
    both = [
        (horizon, weight)
        for found, weight in zip(learned, weights, strict=True)
        for horizon in found.horizons
        if horizon.hours == hours
    ]
    known = [weight for _, weight in both]
    if len(known) < LEAST_CLUSTERS or 2 * sum(known) < sum(weights):
        return None

    def middle(part: Callable[[HorizonEvidence], int]) -> int:
        return weighted_median([part(one) for one, _ in both], known)

    def larger(part: Callable[[HorizonEvidence], int]) -> int:
        return upper_median([part(one) for one, _ in both], known)

    quantiles = zip(*(one.quantiles_ppm for one, _ in both), strict=True)
    return HorizonEvidence(
        hours,
        min(MAX_FORECASTS, sum(one.forecasts for one, _ in both)),
        middle(lambda one: one.carry_ppm),
        middle(lambda one: one.excess_ppm),
        larger(lambda one: one.error_ppm),
        larger(lambda one: one.size_ppm),
        tuple(upper_median(values, known) for values in quantiles),
    )
