"""Narrowing and score: affinity between pods over a topology key, and the combined score of all preferred terms.

A pod may require other pods (required affinity) in its topology domain; and its own preferences and those of existing
pods must become one score. As for anti-affinity, a count per node of the relevant pods, summed per domain, then a mask
or a value for rows. Required affinity counts the pods that *all* required terms of the incoming pod select; where no
such pod exists anywhere, a pod that its own terms select may start the group. A row that lacks a topology key is
infeasible.
Source: Kubernetes' InterPodAffinity plugin (filter and score; hardPodAffinityWeight 1).
Limits: the caller updates the counts after each placement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.topology import Domains

REASON = "node(s) didn't match pod affinity rules"
HARD_WEIGHT = 1  # weight of an existing pod's required affinity term that selects the incoming pod


def mask(all_domains: Sequence[Domains], matching: Int, selects_itself: bool) -> Mask:
    """`bool[N]`: rows where every term (`all_domains`, one per term) finds a pod among `matching[N]`."""
    with_keys = np.ones(len(matching), dtype=np.bool_)
    satisfied = with_keys.copy()
    any_match = False
    for domains in all_domains:
        totals = domains.total(matching)
        any_match = any_match or bool(totals.any())
        with_keys &= domains.of_node >= 0
        satisfied &= domains.spread_out(totals) > 0
    return with_keys if selects_itself and not any_match else satisfied


def preference_score(domains: Domains, matching: Int, weight: int, rows: Int) -> Int:
    """`int64[len(rows)]`: `weight` for each of the `matching[N]` pods in a row's domain; negative for anti-affinity."""
    return weight * domains.spread_out(domains.total(matching))[rows]


def score(total: Int) -> Float:
    """`float64[len(rows)]`, whole 0..100: 100 for the row with the highest total of `preference_score`, 0 for the
    lowest; 0 where all are equal.
    """
    if len(total) == 0 or int(total.max()) == int(total.min()):
        return np.zeros(len(total))
    smallest = int(total.min())
    return np.floor(100.0 * ((total - smallest) / (int(total.max()) - smallest)))
