"""Whether what was offered on a node was free when it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.manager.lending import capacity_view
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.amplification import normalization_ratio
from cotenant.policy.overcommit.batch import BATCH_CPU, BATCH_MEMORY
from cotenant.policy.overcommit.facts import NodeFacts


@dataclass(slots=True)
class NodeHour:
    """One hour of one node, in progress. Mutable; owned by the ledger."""

    hour: int  # since 1970
    measured_s: float = 0.0  # with an offer
    exceeded: bool = False
    lent: bool = False
    cpu_m: int = 0  # the last offer
    memory_bytes: int = 0


def exceeds(facts: NodeFacts, normalization: str, offered: Mapping[str, int]) -> bool:
    """Whether use of prod and mid pods, the system and the offer exceed the capacity. Batch CPU is counted in the
    node's own CPUs, whatever its normalization.
    """
    try:
        ratio = normalization_ratio(normalization) if normalization else None
    except InvalidInput:  # no amount is computed with it either
        ratio = None
    for resource in (BATCH_CPU, BATCH_MEMORY):
        amount = offered.get(resource, 0)
        if amount <= 0:
            continue
        if resource == BATCH_CPU and ratio is not None and ratio > 1:
            amount = int(amount / ratio)
        pods, capacity, beside = capacity_view(resource, facts)
        if sum(pod.use for pod in pods.values() if pod.use is not None) + beside + amount > capacity:
            return True
    return False
