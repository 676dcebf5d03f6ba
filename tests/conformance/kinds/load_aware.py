"""Load-aware placement against upstream's cases: the window that is read, the node that is refused, the score."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import Any

from tests.conformance.reading import Unreadable, no_matter

from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import REPORT_INTERVAL_S, MeasuredPod, NodeMetric, Statistic, Use, UseWindow
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.estimate import estimate
from cotenant.policy.placement.load_aware.filtering import enough, is_filtered
from cotenant.policy.placement.load_aware.scoring import score
from cotenant.policy.placement.load_aware.settings import (
    LoadAwareSettings,
    LoadShares,
    NodeThresholds,
    Percentile,
    Percentiles,
)
from cotenant.policy.placement.load_aware.standing import LoadFacts, standing
from cotenant.policy.placement.load_aware.usage import Resident, pick

NOW_S = 1_000_000.0
_NAMES = {
    "cpu_m": "cpu",
    "mid-cpu_m": "kubernetes.io/mid-cpu",
    "mid-memory": "kubernetes.io/mid-memory",
    "batch-cpu_m": "kubernetes.io/batch-cpu",
    "batch-memory": "kubernetes.io/batch-memory",
}


def _use(raw: dict[str, int] | None) -> Use:
    return Use(raw.get("cpu", 0), raw.get("memory", 0)) if raw else Use()


def _shares(raw: dict[str, int] | None) -> LoadShares:
    unknown = (raw or {}).keys() - {"cpu", "memory"}
    if unknown:
        raise Unreadable(f"thresholds of {sorted(unknown)} are not known")
    return LoadShares(raw.get("cpu", 0), raw.get("memory", 0)) if raw else LoadShares()


def _percentile(raw: dict[str, Any]) -> Percentile:
    return Percentile(Statistic(raw.get("type", "p95").lower()), raw["duration_s"] or 0)


def _amounts(raw: dict[str, int] | None) -> Amounts:
    return Amounts.of({_NAMES.get(name, name): amount for name, amount in (raw or {}).items() if amount is not None})


def _estimate(pod: dict[str, Any], settings: LoadAwareSettings) -> Use:
    its = PriorityClass(pod["effective_priority_class"] or "")
    no_matter(pod, "name", "priority", "daemonset")  # the class is given resolved
    return estimate(_amounts(pod["requests"]), _amounts(pod["limits"]), its, settings)


def _metric(raw: dict[str, Any]) -> NodeMetric:
    windows = tuple(
        UseWindow(entry["duration_s"] or 0, {Statistic(entry.get("type", "p95").lower()): _use(entry["usage"])})
        for entry in raw.get("aggregated", ())
    )
    pods = {
        f"d/{pod['name']}": MeasuredPod(_use(pod["usage"]), PriorityClass(pod["priority_class"] or ""))
        for pod in raw.get("pods", ())
    }
    used = raw["node_usage"]
    age_s, interval_s = raw.get("age_seconds", nan), raw.get("report_interval_s", REPORT_INTERVAL_S)
    return NodeMetric("n", age_s, interval_s, None if used is None else _use(used), windows, pods)


def _facts(raw: dict[str, Any] | None) -> LoadFacts:
    return LoadFacts() if raw is None else LoadFacts(_metric(raw), NOW_S - raw.get("age_seconds", nan))


def _residents(pods: list[dict[str, Any]], settings: LoadAwareSettings) -> list[Resident]:
    return [
        Resident(
            f"d/{pod['name']}",
            _estimate(pod, settings),
            NOW_S - pod.get("scheduled_s_ago", 0),
            pod["effective_priority_class"] == "prod",
        )
        for pod in pods or ()
    ]


def check_filter(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, args = case.given, case.given["args"]
    aggregated, custom = args["aggregated"], given.get("node_custom_thresholds", {})
    filters_expired = args.get("filter_expired_metrics", True)
    more = {} if args["metric_expiration_s"] is None else {"expires_s": args["metric_expiration_s"]}
    settings = LoadAwareSettings(
        **more,
        thresholds=_shares(args["usage_thresholds_pct"]),
        prod_thresholds=_shares(args["prod_usage_thresholds_pct"]),
        percentiles=Percentiles(_shares(aggregated["thresholds_pct"]), _percentile(aggregated)) if aggregated else None,
    )
    of_node = custom.get("aggregated")
    own = NodeThresholds(
        _shares(custom.get("usage_thresholds_pct")),
        _shares(custom.get("prod_usage_thresholds_pct")),
        Percentiles(_shares(of_node["thresholds_pct"]), _percentile(of_node)) if of_node else None,
    )
    size = Use(given["node"]["cpu_m"], given["node"]["memory"])
    pod = given.get("pod", {})
    residents = _residents(given["assigned_pods"], settings)
    raw = standing(size, own, _facts(given["node_metric"]), residents, settings, NOW_S)
    if not filters_expired:
        raise Unreadable("metrics that have expired are always left out")
    side = raw.prod if pod["effective_priority_class"] == "prod" else raw.usual
    cpu, memory = enough(side.room, _estimate(pod, settings))
    blocked = "" if cpu and memory else "memory" if cpu else "cpu"
    passes = (not blocked and not raw.is_closed) or not is_filtered(Pod("p", is_daemon=bool(pod["daemonset"])))
    yield "schedulable", case.expect["schedulable"], passes
    yield "blocking_resource", case.expect["blocking_resource"] or "", blocked
    yield "aggregated", bool(case.expect["aggregated"]), side.rule.look.percentile is not None


def check_score(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, args = case.given, case.given["args"]
    weights, aggregated = args.get("resource_weights", {"cpu": 1, "memory": 1}), args["aggregated"]
    settings = LoadAwareSettings(
        weights=(weights.get("cpu", 0), weights.get("memory", 0)),
        dominant_weight=args.get("dominant_weight", 0),
        scores_by_prod=bool(args["score_by_prod_usage"]),
        expires_s=args.get("metric_expiration_s", 180),
        percentiles=Percentiles(score_by=_percentile(aggregated)) if aggregated else None,
    )
    size = Use(given["node"]["cpu_m"], given["node"]["memory"])
    residents = _residents(given["assigned_pods"], settings)
    raw = standing(size, NodeThresholds(), _facts(given["node_metric"]), residents, settings, NOW_S)
    pod = given.get("pod", {})
    side = raw.prod if pod["effective_priority_class"] == "prod" else raw.usual
    total = side.scored.total.plus(_estimate(pod, settings))
    yield "score", case.expect["score"], score(size, total, settings) if raw.is_scored else 0


def check_pick(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    windows = [
        UseWindow(
            entry["duration_s"] or 0,
            {kind: Use(entry["cpu_m"])} if entry["cpu_m"] is not None else {},
        )
        for entry in given.get("aggregated", ())
        for kind in (Statistic(entry.get("type", "p95").lower()),)
    ]
    last = None if given["node_usage_cpu_m"] is None else Use(given["node_usage_cpu_m"])
    found = pick(windows, Statistic(given.get("type", "p95").lower()), given["duration_s"] or 0, last)
    yield "cpu_m", case.expect["cpu_m"], found.cpu_m if found is not None else None


KINDS = {"filter": check_filter, "score": check_score, "aggregate_pick": check_pick}
