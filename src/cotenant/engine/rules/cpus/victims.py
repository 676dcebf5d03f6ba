"""CPUs that must be free on each row, as a sum over its pods, for the choice of preemption victims.

Problem: whether removing pods frees whole cores depends on which cores they share, and columns are sums (engine/cycle/preemption.py). Choice: the value
of a holding to the pod is a weight (policy/placement/cpus/clearing.py); whole cores count for each pod on them. Limits: rows with a NUMA policy are
left out: no sum predicts the effect of an eviction there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cotenant.engine.rules.cpus.accounts import CpuAccount
from cotenant.engine.rules.cpus.verdicts import PASSES, Verdicts
from cotenant.model.arrays import Int
from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.policy.placement.cpus import clearing
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import ask_of, policy_of
from cotenant.policy.placement.preemption import UNLIMITED, Column


def cpu_column(need: CpuNeed, verdicts: Verdicts, rows: Mapping[int, CpuAccount], pods: Int) -> Column:
    """`pods[V]` may be removed; `rows`: the account of each row that has one; `verdicts` are up to date."""
    size = len(verdicts.codes)
    held = np.zeros(size, dtype=np.int64)
    limit = np.full(size, UNLIMITED, dtype=np.int64)
    weighs: dict[int, int] = {}
    for row, account in rows.items():
        standing = account.node
        ask = ask_of(standing, need) if standing is not None else None
        if standing is None or ask is None or policy_of(standing, need) is not TopologyPolicy.NONE:
            continue
        ledger = standing.ledger
        for holding in ledger.holdings:
            weighs[int(holding.uid)] = clearing.weight(ledger, ask, holding.cpus)
            held[row] += weighs[int(holding.uid)]
        limit[row] = clearing.room(ledger, ask) - ask.count
        if verdicts.codes[row] == PASSES:
            limit[row] = max(limit[row], held[row])  # the pod fits without any eviction
    weight = np.fromiter((weighs.get(pod, 0) for pod in pods.tolist()), dtype=np.int64, count=len(pods))
    return Column("not enough free CPUs", held, limit, weight)
