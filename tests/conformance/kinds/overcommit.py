"""Batch and mid amounts of nodes and NUMA zones, degrading, and spreading over zones, against upstream's cases."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import Any

from tests.conformance.reading import no_matter, one_of

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.machine.node_metric import NO_USE, HostApplication, MeasuredPod, Use
from cotenant.policy.overcommit.batch import BatchRules, batch_amounts, zone_amounts
from cotenant.policy.overcommit.facts import ActivePod, NodeFacts, Policy, reservation
from cotenant.policy.overcommit.mid import MidRules, mid_amounts
from cotenant.policy.overcommit.writing import is_degraded
from cotenant.policy.overcommit.zones import divided, over_zones

PHASES = ("Running", "Pending", "Succeeded", "Failed", "Unknown")
DEFAULT_BATCH = BatchRules()


def _use(raw: dict[str, Any] | None) -> Use:
    return Use(raw.get("cpu_m", 0), raw.get("memory", 0)) if raw else NO_USE


def _whole_use(raw: dict[str, Any] | None) -> Use | None:
    no_matter(raw, "cpu_m", "memory")  # one without the other is no measurement
    if raw is None or raw["cpu_m"] is None or raw["memory"] is None:
        return None
    return _use(raw)


def _reservation(raw: dict[str, Any] | None) -> Use:
    if raw is None:
        return NO_USE
    cpus = raw["reserved_cpus"]
    return reservation(raw.get("cpu_m", 0), raw.get("memory", 0), len(parse_cpus(cpus)) if cpus else None)


def facts(given: dict[str, Any]) -> NodeFacts:
    """A node of any of these kinds. A sample of a pod that is not active is one without a pod, as it is to the
    manager.
    """
    metrics = given.get("metrics", given)
    usage = given["node_usage"] or metrics["node_usage"]
    active = []
    for pod in metrics.get("pods", ()) if metrics is not given else ():
        no_matter(pod, "name", "priority_class")  # of one without a sample
    for pod in given.get("pods", ()):
        # Classes are given resolved, and a zone's part follows from the zones that were allocated.
        no_matter(pod, "qos_label", "priority_class", "kube_qos", "effective_qos", "cpuset")
        if one_of(pod, "phase", PHASES, "Running") in ("Running", "Pending"):
            active.append(pod)
        else:
            no_matter(pod, "name", "request", "numa_nodes", "effective_priority_class")
    return NodeFacts(
        capacity=_use(given["node"]["capacity"]),
        allocatable=_use(given["node"]["allocatable"]),
        pods=tuple(
            ActivePod(
                pod["name"],
                PriorityClass(pod["effective_priority_class"] or ""),
                _use(pod["request"]),
                QoSClass(pod["effective_qos"] or pod["qos_label"] or ""),
                None if pod["numa_nodes"] is None else tuple(pod["numa_nodes"]),
            )
            for pod in active
        ),
        annotated_reservation=_reservation(given["node"]["annotation_reservation"]),
        usage=_whole_use(usage),
        system=_use(metrics["system_usage"]),
        measured={
            pod["name"]: MeasuredPod(_use(pod["usage"]), PriorityClass(pod["priority_class"] or ""))
            for pod in (metrics.get("pods", ()) if metrics is not given else ())
            if pod["usage"] is not None
        },
        host_applications=tuple(
            HostApplication(_use(metric["usage"]), PriorityClass(metric["priority_class"] or ""), metric["name"])
            for metric in metrics.get("host_apps", ())
        ),
        prod_reclaimable=_use(given["prod_reclaimable"]) if given["prod_reclaimable"] else None,
        zones=tuple(_use(zone) for zone in given.get("zones", ())),
    )


def _batch_rules(raw: dict[str, Any]) -> BatchRules:
    return BatchRules(
        raw.get("cpu_reclaim_threshold_pct", DEFAULT_BATCH.cpu_reclaim_pct),
        raw.get("memory_reclaim_threshold_pct", DEFAULT_BATCH.memory_reclaim_pct),
        Policy(raw.get("cpu_policy", "usage")),
        Policy(raw.get("memory_policy", "usage")),
        raw["batch_cpu_cap_pct"],
        raw["batch_memory_cap_pct"],
    )


def _mid_rules(raw: dict[str, Any]) -> MidRules:
    is_static = one_of(raw, "mode", ("static", "predict"), "predict") == "static"
    no_matter(raw, "static_cpu_pct", "static_memory_pct")  # under predict
    return MidRules(
        raw.get("mid_cpu_threshold_pct", 100),
        raw.get("mid_memory_threshold_pct", 100),
        raw.get("mid_unallocated_pct", 0),
        is_static,
        raw.get("static_cpu_pct", 0),
        raw.get("static_memory_pct", 0),
    )


def batch(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Amounts of the node and of its zones."""
    node, rules = facts(case.given), _batch_rules(case.given["strategy"])
    no_matter(case.given["strategy"], "degrade_minutes")  # the measurement is new
    cpu, memory = batch_amounts(node, rules)
    yield "batch_cpu_m", case.expect["batch_cpu_m"], cpu.value
    yield "batch_memory", case.expect["batch_memory"], memory.value
    for amount in (cpu, memory):
        yield "batch_cpu_m.sum", amount.value, sum(term.amount for term in amount.terms)
    if "zones" in case.expect:
        got = [{"batch_cpu_m": c.value, "batch_memory": m.value} for c, m in zone_amounts(node, rules)]
        yield "zones", case.expect["zones"], got


def mid(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Amounts, and whether the measurement is too old."""
    age_s = case.given["metric_age_seconds"]
    no_matter(case.given, "node_usage")  # one without a memory amount
    degraded = is_degraded(nan if age_s is None else age_s, case.given["strategy"].get("degrade_minutes", 15))
    yield "degraded", case.expect["degraded"], degraded
    cpu, memory = mid_amounts(facts(case.given), _mid_rules(case.given["strategy"]))
    yield "mid_cpu_m", case.expect["mid_cpu_m"], 0 if degraded else cpu.value
    yield "mid_memory", case.expect["mid_memory"], 0 if degraded else memory.value


def node_calculate(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Both tiers at once."""
    node, strategy = facts(case.given), case.given["strategy"]
    for amount in (*batch_amounts(node, _batch_rules(strategy)), *mid_amounts(node, _mid_rules(strategy))):
        yield amount.resource, case.expect[amount.resource], amount.value


def tier_degrade(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Whether a tier is withdrawn."""
    age_s = case.given["metric_age_seconds"] if case.given.get("metric_exists", True) else None
    one_of(case.given, "tier", ("batch", "mid"), "batch")  # one rule for both
    no_matter(case.given, "metric_age_seconds", "prod_reclaimable")  # neither is the age of a measurement that exists
    yield (
        "degraded",
        case.expect["degraded"],
        is_degraded(nan if age_s is None else age_s, case.given["degrade_minutes"]),
    )


def pod_over_zones(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """A pod's part of each zone."""
    for key in ("request", "usage"):
        parts = over_zones(_use(case.given[key]), case.given["zone_count"], case.given["allocated_zones"])
        yield key, case.expect[key], [{"cpu_m": part.cpu_m, "memory": part.memory_bytes} for part in parts]


def zone_divide(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """An equal part."""
    part = divided(_use(case.given["amount"]), case.given["by"])
    yield "each", case.expect["each"], {"cpu_m": part.cpu_m, "memory": part.memory_bytes}


KINDS = {
    "batch": batch,
    "mid": mid,
    "node_calculate": node_calculate,
    "tier_degrade": tier_degrade,
    "pod_over_zones": pod_over_zones,
    "zone_divide": zone_divide,
}
