"""CPUs for a pod that draws from a reservation.

An owner of a reservation must run on its reserved CPUs, and on no others where the reservation is strict about CPU.
First only the reserved CPUs count as free; where they do not suffice and the reservation is not strict, all other free
CPUs count too, reserved ones first.
Limits: memory of NUMA nodes is not distinguished; a pod that shares CPUs takes no reserved ones.

Source: Koordinator, NodeNUMAResource (reservation), and its allocate policies.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import CpuNode, GivenCpus, give
from cotenant.policy.placement.numa import Provider, no_hints
from cotenant.policy.placement.refusal import Refusal


def give_from(
    node: CpuNode, need: CpuNeed, kept: int, strict: bool, beside: Provider = no_hints
) -> GivenCpus | Refusal:
    """As `give`, for a pod for which these CPUs (a mask) are reserved. In the ledger they have no holder."""
    if not (need.own and kept):
        return give(node, need, beside)
    others = node.ledger.topology.mask & ~kept
    found = give(replace(node, ledger=replace(node.ledger, reserved=node.ledger.reserved | others)), need, beside)
    return found if strict or isinstance(found, GivenCpus) else give(node, need, beside, preferred=kept)
