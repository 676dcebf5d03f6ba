"""ServiceObjective: which share of a service's requests must be good over a window, and what a node may do for it.

An objective is read from a cluster or a file, counted by the trace engine, judged by a policy and enforced on a node,
and all must mean the same. One frozen value; shares are integers in millionths, so the counts at the threshold stay
exact. What cannot be read is in `wrong`, and the objective is then not counted.
Limits: one indicator an objective; requests, not time slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.machine.replica_signal import MaxAction
from cotenant.model.traces.model_server import GoalSource, ModelGoal

GROUP = "slo.cotenant.io"
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 3600, 90 * 86_400
LONGEST_THRESHOLD_US = 3600 * 1_000_000
USUAL_MIN_EVENTS = 50


class Indicator(StrEnum):
    """What makes a request bad."""

    LATENCY = "latency"  # its SERVER or CONSUMER span took longer than the threshold
    ERRORS = "errors"  # its span has status ERROR
    SELF_REPORTED = "selfReported"  # the service's own reports say that it was over its objective
    MODEL_SERVER = "modelServer"  # a generated answer took longer than a limit: `ServiceObjective.goal`


class ObjectiveState(StrEnum):
    """How an objective stands."""

    OK = "ok"
    BURNING = "burning"  # an alert fires
    EXHAUSTED = "exhausted"  # more than the budget is used up over the window
    NO_DATA = "noData"  # no request lately


class AlertSeverity(StrEnum):
    """How fast an alert's budget is used up."""

    FAST = "fast"
    SLOW = "slow"


USUAL_LABELS: Mapping[AlertSeverity, str] = {AlertSeverity.FAST: "critical", AlertSeverity.SLOW: "warning"}


@dataclass(frozen=True, slots=True)
class ServiceObjective:
    """One objective. `service` and its namespace are as spans name them; an empty operation means all of the
    service.
    """

    key: str  # namespace/name of the object
    service_namespace: str
    service: str
    operation: str = ""
    indicator: Indicator = Indicator.LATENCY
    threshold_us: int | None = None  # good at or below it; None: not of a single latency
    goal: ModelGoal | None = None  # of an objective of a model server
    budget_ppm: int = 1000  # share of requests that may be bad: 1 - target
    window_s: int = 28 * 86_400
    labels: Mapping[AlertSeverity, str] = field(
        default_factory=lambda: dict(USUAL_LABELS)
    )  # without a severity: no alert
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
    def is_of_spans(self) -> bool:
        """Whether its requests are counted from spans."""
        if self.goal is not None:
            return self.goal.source is GoalSource.SPANS
        return self.indicator in (Indicator.LATENCY, Indicator.ERRORS)

    @property
    def may_protect(self) -> bool:
        """Whether a node may act for it."""
        return self.guard and self.max_action is not MaxAction.OBSERVE


@dataclass(frozen=True, slots=True)
class FiringAlert:
    """An alert that fires: the burn rate over both windows exceeds the factor. Windows as in `ObjectiveStatus.burn`."""

    window: str
    short_window: str
    factor: float


@dataclass(frozen=True, slots=True)
class ObjectiveStatus:
    """What an objective is about, and how it stands by its object's status."""

    key: str  # namespace/name of the object
    service_namespace: str
    service: str
    indicator: Indicator
    state: ObjectiveState | None = None  # None = it has no status yet, or cannot be read
    burn: Mapping[str, float] = field(default_factory=dict)  # burn rates by window such as 5m, the shortest first
    firing: tuple[FiringAlert, ...] = ()
    worst: str = ""  # the replica with the highest burn rate: its pod's namespace/name, or UID; empty = none is known
    worst_burn: float = 0.0
    requests: int = 0  # counted in its window
    alerts: bool = True  # whether any of its alerts is on
