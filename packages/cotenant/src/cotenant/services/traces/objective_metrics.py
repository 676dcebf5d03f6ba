"""Objectives in `/metrics`, under names that dashboards know.

People have Grafana dashboards for Sloth and Pyrra, which read the names of their recording rules. The same names with
the same labels, computed here from exact counts instead of by rules; what those tools have no name for is under
`cotenant_objective_`. A series without requests is left out rather than 0.
Limits: ratios of windows that an objective of another length does not have are left out.

Source: slok/sloth, docs (SLI and metadata recording rules); pyrra-dev/pyrra, generic rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cotenant.model.traces.objective import ObjectiveState
from cotenant.policy.objective.burn import rules, window_name
from cotenant.services.traces.objective_board import ObjectiveBoard

_SLOTH = ("sloth_id", "sloth_service", "sloth_slo")
_OURS = ("namespace", "name")


def objective_metrics(board: ObjectiveBoard) -> Iterator[Metric]:
    """Every objective that can be read."""
    error = GaugeMetricFamily("slo:sli_error:ratio_rate", "Share of bad requests.", labels=(*_SLOTH, "sloth_window"))
    by_window: dict[str, GaugeMetricFamily] = {}
    target = GaugeMetricFamily("slo:objective:ratio", "Target.", labels=_SLOTH)
    budget = GaugeMetricFamily("slo:error_budget:ratio", "1 - target.", labels=_SLOTH)
    days = GaugeMetricFamily("slo:time_period:days", "The window.", labels=_SLOTH)
    current = GaugeMetricFamily("slo:current_burn_rate:ratio", "Burn rate over 5 minutes.", labels=_SLOTH)
    period = GaugeMetricFamily("slo:period_burn_rate:ratio", "Burn rate over the window.", labels=_SLOTH)
    left = GaugeMetricFamily("slo:period_error_budget_remaining:ratio", "Budget left over the window.", labels=_SLOTH)
    info = GaugeMetricFamily(
        "sloth_slo_info",
        "An objective.",
        labels=(*_SLOTH, "sloth_mode", "sloth_spec", "sloth_version", "sloth_objective"),
    )
    pyrra = {
        name: GaugeMetricFamily(f"pyrra_{name}", text, labels=("slo", "namespace"))
        for name, text in (
            ("objective", "Target."),
            ("window", "The window, seconds."),
            ("availability", "Share of good requests over the window."),
        )
    }
    requests = CounterMetricFamily("cotenant_objective_requests", "Requests that an objective counts.", labels=_OURS)
    bad = CounterMetricFamily("cotenant_objective_bad", "Requests that missed it.", labels=_OURS)
    state = GaugeMetricFamily("cotenant_objective_state", "1 for the state that it is in.", labels=(*_OURS, "state"))
    firing = GaugeMetricFamily(
        "cotenant_objective_alert", "1 while the alert fires.", labels=(*_OURS, "severity", "window")
    )
    now_s = board.now()
    for tracked in board.objectives:
        objective = tracked.objective
        if objective.wrong:
            continue
        namespace, _, name = objective.key.partition("/")
        labels = (objective.key.replace("/", "-"), objective.qualified_service, name)
        standing = board.objectives.standing(tracked, now_s)
        for window_s, burn in standing.burn.items():
            if burn is not None:
                window = window_name(window_s)
                family = by_window.setdefault(
                    window,
                    GaugeMetricFamily(f"{error.name}{window}", error.documentation, labels=(*_SLOTH, "sloth_window")),
                )
                family.add_metric((*labels, window), burn * objective.budget_ppm / 1e6)
        target.add_metric(labels, objective.target)
        budget.add_metric(labels, objective.budget_ppm / 1e6)
        days.add_metric(labels, objective.window_s / 86_400)
        short = standing.burn[rules(objective.window_s)[0].short_s]
        if short is not None:
            current.add_metric(labels, short)
        if standing.budget_left is not None and standing.ratio is not None:
            period.add_metric(labels, 1 - standing.budget_left)
            left.add_metric(labels, standing.budget_left)
            pyrra["availability"].add_metric((name, namespace), standing.ratio)
        info.add_metric(
            (*labels, "cotenant", "slo.cotenant.io/v1alpha1", "", f"{100 - objective.budget_ppm / 10_000:g}"), 1
        )
        pyrra["objective"].add_metric((name, namespace), objective.target)
        pyrra["window"].add_metric((name, namespace), objective.window_s)
        requests.add_metric((namespace, name), tracked.requests)
        bad.add_metric((namespace, name), tracked.bad)
        for entry in ObjectiveState:
            state.add_metric((namespace, name, entry.value), int(entry is standing.state))
        for alert in standing.alerts:
            if alert.rule.severity in objective.labels:
                words = (namespace, name, objective.labels[alert.rule.severity], window_name(alert.rule.long_s))
                firing.add_metric(words, int(alert.firing))
    yield from by_window.values()
    yield from (target, budget, days, current, period, left, info, *pyrra.values(), requests, bad, state, firing)
