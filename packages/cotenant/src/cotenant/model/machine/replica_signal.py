"""What the trace process measured of one replica under one objective, as the agent of its node gets it.

The guard, the search for a cause and its proof must judge by the same figures, and a service should not have to report
on itself. One frozen value a replica and objective, over the last `window_us`, sent when it changes and at least once a
second (docs/architecture.md, "How a request travels"). The agent keeps the last one and adds the time since then to
`age_us`, so a silent source ages.
Limits: latency is that of SERVER and CONSUMER spans: what happens before the service accepts a request is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FRESH_US = 5_000_000  # an older signal is not used: the trace process sends at least once a second


class MaxAction(StrEnum):
    """The strongest thing that a node may do to best-effort work for an objective, the mildest first."""

    OBSERVE = "observe"
    CAP = "cap"
    IDLE = "idle"
    EVICT = "evict"

    def allows(self, action: MaxAction) -> bool:
        """Whether `action` is no stronger than this."""
        order = list(MaxAction)
        return order.index(action) <= order.index(self)


@dataclass(frozen=True, slots=True)
class ReplicaSignal:
    """One replica of one service under one ServiceObjective. Ratios in millionths, rates in thousandths."""

    objective: str  # namespace/name of the ServiceObjective
    service: str  # NAMESPACE/NAME as its spans say, or NAME
    pod: str  # namespace/name, or what the spans give as instance
    pod_uid: str  # "" where the spans do not say
    threshold_us: int | None  # a request is good at or below it; None: the objective is of errors
    budget_ppm: int  # share of requests that may be bad: 1 - target
    max_action: MaxAction
    guard: bool  # whether the guard may act for it
    window_us: int
    requests: int  # in the window
    bad: int  # of them, counted exactly at the threshold
    p99_us: int  # 0 without requests
    at_target_us: int  # the quantile of the target, e.g. p99.9; 0 without requests
    age_us: int = 0  # since the end of the window
    self_p99_us: int | None = None  # of the requests' own time; None where no request called another service

    @property
    def burn_milli(self) -> int | None:
        """The burn rate: bad requests relative to those allowed; 1000 just meets the objective. None without
        requests.
        """
        return self.bad * 1_000_000_000 // (self.requests * self.budget_ppm) if self.requests else None

    @property
    def burns(self) -> bool:
        """Whether the budget is used faster than the objective allows, or just as fast."""
        return (self.burn_milli or 0) >= 1000
