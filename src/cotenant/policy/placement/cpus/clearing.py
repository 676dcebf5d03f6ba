"""What removing pods would bring a pod that wants CPUs of its own, as a sum over those pods.

Problem: preemption gives residents back as long as the newcomer still fits, and judges by sums (policy/placement/preemption.py); whole free
cores are no sum of CPUs. Choice: where any CPUs do, a pod weighs its CPUs; where whole cores are required, all CPUs of the cores it is on; of a
spread, those cores. What stays beneath the limit leaves enough free for sure. Limits: two pods on one core both weigh it, so more may be
asked to go than would be needed, never fewer.
"""

from __future__ import annotations

from cotenant.model.cpus.spec import BindPolicy
from cotenant.policy.placement.cpus.accumulator import CpuAsk
from cotenant.policy.placement.cpus.ledger import CpuLedger


def weight(ledger: CpuLedger, ask: CpuAsk, cpus: int) -> int:
    """Of a pod that holds these CPUs (mask)."""
    if not ask.bind_required:
        return cpus.bit_count()
    spread = ask.bind is BindPolicy.SPREAD
    return sum(1 if spread else core.mask.bit_count() for core in ledger.topology.cores if core.mask & cpus)


def room(ledger: CpuLedger, ask: CpuAsk) -> int:
    """The most that all pods may weigh together with the newcomer, which weighs what it asks for."""
    usable = ledger.topology.mask & ~ledger.reserved
    if not ask.bind_required:
        return usable.bit_count()
    if ask.bind is BindPolicy.SPREAD:
        return sum(1 for core in ledger.topology.cores if core.mask & usable)
    return sum(core.mask.bit_count() for core in ledger.topology.cores if core.mask & usable == core.mask)
