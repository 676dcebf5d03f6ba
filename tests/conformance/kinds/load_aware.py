"""Load-aware placement against upstream's cases: the window that is read, the node that is refused, the score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Statistic, Use, Window
from cotenant.model.resources import Amounts
from cotenant.policy.placement.load_aware.estimate import estimate
from cotenant.policy.placement.load_aware.filtering import enough, is_filtered
from cotenant.policy.placement.load_aware.scoring import score
from cotenant.policy.placement.load_aware.settings import (
    LoadAwareSettings,
    NodeThresholds,
    Percentile,
    Percentiles,
    Shares,
)
from cotenant.policy.placement.load_aware.standing import Facts, standing
from cotenant.policy.placement.load_aware.usage import Resident, pick

NOW_S = 1_000_000.0
_NAMES = {"cpu_m": "cpu", "mid-cpu_m": "kubernetes.io/mid-cpu", "mid-memory": "kubernetes.io/mid-memory",
          "batch-cpu_m": "kubernetes.io/batch-cpu", "batch-memory": "kubernetes.io/batch-memory"}  # fmt: skip


def _use(raw: dict[str, int] | None) -> Use:
    return Use(raw.get("cpu", 0), raw.get("memory", 0)) if raw else Use()


def _shares(raw: dict[str, int] | None) -> Shares:
    return Shares(**raw) if raw else Shares()


def _percentile(raw: dict[str, Any]) -> Percentile:
    return Percentile(Statistic(raw["type"].lower()), raw["duration_s"] or 0)


def _amounts(raw: dict[str, int]) -> Amounts:
    return Amounts.of({_NAMES.get(name, name): amount for name, amount in raw.items()})


def _estimate(pod: dict[str, Any], settings: LoadAwareSettings) -> Use:
    its = PriorityClass(pod["effective_priority_class"])
    return estimate(_amounts(pod["requests"]), _amounts(pod["limits"]), its, settings)


def _metric(raw: dict[str, Any]) -> NodeMetric:
    windows = tuple(
        Window(each["duration_s"], {Statistic(each["type"].lower()): _use(each["usage"])}) for each in raw["aggregated"]
    )
    pods = {
        f"d/{pod['name']}": MeasuredPod(_use(pod["usage"]), PriorityClass(pod["priority_class"])) for pod in raw["pods"]
    }
    return NodeMetric("n", raw["age_seconds"], raw["report_interval_s"], _use(raw["node_usage"]), windows, pods)


def _facts(raw: dict[str, Any] | None) -> Facts:
    return Facts() if raw is None else Facts(_metric(raw), NOW_S - raw["age_seconds"])


def _residents(pods: list[dict[str, Any]], settings: LoadAwareSettings) -> list[Resident]:
    return [
        Resident(
            f"d/{pod['name']}",
            _estimate(pod, settings),
            NOW_S - pod["scheduled_s_ago"],
            pod["effective_priority_class"] == "prod",
        )
        for pod in pods
    ]


def check_filter(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, args = case.given, case.given["args"]
    aggregated, custom = args["aggregated"], given["node_custom_thresholds"] or {}
    settings = LoadAwareSettings(
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
    pod = given["pod"]
    residents = _residents(given["assigned_pods"], settings)
    raw = standing(size, own, _facts(given["node_metric"]), residents, settings, NOW_S)
    side = raw.prod if pod["effective_priority_class"] == "prod" else raw.usual
    cpu, memory = enough(side.room, _estimate(pod, settings))
    blocked = "" if cpu and memory else "memory" if cpu else "cpu"
    passes = (not blocked and not raw.is_closed) or not is_filtered(Pod("p", is_daemon=bool(pod["daemonset"])))
    yield "schedulable", case.expect["schedulable"], passes
    if "blocking_resource" in case.expect:
        yield "blocking_resource", case.expect["blocking_resource"], blocked
        yield "aggregated", case.expect["aggregated"], side.rule.look.percentile is not None


def check_score(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, args = case.given, case.given["args"]
    weights, aggregated = args["resource_weights"], args["aggregated"]
    settings = LoadAwareSettings(
        weights=(weights.get("cpu", 0), weights.get("memory", 0)),
        dominant_weight=args["dominant_weight"],
        scores_by_prod=args["score_by_prod_usage"],
        expires_s=args["metric_expiration_s"],
        percentiles=Percentiles(score_by=_percentile(aggregated)) if aggregated else None,
    )
    size = Use(given["node"]["cpu_m"], given["node"]["memory"])
    residents = _residents(given["assigned_pods"], settings)
    raw = standing(size, NodeThresholds(), _facts(given["node_metric"]), residents, settings, NOW_S)
    side = raw.prod if given["pod"]["effective_priority_class"] == "prod" else raw.usual
    total = side.scored.total.plus(_estimate(given["pod"], settings))
    yield "score", case.expect["score"], score(size, total, settings) if raw.is_scored else 0


def check_pick(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    windows = [
        Window(
            each["duration_s"],
            {Statistic(each["type"].lower()): Use(each["cpu_m"])} if each["cpu_m"] is not None else {},
        )
        for each in given["aggregated"]
    ]
    last = None if given["node_usage_cpu_m"] is None else Use(given["node_usage_cpu_m"])
    found = pick(windows, Statistic(given["type"].lower()), given["duration_s"] or 0, last)
    yield "cpu_m", case.expect["cpu_m"], found.cpu_m if found is not None else None


KINDS = {"filter": check_filter, "score": check_score, "aggregate_pick": check_pick}
