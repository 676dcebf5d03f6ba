"""ServiceObjective: which share of a service's requests must be good over a window, and what a node may do for it.

Problem: an objective is read from a cluster or a file, counted by the trace engine, judged by a policy and enforced on a node, and all must mean the same. Choice: one frozen value; shares are integers in millionths, so the
counts at the threshold stay exact. What cannot be read is in `wrong`, and the objective is then not counted. Limits: one indicator an objective; requests, not time slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.machine.replica_signal import MaxAction

GROUP = "slo.cotenant.io"
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 3600, 90 * 86_400
LONGEST_THRESHOLD_US = 3600 * 1_000_000
USUAL_MIN_EVENTS = 50


class Indicator(StrEnum):
    """What makes a request bad."""

    LATENCY = "latency"  # its SERVER or CONSUMER span took longer than the threshold
    ERRORS = "errors"  # its span has status ERROR
    SELF_REPORTED = "selfReported"  # the service's own reports say that it was over its objective


class Severity(StrEnum):
    """How fast an alert's budget is used up."""

    FAST = "fast"
    SLOW = "slow"


USUAL_LABELS: Mapping[Severity, str] = {Severity.FAST: "critical", Severity.SLOW: "warning"}


@dataclass(frozen=True, slots=True)
class ServiceObjective:
    """One objective. `service` and its namespace are as spans name them; an empty operation means all of the service."""

    key: str  # namespace/name of the object
    service_namespace: str
    service: str
    operation: str = ""
    indicator: Indicator = Indicator.LATENCY
    threshold_us: int | None = None  # of a latency objective: good at or below it
    budget_ppm: int = 1000  # share of requests that may be bad: 1 - target
    window_s: int = 28 * 86_400
    labels: Mapping[Severity, str] = field(default_factory=lambda: dict(USUAL_LABELS))  # without a severity: no alert
    min_events: int = USUAL_MIN_EVENTS  # in an alert's short window
    guard: bool = True
    max_action: MaxAction = MaxAction.CAP
    uid: str = ""
    generation: int = 0
    wrong: tuple[str, ...] = ()  # what of it cannot be read

    @property
    def qualified_service(self) -> str:
        """NAMESPACE/NAME, or NAME where the spans have no namespace."""
        return f"{self.service_namespace}/{self.service}" if self.service_namespace else self.service

    @property
    def target(self) -> float:
        """The share of requests that must be good."""
        return 1.0 - self.budget_ppm / 1e6

    @property
    def may_protect(self) -> bool:
        """Whether a node may act for it."""
        return self.guard and self.max_action is not MaxAction.OBSERVE
