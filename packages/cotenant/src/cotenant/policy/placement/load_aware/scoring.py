"""Score: the lower a node's use would be, the better, 0 to 100.

A resource's score is its remaining share in whole percent, a node's the weighted mean, to which the scarcest resource
may be added with its own weight.
Limits: a node of unknown use, or with an expired metric, has 0 and is used last.
Source: Koordinator, the load-aware plugin's Score.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.machine.node_metric import Use
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.load_aware.usage import UsageView

MOST = 100


def look_for(is_prod: bool, settings: LoadAwareSettings) -> UsageView:
    """The view of a node's use that the score applies to."""
    if is_prod and settings.scores_by_prod:
        return UsageView(production=True)
    return UsageView(percentile=settings.percentiles.score_by if settings.percentiles is not None else None)


def score(allocatable: Use, total: Use, settings: LoadAwareSettings) -> int:
    """The score of a node that would use `total`."""
    worth = weight = 0
    least = MOST
    for has, uses, counts in zip(allocatable, total, settings.weights, strict=True):
        left = (has - uses) * MOST // has if has > 0 and uses <= has else 0
        worth += counts * left
        weight += counts
        if counts or settings.dominant_weight:
            least = min(least, left)
    worth += settings.dominant_weight * least
    weight += settings.dominant_weight
    return worth // weight if weight else 0


def score_rows(allocatable: Int, total: Int, settings: LoadAwareSettings) -> Int:
    """`score` over rows, both `[N, 2]`."""
    worth = np.zeros(len(allocatable), dtype=np.int64)
    least = np.full(len(allocatable), MOST, dtype=np.int64)
    weight = sum(settings.weights) + settings.dominant_weight
    if not weight:
        return worth
    for resource, counts in enumerate(settings.weights):
        has, uses = allocatable[:, resource], total[:, resource]
        left = np.where((has > 0) & (uses <= has), (has - uses) * MOST // np.maximum(has, 1), 0)
        worth += counts * left
        if counts or settings.dominant_weight:
            least = np.minimum(least, left)
    worth += settings.dominant_weight * least
    return np.asarray(worth // weight)
