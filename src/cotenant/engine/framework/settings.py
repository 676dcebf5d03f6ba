"""What may be set about the engine of a real cluster.

Problem: names and times differ between clusters, while the profile is about judgement alone. Choice: one frozen value beside the profile. Limits:
nothing of it changes while the engine lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.engine.framework.backoff import Backoff

UNANSWERED_S = 300.0  # a decision whose bind nobody has answered for so long is taken back


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be set about the engine."""

    scheduler: str = "cotenant"  # spec.schedulerName of the pods that are ours
    most_pods: int = 128  # judged in one call of `decide`
    backoff: Backoff = field(default_factory=Backoff)
    unanswered_s: float = UNANSWERED_S
    flush_s: float = 300.0
    detailed_records: bool = (
        True  # whether the record of a bind counts the nodes that each filter turned down and names the best nodes
    )
