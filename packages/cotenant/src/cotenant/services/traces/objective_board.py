"""Every objective with what is known of it now: for the pages, the status of its object, and metrics.

A status, a page and a metric must say the same, and a reader wants one answer: how it stands, which replica is worst,
what was done. One view an objective, made from the engine's counts when it is asked for; conditions keep the time of
their last change.
Limits: actions are those that agents report to this process since its start.

Source of the conditions' form: Kubernetes API conventions, "Typical status properties".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from cotenant.engine.traces.objectives import Tracked, TrackedObjectives
from cotenant.engine.traces.replicas import ReplicaFigures
from cotenant.model.counted import counted
from cotenant.model.traces.objective import Indicator, ObjectiveState, ServiceObjective
from cotenant.model.traces.spans import SpanSource
from cotenant.policy.objective.burn import CountedRequests, ObjectiveStanding, burn_rate, unreachable, window_name
from cotenant.services.reporting.signals import ActionTaken

MIN_REQUESTS = 20  # a replica with fewer in its window is not called the worst
MAX_REPLICAS = 500  # of a page


class AlertRow(msgspec.Struct, frozen=True, rename="camel"):
    """An alert; burn rates are null without requests."""

    severity: str
    label: str
    long: str
    short: str
    factor: float
    long_burn: float | None
    short_burn: float | None
    firing: bool
    enough: bool


class ReplicaRow(msgspec.Struct, frozen=True, rename="camel"):
    """A replica over the last six seconds."""

    pod: str
    node: str
    requests: int
    bad: int
    burn: float | None
    p99_ms: float | None


class ConditionRow(msgspec.Struct, frozen=True, rename="camel"):
    """A condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


class ActionRow(msgspec.Struct, frozen=True, rename="camel"):
    """What a node did last."""

    time: str
    node: str
    pod: str
    action: str
    text: str


class ObjectiveView(msgspec.Struct, frozen=True, rename="camel"):
    """One objective. Ratios are of requests; null = no request."""

    objective: str
    service: str
    operation: str
    indicator: str
    below_ms: float | None
    target_percent: float
    window: str
    max_action: str
    state: str
    ratio: float | None
    budget_left: float | None
    requests: int
    bad: int
    since: str  # what the counts go back to
    burn: dict[str, float | None]
    alerts: list[AlertRow]
    worst_replica: ReplicaRow | None
    last_action: ActionRow | None
    conditions: list[ConditionRow]
    replicas: list[ReplicaRow] = []
    limits_ms: dict[str, float] = {}  # of a model server's objective, by measure
    model: str = ""
    counted_from: str = ""  # metrics or spans, of a model server's


@dataclass(slots=True)
class _Condition:
    status: str
    reason: str
    since_s: float


class ObjectiveBoard:
    """The objectives of the process. `now` gives Unix seconds."""

    def __init__(self, objectives: TrackedObjectives, now: Callable[[], float]) -> None:
        self.objectives = objectives
        self.now = now
        self._actions: dict[str, ActionTaken] = {}
        self._conditions: dict[tuple[str, str], _Condition] = {}

    def acted(self, action: ActionTaken) -> bool:
        """Keep what a node did; False where the objective is not known."""
        if self.objectives.get(action.objective) is None:
            return False
        before = self._actions.get(action.objective)
        if before is None or before.at_s <= action.at_s:
            self._actions[action.objective] = action
        return True

    def forget(self, key: str) -> None:
        """The objective is gone."""
        self.objectives.remove(key)
        self._actions.pop(key, None)
        self._conditions = {condition: value for condition, value in self._conditions.items() if condition[0] != key}

    def views(self) -> list[ObjectiveView]:
        """All, by namespace and name, without their replicas."""
        return [
            self.view(tracked) for tracked in sorted(self.objectives, key=lambda objective: objective.objective.key)
        ]

    def view(self, tracked: Tracked, *, with_replicas: bool = False) -> ObjectiveView:
        """One objective now."""
        now_s, objective = self.now(), tracked.objective
        standing = self.objectives.standing(tracked, now_s)
        rows = self._rows(tracked, now_s, MAX_REPLICAS) if with_replicas else []
        worst = next(iter(self._rows(tracked, now_s, 1, MIN_REQUESTS)), None)
        action, goal = self._actions.get(objective.key), objective.goal
        return ObjectiveView(
            objective=objective.key,
            service=objective.qualified_service,
            operation=objective.operation,
            indicator=objective.indicator.value,
            below_ms=None if objective.threshold_us is None else objective.threshold_us / 1000,
            target_percent=100 - objective.budget_ppm / 10_000,
            window=window_name(objective.window_s),
            max_action=objective.max_action.value if self.objectives.may_act(tracked) else "observe",
            state=standing.state.value,
            ratio=standing.ratio,
            budget_left=standing.budget_left,
            requests=standing.requests,
            bad=standing.bad,
            since=time_text(tracked.since_s),
            burn={window_name(window_s): burn for window_s, burn in standing.burn.items()},
            alerts=[
                AlertRow(
                    alert.rule.severity.value,
                    objective.labels.get(alert.rule.severity, ""),
                    window_name(alert.rule.long_s),
                    window_name(alert.rule.short_s),
                    round(alert.rule.factor, 4),
                    alert.long_burn,
                    alert.short_burn,
                    alert.firing,
                    alert.enough,
                )
                for alert in standing.alerts
            ],
            worst_replica=worst,
            last_action=None
            if action is None
            else ActionRow(time_text(action.at_s), action.node, action.pod, action.action, action.text),
            conditions=self._conditions_of(tracked, standing, now_s),
            replicas=rows,
            limits_ms={} if goal is None else {measure: limit / 1000 for measure, limit in goal.limits_us.items()},
            model="" if goal is None else goal.model,
            counted_from="" if goal is None else goal.source.value,
        )

    def _rows(self, tracked: Tracked, now_s: float, most: int, least: int = 0) -> list[ReplicaRow]:
        found = self.objectives.of_replicas(tracked, now_s, most, least)
        return [_replica(source, figures, tracked.objective) for source, figures in found.items()]

    def _conditions_of(self, tracked: Tracked, standing: ObjectiveStanding, now_s: float) -> list[ConditionRow]:
        objective = tracked.objective
        found = [("Valid", *_valid(objective)), ("Receiving", *self._receiving(tracked, standing))]
        if not self.objectives.trusts_all:
            found.append(("Authenticated", *_authenticated(tracked)))
        firing = [alert for alert in standing.alerts if alert.firing]
        if firing:
            words = ", ".join(
                f"{objective.labels[alert.rule.severity]}: burn rate {alert.long_burn:.1f} over "
                f"{window_name(alert.rule.long_s)}"
                f" and {alert.short_burn:.1f} over {window_name(alert.rule.short_s)}, above {alert.rule.factor:.2f}"
                for alert in firing[:1]
            )
            found.append(("Alerting", "True", "BudgetBurns", words))
        else:
            found.append(("Alerting", "False", "NoAlert", ""))
        rows = []
        for kind, status, reason, message in found:
            key = (objective.key, kind)
            known = self._conditions.get(key)
            if known is None or known.status != status:
                known = self._conditions[key] = _Condition(status, reason, now_s)
            rows.append(ConditionRow(kind, status, reason, message, time_text(known.since_s)))
        return rows

    def _receiving(self, tracked: Tracked, standing: ObjectiveStanding) -> tuple[str, str, str]:
        objective = tracked.objective
        what = objective.qualified_service + (f" {objective.operation!r}" if objective.operation else "")
        if (closed := self.objectives.closed(objective)) is not None:
            until = time_text(closed.until_s)
            spans = counted(closed.spans, "span")
            words = f"the channel {closed.name} is closed until {until}, {spans} left out; nothing acts"
            return "False", "ChannelClosed", words
        instances = self.objectives.channels.of_instances(objective.service_namespace, objective.service)
        shut = ", ".join(f"{channel.name} until {time_text(channel.until_s)}" for channel in instances[:3])
        uncounted = self.objectives.uncounted(tracked, self.now())
        named = "; ".join(f"{source.pod or source.qualified_service}: {why}" for source, why in uncounted[:3])
        if uncounted:
            named = f"not counted from {len(uncounted)} replicas: {named}"
        if standing.state is not ObjectiveState.NO_DATA:
            return "True", "Requests", f"without those of closed channels: {shut}" if shut else named
        if shut and objective.is_of_spans:
            return "False", "ChannelClosed", f"closed channels of instances of {what}: {shut}"
        if named:
            return "False", "NotMeasured", named
        if objective.indicator is Indicator.SELF_REPORTED:
            return "False", "NoReports", f"{what} has not reported its latency"
        if objective.goal is not None and not objective.is_of_spans and tracked.seen_s is None:
            return "False", "NoReadings", f"no metrics of {what} have been read; --model-servers says where they are"
        if tracked.seen_s is not None or self.objectives.is_known(objective):
            return "False", "NoRequests", f"no request of {what} has arrived lately"
        others = self.objectives.other_kinds(objective)
        if others:
            seen = ", ".join(sorted(kind.name for kind in others))
            return (
                "False",
                "NoServerSpans",
                f"{what} has sent spans of kind {seen} only; a request is a span of kind SERVER or CONSUMER",
            )
        near = self.objectives.near(objective)
        hint = f"; seen: {', '.join(near)}" if near else ""
        return "False", "NothingMatches", f"no request of {what} has ever arrived{hint}"


def status_of(view: ObjectiveView, objective: ServiceObjective) -> dict[str, object]:
    """The status of the object: as the view, with decimals as text; what is not known is left out."""
    worst, action = view.worst_replica, view.last_action
    found: dict[str, object] = {
        "observedGeneration": objective.generation,
        "state": view.state,
        "ratio": _decimal(view.ratio, 6),
        "budgetLeft": _decimal(view.budget_left, 4),
        "requests": view.requests,
        "bad": view.bad,
        "since": view.since,
        "burn": {name: _decimal(burn, 3) for name, burn in view.burn.items() if burn is not None},
        "alerts": [
            {
                "severity": alert.label,
                "window": alert.long,
                "shortWindow": alert.short,
                "factor": _decimal(alert.factor, 3),
            }
            for alert in view.alerts
            if alert.firing
        ],
        "worstReplica": None
        if worst is None
        else {
            "pod": worst.pod,
            "node": worst.node,
            "burn": _decimal(worst.burn, 3),
            "p99Ms": _decimal(worst.p99_ms, 3),
        },
        "lastAction": None if action is None else msgspec.to_builtins(action),
        "conditions": msgspec.to_builtins(view.conditions),
    }
    return {key: value for key, value in found.items() if value is not None}


def time_text(at_s: float) -> str:
    """RFC 3339, whole seconds."""
    return datetime.fromtimestamp(int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _authenticated(tracked: Tracked) -> tuple[str, str, str]:
    namespace, unproven = tracked.objective.key.partition("/")[0], tracked.unproven
    if not tracked.is_proven:
        sender = f"no sender has proven to be of namespace {namespace}"
        return "False", "UnauthenticatedSpans", f"unauthenticated spans: observe only; {sender}"
    left_out = f"{unproven} requests of other senders are not counted" if unproven else ""
    return "True", "SendersOfItsNamespace", left_out


def _valid(objective: ServiceObjective) -> tuple[str, str, str]:
    if objective.wrong:
        return "False", "Unreadable", "; ".join(objective.wrong)[:1000]
    beyond = unreachable(objective)
    if beyond:
        factors = ", ".join(f"{rule.factor:.1f} over {window_name(rule.long_s)}" for rule in beyond)
        highest = 1e6 / objective.budget_ppm
        return (
            "True",
            "AlertUnreachable",
            f"alerts need a burn rate of {factors}; at this target it is at most {highest:.1f}",
        )
    return "True", "Valid", ""


def _replica(source: SpanSource, figures: ReplicaFigures, objective: ServiceObjective) -> ReplicaRow:
    namespace = source.pod_namespace or source.namespace
    pod = f"{namespace}/{source.pod}" if namespace and source.pod else source.pod or source.pod_uid
    burn = burn_rate(CountedRequests(figures.requests, figures.bad), objective.budget_ppm)
    return ReplicaRow(
        pod or source.service,
        source.host,
        figures.requests,
        figures.bad,
        burn,
        figures.p99_us / 1000 if figures.p99_us else None,
    )


def _decimal(value: float | None, places: int) -> str | None:
    return None if value is None else f"{value:.{places}f}".rstrip("0").rstrip(".")
