"""What pods' requests and use cost: paid, used, idle and lent, by tenant, namespace or workload.

    paid    the larger of request and use of each resource, at the price of the node that the pod is on
    used    the mean use, at the same price
    idle    paid - used: asked for and not used
    lent    what of the idle part could be lent at a stated risk: each node's lendable amount over its pods' idle parts
            and over what nobody asked for, in proportion
    free    of the cluster: what nobody asked for, paid all the same

so that paid over all groups + free = the price of all nodes, wherever requests fit their nodes. Amounts are of an hour;
a month is 730. Limits: a pod whose use is unknown counts as wholly used and is counted; one on a node without a price
is left out and counted; cards count as used where they are requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.errors import InvalidInput

HOURS_A_MONTH = 730.0


class PricedNodes(NamedTuple):
    """Nodes, aligned. NaN = no price. `lendable`: at the stated risk."""

    core_per_hour: Float
    gib_per_hour: Float
    gpu_per_hour: Float
    cpu_m: Float
    memory_mib: Float
    gpus: Float
    lendable_cpu_m: Float
    lendable_memory_mib: Float


class PricedPods(NamedTuple):
    """Pods, aligned. `node`: row of its node, -1 = on none. Use NaN = unknown."""

    node: Int
    cpu_request_m: Float
    memory_request_mib: Float
    gpus: Float
    cpu_used_m: Float
    memory_used_mib: Float


@dataclass(frozen=True, slots=True)
class Spend:
    """An hour of one group."""

    name: str
    pods: int
    paid: float
    used: float
    idle: float
    lent: float
    unmeasured: int  # pods that count as wholly used
    unpriced: int  # pods that are left out


@dataclass(frozen=True, slots=True)
class Bill:
    """An hour of all groups, the one that pays most first, and of what nobody asked for."""

    groups: tuple[Spend, ...]
    free: float
    free_lent: float  # of it, what could be lent
    nodes: float  # price of all nodes that have one
    unpriced_nodes: int

    @property
    def paid(self) -> float:
        """Of all groups."""
        return sum(group.paid for group in self.groups)


def bill(nodes: PricedNodes, pods: PricedPods, groups: Sequence[str]) -> Bill:
    """An hour's costs by group, one name a pod."""
    if len(groups) != len(pods.node):
        raise InvalidInput("groups", len(groups), f"one for each of {len(pods.node)} pods")
    priced_node = ~np.isnan(nodes.core_per_hour)
    has_price = (pods.node >= 0) & (priced_node[pods.node] if len(priced_node) else False)
    at = np.where(has_price, pods.node, 0)
    paid, idle = np.zeros(len(at)), np.zeros(len(at))
    lent = np.zeros(len(at))
    free = free_lent = 0.0
    count = len(priced_node)
    resources = (
        (pods.cpu_request_m, pods.cpu_used_m, nodes.cpu_m, nodes.lendable_cpu_m, nodes.core_per_hour / 1000),
        (
            pods.memory_request_mib,
            pods.memory_used_mib,
            nodes.memory_mib,
            nodes.lendable_memory_mib,
            nodes.gib_per_hour / 1024,
        ),
    )
    for requested, used, capacity, lendable, price in resources:
        request = np.nan_to_num(requested)
        held = np.fmax(request, used)  # an unknown use is no more than the request
        idle_amount = np.where(np.isnan(used), 0.0, held - used)
        held, idle_amount = np.where(has_price, held, 0.0), np.where(has_price, idle_amount, 0.0)
        price_of = np.nan_to_num(price)
        held_by_node = np.bincount(at, held, count)
        idle_by_node = np.bincount(at, idle_amount, count)
        unasked = np.where(priced_node, np.maximum(0.0, capacity - held_by_node), 0.0)
        room = idle_by_node + unasked
        share = np.where(room > 0, np.minimum(1.0, np.nan_to_num(lendable) / np.where(room > 0, room, 1.0)), 0.0)
        if count:
            paid += held * price_of[at]
            idle += idle_amount * price_of[at]
            lent += idle_amount * share[at] * price_of[at]
        free += float((unasked * price_of).sum())
        free_lent += float((unasked * share * price_of).sum())
    cards = np.where(has_price, np.nan_to_num(pods.gpus), 0.0)
    if count:
        paid += cards * np.nan_to_num(nodes.gpu_per_hour)[at]
    cards_left = np.maximum(0.0, np.nan_to_num(nodes.gpus) - np.bincount(at, cards, count))
    free += float((np.where(priced_node, cards_left, 0.0) * np.nan_to_num(nodes.gpu_per_hour)).sum())
    whole = (
        nodes.cpu_m * nodes.core_per_hour / 1000
        + nodes.memory_mib * nodes.gib_per_hour / 1024
        + nodes.gpus * nodes.gpu_per_hour
    )
    unmeasured = has_price & (np.isnan(pods.cpu_used_m) | np.isnan(pods.memory_used_mib))
    return Bill(
        _grouped(groups, paid, idle, lent, unmeasured, ~has_price),
        free,
        free_lent,
        float(np.nansum(whole)),
        int((~priced_node).sum()),
    )


def removed(price_per_hour: Float, rows: Int) -> float:
    """What an hour costs less without these nodes; those without a price count nothing."""
    return float(np.nansum(price_per_hour[rows]))


def _grouped(
    groups: Sequence[str], paid: Float, idle: Float, lent: Float, unmeasured: Mask, unpriced: Mask
) -> tuple[Spend, ...]:
    if not groups:
        return ()
    names, row = np.unique(np.array(groups, dtype=np.str_), return_inverse=True)
    pods, cost, unused, could, unknown, left = (
        np.bincount(row, values, len(names)) for values in (np.ones(len(row)), paid, idle, lent, unmeasured, unpriced)
    )
    found = [
        Spend(
            str(name),
            int(pods[i]),
            float(cost[i]),
            float(cost[i] - unused[i]),
            float(unused[i]),
            float(could[i]),
            int(unknown[i]),
            int(left[i]),
        )
        for i, name in enumerate(names)
    ]
    return tuple(sorted(found, key=lambda spend: (-spend.paid, spend.name)))
