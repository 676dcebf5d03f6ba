"""What the nodes and pods of a copy cost, by the prices that were given. Limits: a node's provider ID is not read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.prices import NodePrice, PricedNode, PriceTable
from cotenant.model.assess.report import Consolidation, Money, Saving, Spending
from cotenant.model.resources import NVIDIA_GPU
from cotenant.policy.assess.money import HOURS_A_MONTH, Bill, PricedNodes, PricedPods, Spend, bill, removed
from cotenant.services.assess.columns import MIB, NodeColumns, RunningColumns
from cotenant.services.assess.copying import ClusterCopy
from cotenant.services.assess.lending import LendingAssessment

SHOWN = 10


def spending(
    table: PriceTable,
    copy: ClusterCopy,
    nodes: NodeColumns,
    pods: RunningColumns,
    use: ClusterHistory,
    lent: LendingAssessment,
    emptied: Consolidation,
) -> Money:
    """A month of everything."""
    cards = np.array([_cards(copy, name) for name in nodes.names], np.float64)
    prices = [
        table.of(PricedNode(name, int(cpu_m), int(memory_mib), int(gpus), dict(_labels(copy, name))))
        for name, cpu_m, memory_mib, gpus in zip(nodes.names, nodes.cpu_m, nodes.memory_mib, cards, strict=True)
    ]
    lendable = [lent.by_node.get(name) for name in nodes.names]
    of_nodes = PricedNodes(
        _column(prices, "core_per_hour"),
        _column(prices, "gib_per_hour"),
        _column(prices, "gpu_per_hour"),
        nodes.cpu_m.astype(np.float64),
        nodes.memory_mib.astype(np.float64),
        cards,
        np.array([amount.cpu_m if amount else 0.0 for amount in lendable], np.float64),
        np.array([amount.memory_bytes / MIB if amount else 0.0 for amount in lendable], np.float64),
    )
    at = {name: row for row, name in enumerate(nodes.names)}
    cpu_used, memory_used = _used(pods, use)
    of_pods = PricedPods(
        np.array([at.get(info.node, -1) for info in pods.entries], np.int64),
        pods.cpu_m.astype(np.float64),
        pods.memory_mib.astype(np.float64),
        np.array([info.seen.pod.requests.get(NVIDIA_GPU) for info in pods.entries], np.float64),
        cpu_used,
        memory_used,
    )

    def by(names: Sequence[str]) -> tuple[Spending, ...]:
        return tuple(map(_of_a_month, bill(of_nodes, of_pods, names).groups[:SHOWN]))

    whole = bill(of_nodes, of_pods, [""] * len(pods.entries))
    per_hour = _column(prices, "per_hour")
    rows = np.array([at[one.node] for one in emptied.emptied if one.node in at], np.int64)
    month = per_hour * HOURS_A_MONTH
    tenants = [info.seen.pod.tenant for info in pods.entries]
    return Money(
        table.currency,
        whole.nodes * HOURS_A_MONTH,
        whole.unpriced_nodes,
        _of_a_month(whole.groups[0] if whole.groups else Spend("", 0, 0.0, 0.0, 0.0, 0.0, 0, 0)),
        whole.free * HOURS_A_MONTH,
        whole.free_lent * HOURS_A_MONTH,
        removed(month, rows),
        by([info.seen.pod.namespace for info in pods.entries]),
        by([tenant or "none named" for tenant in tenants]) if any(tenants) else (),
        by(pods.workload),
        _savings(emptied, at, month, whole),
        table.left_out,
    )


def _savings(emptied: Consolidation, at: Mapping[str, int], month: Float, whole: Bill) -> tuple[Saving, ...]:
    """What each step of the plan saves: the empty nodes, each node that could be emptied, and lending."""
    found = []
    spare = np.array([at[name] for name in emptied.empty_nodes if name in at], np.int64)
    if len(spare):
        title = f"remove {len(spare):,} {'node' if len(spare) == 1 else 'nodes'} without pods to move"
        found.append(Saving(title, float(np.nansum(month[spare])), "they hold nothing that would have to move"))
    for one in emptied.emptied:
        price = month[at[one.node]] if one.node in at else np.nan
        if np.isfinite(price):
            how = f"move {one.pods:,} {'pod' if one.pods == 1 else 'pods'} to {one.targets:,} other nodes, remove it"
            found.append(Saving(f"empty {one.node}", float(price), how))
    lent = (sum(group.lent for group in whole.groups) + whole.free_lent) * HOURS_A_MONTH
    if lent > 0:
        how = "no node is saved by it: the price of what batch pods would otherwise need nodes of their own for"
        found.append(Saving("lend at the stated risk", lent, how))
    return tuple(found)


def _of_a_month(spend: Spend) -> Spending:
    paid, used, idle, lent = (amount * HOURS_A_MONTH for amount in (spend.paid, spend.used, spend.idle, spend.lent))
    return Spending(spend.name, spend.pods, paid, used, idle, lent, spend.unmeasured, spend.unpriced)


def _cards(copy: ClusterCopy, name: str) -> int:
    node = copy.engine.node(name)
    return node.allocatable.get(NVIDIA_GPU) if node is not None else 0


def _labels(copy: ClusterCopy, name: str) -> Sequence[tuple[str, str]]:
    node = copy.engine.node(name)
    return node.labels.items if node is not None else ()


def _column(prices: Sequence[NodePrice | None], name: str) -> Float:
    return np.array([np.nan if price is None else getattr(price, name) for price in prices], np.float64)


def _used(pods: RunningColumns, use: ClusterHistory) -> tuple[Float, Float]:
    """Means over the history; NaN where nothing is known."""
    of = use.pods.use
    row = {name: number for number, name in enumerate(of.names)}
    found = np.array([row.get(info.seen.pod.key, -1) for info in pods.entries], np.int64)
    means = []
    for values in (of.cpu_m, of.memory_mib):
        if not len(of.names) or not values.shape[1]:
            means.append(np.full(len(found), np.nan))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of pods without one known value
            mean = np.asarray(np.nanmean(values, axis=1, dtype=np.float64))
        means.append(np.where(found >= 0, mean[found], np.nan))
    return means[0], means[1]
