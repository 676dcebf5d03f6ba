"""The CPU check of nodes with amplified capacity: exclusive CPUs count as CPUs times the ratio, in capacity and in
requests.

A node of ratio 1.5 advertises 48 CPUs for 32; three pods with 8 exclusive CPUs each leave 12 of the 48, not 24. What
holders of exclusive CPUs take beside their requests is withheld from the node's capacity (nodes.py), so the plain sum
is right for every other pod; here the request of a pod with exclusive CPUs is amplified too. Memory is not exclusive:
its advertised amount is right as it is, and only NUMA nodes are amplified (policy/placement/cpus/numa_amounts.py).
Limits: exclusive CPUs of a nominated pod count as its request.

Source: Koordinator, NodeNUMAResource (amplification).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.rules.cpus.nodes import CpuNodes
from cotenant.model.arrays import CPU, Int, Mask
from cotenant.model.cpus.amplification import amplified
from cotenant.policy.placement.cpus.amplification import INSUFFICIENT_AMPLIFIED, amplified_fit
from cotenant.policy.placement.preemption import UNLIMITED, ConstraintColumn
from cotenant.policy.placement.refusal import Refusal


def short_of_amplified(plugin: str, nodes: CpuNodes, cpu_m: int) -> Iterator[RuleResult]:
    """Refuse those of the amplified nodes that lack room for `cpu_m` milli-CPU of exclusive CPUs."""
    table = nodes.encoder.nodes()
    figures: dict[int, Refusal] = {}
    for row, ratio_ppm in _rows(nodes):
        left_m, requested_m = int(table.capacity[row, CPU]), int(table.requested[row, CPU])
        refusal = amplified_fit(cpu_m, True, left_m, requested_m, 0, ratio_ppm)
        if refusal is not None:
            figures[row] = refusal
    if figures:
        left = np.ones(len(table.ready), dtype=np.bool_)
        left[list(figures)] = False
        yield RuleResult(plugin, INSUFFICIENT_AMPLIFIED, left, True, partial(_least, figures))


def amplified_column(nodes: CpuNodes, cpu_m: int, pods: Int) -> Iterator[ConstraintColumn]:
    """What each of `pods[V]` frees on an amplified node: its request, and for exclusive CPUs the ratio's part of
    them.
    """
    if not nodes.amplified:
        return
    encoder = nodes.encoder
    table, withheld_m = encoder.nodes(), encoder.withheld_m()
    limit = np.full(len(table.ready), UNLIMITED, dtype=np.int64)
    for row, ratio_ppm in _rows(nodes):
        limit[row] = table.capacity[row, CPU] + withheld_m[row] - amplified(cpu_m, ratio_ppm)
    surplus_m = {number: account.surplus_m(number) for account in nodes.accounts.values() for number in account.claims}
    request = encoder.shapes().request[:, CPU]
    weight = [int(request[encoder.shape_of(pod)]) + surplus_m.get(pod, 0) for pod in pods.tolist()]
    yield ConstraintColumn(
        INSUFFICIENT_AMPLIFIED, table.requested[:, CPU] + withheld_m, limit, np.array(weight, dtype=np.int64)
    )


def _rows(nodes: CpuNodes) -> Iterator[tuple[int, int]]:
    """Each amplified row with its ratio."""
    for name in nodes.amplified:
        row = nodes.encoder.node_rows.get(name)
        if row is not None:
            yield row, nodes.accounts[name].ratios.cpu_ppm


def _least(figures: Mapping[int, Refusal], refused: Mask) -> str:
    """Figures of the refused row with the smallest shortage."""
    found = [refusal for row, refusal in figures.items() if refused[row]]
    return min(found, key=lambda refusal: (refusal.missing, refusal.nearest)).nearest if found else ""
