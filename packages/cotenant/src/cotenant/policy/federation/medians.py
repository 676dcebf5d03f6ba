"""Weighted medians of what several clusters state, in which none outweighs the others together."""

from __future__ import annotations

from collections.abc import Sequence


def bounded_weights(evidence: Sequence[int], most: int) -> list[int]:
    """A cluster's weight is its evidence, at most `most`, and less than that of all others together where there are
    three or more: then one that lies cannot move a median beyond what the others state. Of two, each decides half.
    """
    weights = [min(one, most) for one in evidence]
    if len(weights) > 1:  # only the largest can outweigh the rest
        at = max(range(len(weights)), key=weights.__getitem__)
        others = sum(weights) - weights[at]
        weights[at] = min(weights[at], others - 1 if len(weights) > 2 else others)
    return weights


def weighted_median(values: Sequence[int], weights: Sequence[int]) -> int:
    """The value in the middle of the weight, between two of them their mean. Weights are positive. It does not fall
    where no value falls, so medians of ordered quantiles are ordered.
    """
    ordered = sorted(zip(values, weights, strict=True))
    return (_half_way(ordered) + _half_way(ordered[::-1])) // 2


def upper_median(values: Sequence[int], weights: Sequence[int]) -> int:
    """The same, between two the larger one."""
    return _half_way(sorted(zip(values, weights, strict=True), reverse=True))


def _half_way(ordered: Sequence[tuple[int, int]]) -> int:
    """The first value up to which at least half of the weight lies."""
    total, so_far = sum(weight for _, weight in ordered), 0
    for value, weight in ordered:
        so_far += weight
        if 2 * so_far >= total:
            return value
    raise AssertionError("weights are positive")
