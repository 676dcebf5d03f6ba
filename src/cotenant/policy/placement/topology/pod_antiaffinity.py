"""Narrowing and score: anti-affinity between pods over a topology key.

Problem: a pod may forbid certain neighbours in its zone, and neighbours may forbid it; both need to know who sits in each domain.
Choice: one count per node of the pods that matter, summed per domain, then a mask for rows. The same code answers both directions: for
the newcomer's terms count the pods each term selects, for residents' terms count the residents that have the term. A row without the
topology key is free of it. Source: Kubernetes' InterPodAffinity plugin. Limits: as for spread, the caller counts anew after each placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.topology import Domains

REASON = "node(s) didn't match pod anti-affinity rules"
REASON_RESIDENTS = "node(s) didn't satisfy existing pods anti-affinity rules"


class AntiRule(NamedTuple):
    """One term, counted. D domains."""

    domains: Domains
    pods: Int  # [D] pods that must not, or had better not, share the domain
    weight: int = 0  # of a preferred term; 0 = required


def count_rule(domains: Domains, conflicting: Int, weight: int = 0) -> AntiRule:
    """Count `conflicting[N]` pods over the domains."""
    return AntiRule(domains, domains.total(conflicting), weight)


def mask(rule: AntiRule, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows in whose domain no such pod sits."""
    return np.asarray(_per_row(rule, rows) == 0)


def score(rules: Sequence[AntiRule], rows: Int) -> Float:
    """`float64[len(rows)]`, whole 0..100, over preferred terms: 100 for the row with the least weight of such pods, 0 for the most."""
    cost = np.zeros(len(rows), dtype=np.int64)
    for rule in rules:
        cost += rule.weight * _per_row(rule, rows)
    largest, smallest = int(cost.max(initial=0)), int(cost.min()) if len(cost) else 0
    if largest == smallest:
        return np.zeros(len(rows))
    return np.floor(100.0 * (largest - cost) / (largest - smallest))


def _per_row(rule: AntiRule, rows: Int) -> Int:
    domain = rule.domains.of_node[rows]
    found = np.zeros(len(rows), dtype=np.int64)
    found[domain >= 0] = rule.pods[domain[domain >= 0]]
    return found
