"""CPUs for a pod that draws from those that are kept for it.

Problem: an owner of a reservation shall run on the CPUs that are kept, and on no others where the reservation is strict about CPU. Choice: first only
those count as free; where they do not suffice, and it is not strict, all that is free beside them as well, kept ones first. Limits: memory of
NUMA nodes is not told apart; a pod that shares CPUs takes none of the kept ones.

Source: Koordinator, NodeNUMAResource (reservation), and its allocate policies.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import CpuNode, Given, give
from cotenant.policy.placement.numa import Provider, nobody
from cotenant.policy.placement.refusal import Refusal


def give_from(node: CpuNode, need: CpuNeed, kept: int, strict: bool, beside: Provider = nobody) -> Given | Refusal:
    """As `give`, for a pod for which these CPUs (a mask) are kept. In the ledger nobody holds them."""
    if not (need.own and kept):
        return give(node, need, beside)
    others = node.ledger.topology.mask & ~kept
    found = give(replace(node, ledger=replace(node.ledger, reserved=node.ledger.reserved | others)), need, beside)
    return found if strict or isinstance(found, Given) else give(node, need, beside, preferred=kept)
