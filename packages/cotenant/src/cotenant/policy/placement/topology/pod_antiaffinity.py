"""Narrowing and score: anti-affinity between pods over a topology key.

A pod may forbid certain pods in its topology domain, and existing pods may forbid it; both need the pods of each
domain. One count per node of the relevant pods, summed per domain, then a mask for rows. The same code serves both
directions: for the incoming pod's terms count the pods that each term selects, for existing pods' terms count the pods
that have the term. A row without the topology key is not affected.
Source: Kubernetes' InterPodAffinity plugin.
Limits: as for spread, the caller updates the counts after each placement.
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
    """One term with its counts. D domains."""

    domains: Domains
    pods: Int  # [D] pods that must not, or should not, share the domain
    weight: int = 0  # of a preferred term; 0 = required


def count_rule(domains: Domains, conflicting: Int, weight: int = 0) -> AntiRule:
    """Count `conflicting[N]` pods over the domains."""
    return AntiRule(domains, domains.total(conflicting), weight)


def mask(rule: AntiRule, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows without such a pod in their domain."""
    return np.asarray(_per_row(rule, rows) == 0)


def score(rules: Sequence[AntiRule], rows: Int) -> Float:
    """`float64[len(rows)]`, whole 0..100, over preferred terms: 100 for the row with the least total weight of such
    pods, 0 for the most.
    """
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
