"""The effect of removing pods for a pod that needs own CPUs, as a sum over the removed pods.

Problem: preemption evaluates sums (policy/placement/preemption.py), and whole free cores are not a sum of CPUs. Choice: where any CPUs
suffice, a pod weighs its CPUs; where whole cores are required, all CPUs of its cores; for a spread, its cores. A total below the limit
guarantees enough free CPUs. Limits: two pods on one core both count it, so more pods than necessary may be evicted,
never too few.
"""

from __future__ import annotations

from cotenant.model.cpus.spec import BindPolicy
from cotenant.policy.placement.cpus.accumulator import CpuAsk
from cotenant.policy.placement.cpus.ledger import CpuLedger


def weight(ledger: CpuLedger, ask: CpuAsk, cpus: int) -> int:
    """Weight of a pod that holds these CPUs (mask)."""
    if not ask.bind_required:
        return cpus.bit_count()
    spread = ask.bind is BindPolicy.SPREAD
    return sum(1 if spread else core.mask.bit_count() for core in ledger.topology.cores if core.mask & cpus)


def room(ledger: CpuLedger, ask: CpuAsk) -> int:
    """The limit on the total weight of all pods with the incoming pod, which weighs its request."""
    usable = ledger.topology.mask & ~ledger.reserved
    if not ask.bind_required:
        return usable.bit_count()
    if ask.bind is BindPolicy.SPREAD:
        return sum(1 for core in ledger.topology.cores if core.mask & usable)
    return sum(core.mask.bit_count() for core in ledger.topology.cores if core.mask & usable == core.mask)
