"""Narrowing and score: topology spread constraints.

Whether a row is feasible depends on the number of matching pods in every zone (or rack, or host), so it is not
row-local. Count per domain once, then index by row; the mask narrows the rows before the row-local filters run.
Limits: the caller counts the matching pods per node (running, not terminating, in the pod's namespace), and updates the
counts after each placement.
Source: Kubernetes' PodTopologySpread plugin (filtering: skew against the smallest domain; scoring: log-weighted counts;
its system defaults).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.affinity import NodeInclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from cotenant.model.cluster.labels import HOSTNAME, ZONE
from cotenant.model.cluster.topology import Domains

REASON = "node(s) didn't match pod topology spread constraints"
REASON_NO_KEY = "node(s) didn't match pod topology spread constraints (missing required label)"

# For replicas of a controller that have no constraints; the pods of that controller are counted.
SYSTEM_DEFAULTS = (
    SpreadConstraint(HOSTNAME, None, max_skew=3, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY),
    SpreadConstraint(ZONE, None, max_skew=5, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY),
)


class SpreadRule(NamedTuple):
    """One constraint with its counts. D domains."""

    domains: Domains
    pods: Int  # [D] matching pods
    eligible: Mask  # [D] domains with a node that counts
    max_skew: int
    min_domains: int
    counts_itself: bool  # whether the constraint's selector selects the incoming pod


def eligible_nodes(
    constraint: SpreadConstraint, all_domains: Sequence[Domains], affinity: Mask, tolerated: Mask
) -> Mask:
    """`bool[N]`: nodes that count for a constraint: they have the keys of `all_domains` (the pod's constraints) and
    satisfy its policies.

    `affinity[N]` and `tolerated[N]`: whether the pod's node affinity and tolerations allow the node.
    """
    eligible = np.ones_like(affinity)
    for domains in all_domains:
        eligible &= domains.of_node >= 0
    if constraint.node_affinity_policy is NodeInclusionPolicy.HONOR:
        eligible &= affinity
    if constraint.node_taints_policy is NodeInclusionPolicy.HONOR:
        eligible &= tolerated
    return eligible


def count_rule(
    constraint: SpreadConstraint, domains: Domains, matching: Int, eligible: Mask, counts_itself: bool
) -> SpreadRule:
    """Count `matching[N]` pods over the domains, on the nodes that count."""
    return SpreadRule(
        domains=domains,
        pods=domains.total(matching, eligible),
        eligible=domains.present(eligible),
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        counts_itself=counts_itself,
    )


def has_key(rule: SpreadRule, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows that have the topology key."""
    return np.asarray(rule.domains.of_node[rows] >= 0)


def mask(rule: SpreadRule, rows: Int) -> Mask:
    """`bool[len(rows)]`: rows where one more pod keeps the skew within bounds. Rows without the key are infeasible."""
    known = rule.pods[rule.eligible]
    smallest = 0 if len(known) < max(1, rule.min_domains) else int(known.min())
    allowed = rule.pods + int(rule.counts_itself) - smallest <= rule.max_skew
    domain = rule.domains.of_node[rows]
    answer = np.zeros(len(rows), dtype=np.bool_)
    answer[domain >= 0] = allowed[domain[domain >= 0]]
    return answer


def score(rules: Sequence[SpreadRule], rows: Int, needs_keys: bool = True) -> Float:
    """`float64[len(rows)]`, whole 0..100, over the pod's ScheduleAnyway constraints: the fewer matching pods, the
    higher.

    A domain weighs log(domains + 2), so that a constraint over many domains is not dominated by one over few.
    `needs_keys`: rows without a key have 0; else (the system defaults) a constraint leaves rows without its key out.
    """
    with_keys = np.ones(len(rows), dtype=np.bool_)
    for rule in rules if needs_keys else ():
        with_keys &= has_key(rule, rows)
    result = np.zeros(len(rows))
    if not with_keys.any():
        return result
    cost = np.zeros(int(with_keys.sum()))
    for rule in rules:
        domain = rule.domains.of_node[rows[with_keys]]
        known = domain >= 0
        if known.any():
            count = np.count_nonzero(np.bincount(domain[known]))
            here = rule.pods[domain[known]] * np.log(count + 2.0) + (rule.max_skew - 1)
            cost[known] += here
    whole = np.rint(cost).astype(np.int64)
    largest, smallest = int(whole.max()), int(whole.min())
    result[with_keys] = 100.0 if largest == 0 else 100 * (largest + smallest - whole) // largest
    return result
