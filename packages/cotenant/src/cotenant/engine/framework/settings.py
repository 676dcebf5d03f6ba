"""Settings of a cluster's engine.

Names and times differ between clusters, while the profile is about placement only. One frozen value besides the
profile.
Limits: constant for the engine's lifetime.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.framework.budget import CpuClock
from cotenant.policy.placement.profiles import PlacementProfile

UNANSWERED_S = 300.0  # a bind without a response for this long is undone


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of the engine."""

    schedulers: tuple[str, ...] = (
        "cotenant",
    )  # spec.schedulerName of the pods that are ours; the first is the name of the engine
    max_pods: int = 128  # per call of `decide`
    backoff: Backoff = field(default_factory=Backoff)
    unanswered_s: float = UNANSWERED_S
    flush_s: float = 300.0
    cpu_s: CpuClock | None = None  # None = the cost of a judgement is not limited
    also_scored_by: tuple[
        PlacementProfile, ...
    ] = ()  # profiles that pods may name (`Pod.scored_by`) besides the engine's own
    detailed_records: bool = True  # whether the record of a bind has the rejections of each filter and the best nodes

    @property
    def scheduler(self) -> str:
        """The first of the names."""
        return self.schedulers[0]
