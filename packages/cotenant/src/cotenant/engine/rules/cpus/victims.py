"""The holders that block a pod on the CPUs and NUMA nodes of nodes, for the choice of preemption victims.

Whether evictions free whole cores, CPUs away from other pods, or one NUMA node with devices depends on which pods leave
together. Whether the pod fits without some residents is judged on the node's account without their claims
(`CpuVacate`), under a NUMA policy with the hints of the other node rules without the same residents. The column is a
necessary condition: own CPUs, counted; it orders the nodes by likely cost.
Limits: CPUs of pods without own CPUs are not counted: they share what is left, and their requests are a column of their
own. Nominated pods are aligned without regard to their devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cotenant.engine.rules.cpus.accounts import CpuAccount
from cotenant.engine.rules.cpus.verdicts import PASSES, CpuVerdicts
from cotenant.model.arrays import Int
from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import GivenCpus, could, give, policy_of
from cotenant.policy.placement.numa import Provider
from cotenant.policy.placement.preemption import UNLIMITED, ConstraintColumn
from cotenant.policy.placement.refusal import Refusal

REASON = "not enough free CPUs"
REASON_ALIGNED = "node(s) whose NUMA nodes would not suffice without pods of lower priority"


@dataclass(frozen=True, slots=True)
class CpuVacate:
    """Whether a need is met on one node without some holders (engine/framework/node_rules.Vacating)."""

    need: CpuNeed
    account: CpuAccount
    others: Callable[[frozenset[int]], Provider]  # hints of the other node rules without these residents
    sizes: Mapping[int, int]  # CPUs that each holder has
    nominated: tuple[CpuNeed, ...]  # met before
    reason: str

    def fits(self, removed: frozenset[int]) -> bool:
        """Whether the node without these pods could meet the need, after those of nominated pods that it can meet."""
        node = self.account.without(removed)
        if node is None:
            return True
        for place, need in enumerate(self.nominated):
            given = give(node, need)
            if isinstance(given, GivenCpus):
                node = node.taken(f"nominated {place}", given, need.spec.exclusive)
        return not isinstance(could(node, self.need, self.others(removed)), Refusal)


def cpu_vacate(
    need: CpuNeed,
    account: CpuAccount | None,
    others: Callable[[frozenset[int]], Provider],
    nominated: tuple[CpuNeed, ...] = (),
) -> CpuVacate | None:
    """None where no topology is reported, or where the pod neither gets CPUs of its own nor is aligned."""
    if account is None or account.node is None:
        return None
    aligned = policy_of(account.node, need) is not TopologyPolicy.NONE
    if not (need.own or aligned):
        return None
    sizes = {
        number: claim.cpus.bit_count() or sum((numa_amount.cpu_m or 0) // 1000 for numa_amount in claim.numa)
        for number, claim in account.claims.items()
    }
    return CpuVacate(need, account, others, sizes, nominated, REASON_ALIGNED if aligned else REASON)


def cpu_column(need: CpuNeed, verdicts: CpuVerdicts, rows: Mapping[int, CpuAccount], pods: Int) -> ConstraintColumn:
    """`pods[V]` may be removed; `rows`: the account of each row that has one; `verdicts` are up to date."""
    size = len(verdicts.codes)
    held = np.zeros(size, dtype=np.int64)
    limit = np.full(size, UNLIMITED, dtype=np.int64)
    weighs: dict[int, int] = {}
    for row, account in rows.items():
        node = account.node
        if node is None or verdicts.codes[row] == PASSES:
            continue
        ledger = node.ledger
        for holding in ledger.holdings:
            weighs[int(holding.uid)] = holding.cpus.bit_count()
            held[row] += holding.cpus.bit_count()
        limit[row] = (ledger.topology.mask & ~ledger.reserved).bit_count() - need.cpu_m // 1000
    weight = np.fromiter((weighs.get(pod, 0) for pod in pods.tolist()), dtype=np.int64, count=len(pods))
    return ConstraintColumn(REASON, held, limit, weight)
