"""Narrowing and score: affinity between pods over a topology key, and what all preferred terms together are worth.

Problem: a pod may need company (required affinity) in a topology domain; and its own and its neighbours' preferences must become one
score. Choice: as for anti-affinity, a count per node of the pods that matter, summed per domain, then a mask or a value for rows.
Required affinity counts the pods that *all* of the newcomer's required terms select; where no such pod is anywhere, a pod that its own
terms select may start the group. A row that lacks a topology key is refused.
Source: Kubernetes' InterPodAffinity plugin (filter and score; hardPodAffinityWeight 1). Limits: the caller counts anew after each placement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.topology import Domains

REASON = "node(s) didn't match pod affinity rules"
HARD_WEIGHT = 1  # a resident's required affinity term that selects the newcomer likes it this much


def mask(all_domains: Sequence[Domains], matching: Int, selects_itself: bool) -> Mask:
    """`bool[N]`: rows where every term (`all_domains`, one a term) finds company among `matching[N]` pods."""
    with_keys = np.ones(len(matching), dtype=np.bool_)
    company = with_keys.copy()
    somebody = False
    for domains in all_domains:
        totals = domains.total(matching)
        somebody = somebody or bool(totals.any())
        with_keys &= domains.of_node >= 0
        company &= domains.spread_out(totals) > 0
    return with_keys if selects_itself and not somebody else company


def liking(domains: Domains, matching: Int, weight: int, rows: Int) -> Int:
    """`int64[len(rows)]`: `weight` for each of the `matching[N]` pods in a row's domain; a negative weight is a dislike."""
    return weight * domains.spread_out(domains.total(matching))[rows]


def score(total: Int) -> Float:
    """`float64[len(rows)]`, whole 0..100: 100 for the row with the highest total of `liking`, 0 for the lowest; 0 where all are equal."""
    if len(total) == 0 or int(total.max()) == int(total.min()):
        return np.zeros(len(total))
    smallest = int(total.min())
    return np.floor(100.0 * ((total - smallest) / (int(total.max()) - smallest)))
