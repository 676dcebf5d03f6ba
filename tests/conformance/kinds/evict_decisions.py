"""Kinds of evict_decisions.json: usable configurations, the amount that must become free, and the evicted pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cotenant.model.cluster.labels import SUB_PRIORITY, Labels
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodeContainer, NodePod, Phase
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.model.machine.verdict import Verdict
from cotenant.policy.nodeqos.eviction import cpu as eviction_cpu
from cotenant.policy.nodeqos.eviction import memory as eviction_memory
from cotenant.policy.nodeqos.eviction.cpu import CpuEvictionConfig, CpuEvictionMemory
from cotenant.policy.nodeqos.eviction.goals import (
    POOL,
    AllocatableTrigger,
    BestEffortMemoryTrigger,
    Currency,
    UsedTrigger,
    allocatable_release,
    used_release,
)
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig, MemoryEvictionMemory
from cotenant.policy.nodeqos.eviction.satisfaction import (
    Satisfaction,
    SatisfactionOf,
    SatisfactionTrigger,
    release,
    trusted,
)
from cotenant.policy.nodeqos.eviction.victims import EVICTION_ENABLED

_POOLS = {"batch": Currency.REQUESTED_BATCH, "mid": Currency.REQUESTED_MID}


def _satisfaction(config: dict[str, Any]) -> SatisfactionTrigger:
    return SatisfactionTrigger(
        config.get("satisfaction_lower_pct"),  # type: ignore[arg-type]
        config.get("satisfaction_upper_pct"),  # type: ignore[arg-type]
        config.get("be_usage_threshold_pct", 90),
        SatisfactionOf(config.get("policy", SatisfactionOf.REAL_LIMIT)),
    )


def _best_effort(config: dict[str, Any]) -> BestEffortMemoryTrigger:
    return BestEffortMemoryTrigger(config.get("used_threshold_pct"), config.get("used_lower_pct"))  # type: ignore[arg-type]


def _used(config: dict[str, Any]) -> UsedTrigger:
    threshold, priority = config.get("used_threshold_pct"), config.get("priority_threshold")
    return UsedTrigger(threshold, priority, config.get("used_lower_pct"))  # type: ignore[arg-type]


def _allocatable(config: dict[str, Any]) -> AllocatableTrigger:
    names = ("alloc_threshold_pct", "alloc_lower_pct", "alloc_priority_threshold")
    return AllocatableTrigger(*(config.get(name) for name in names))  # type: ignore[arg-type]


_READ = {
    "cpu_satisfaction": _satisfaction,
    "cpu_used": _used,
    "cpu_allocatable": _allocatable,
    "memory_used_be": _best_effort,
    "memory_used": _used,
    "memory_allocatable": _allocatable,
}


def _read(trigger: str, config: dict[str, Any] | None) -> Any:
    """The trigger; None if its configuration is not usable."""
    try:
        return _READ[trigger](config or {})
    except InvalidInput:
        return None


def config_valid(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = _read(case.given["trigger"], case.given["config"])
    yield "valid", case.expect["valid"], got is not None


def be_satisfaction_release(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    trigger = _satisfaction(given["config"])

    def seen(at: dict[str, Any]) -> Satisfaction:
        by_allocatable = trigger.measured_against is SatisfactionOf.ALLOCATABLE
        limit = given["batch_allocatable_cpu_m"] if by_allocatable else at["real_limit_m"]
        return Satisfaction(at["used_m"], at["request_m"], limit)

    average, latest = given["window_avg"], given["latest"]
    enough = trusted(average["samples"], given["window_s"] * 1_000_000, given["collect_interval_s"] * 1_000_000)
    got = release(trigger, seen(average), seen(latest) if latest else None).cpu_m if enough else 0
    yield "release_batch_cpu_m", case.expect["release_batch_cpu_m"], got


def used_releases(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    for resource in ("cpu_m", "memory"):
        if f"capacity_{resource}" in given:
            config = given["config"]
            amounts = given[f"capacity_{resource}"], given[f"node_used_{resource}"]
            got = used_release(config["used_threshold_pct"], config.get("used_lower_pct"), *amounts)
            yield f"release_{resource}", case.expect[f"release_{resource}"], got


def _pods(given: dict[str, Any]) -> list[PodUse]:
    pods = []
    for pod in given["pods"]:
        labels = {EVICTION_ENABLED: "true"} if pod.get("evict_enabled") else {}
        if pod.get("sub_priority") is not None:
            labels[SUB_PRIORITY] = str(pod["sub_priority"])
        cpu_m = sum(amount for name, amount in pod["request"].items() if name.endswith("cpu"))
        memory_bytes = sum(amount for name, amount in pod["request"].items() if name.endswith("memory"))
        name = pod["name"]
        pods.append(
            PodUse(
                NodePod(
                    uid=name,
                    namespace="test",
                    name=name,
                    group=f"pods/{name}",
                    qos=QoSClass(pod.get("qos", "BE")),
                    priority_class=PriorityClass(pod.get("priority_class") or pod.get("class")),
                    priority=pod["priority"],
                    sub_priority=pod.get("sub_priority") or 0,
                    containers=(NodeContainer("main", "", cpu_request_m=cpu_m, memory_request_bytes=memory_bytes),),
                    labels=Labels.of(labels),
                    phase=Phase.RUNNING if pod.get("phase", "Running") == "Running" else Phase.OVER,
                ),
                GroupUse(f"pods/{name}", cpu_m=pod.get("used"), working_set_bytes=pod.get("used")),
            )
        )
    return pods


def _pools(given: dict[str, Any], suffix: str) -> tuple[tuple[Currency, int], ...]:
    names = ((f"{prefix}-{suffix}", pool) for prefix, pool in _POOLS.items())
    return tuple((pool, given["node_allocatable"][name]) for name, pool in names if name in given["node_allocatable"])


def allocatable_releases(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, config = case.given, case.given["config"]
    suffix = "cpu" if any("cpu" in name for pod in given["pods"] for name in pod["request"]) else "memory"
    pools = dict(_pools(given, suffix))
    asked: dict[Currency, int] = {}
    for entry in _pods(given):
        pod = entry.pod
        if pod.priority <= config["alloc_priority_threshold"]:
            amount = pod.cpu_request_m if suffix == "cpu" else pod.memory_request_bytes
            asked[POOL[pod.priority_class]] = asked.get(POOL[pod.priority_class], 0) + amount
    marks = config["alloc_threshold_pct"], config["alloc_lower_pct"]
    got = {pool: allocatable_release(*marks, pools.get(pool), amount) for pool, amount in asked.items()}
    named = {f"{prefix}-{suffix}": got[pool] for prefix, pool in _POOLS.items() if got.get(pool)}
    yield "release", case.expect["release"], named


def victims(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    triggers = {name: _read(name, given["config"]) for name in given["triggers"]}
    verdict = _memory_verdict(given, triggers) if given["resource"] == "memory" else _cpu_verdict(given, triggers)
    evicted = {eviction.uid for eviction in verdict.evictions}
    must = set(case.expect["must_evict"])
    yield "must_evict", must, evicted & must
    yield "must_not_evict", set(), evicted & set(case.expect.get("must_not_evict", ()))


def _memory_verdict(given: dict[str, Any], triggers: dict[str, Any]) -> Verdict:
    state = NodeState(0, 0, HostUse(1, None, given["capacity"], given["node_used"]), tuple(_pods(given)))
    config = MemoryEvictionConfig(
        best_effort=triggers.get("memory_used_be"),
        allocatable=triggers.get("memory_allocatable"),
        used=triggers.get("memory_used"),
        pools_bytes=_pools(given, "memory"),
        strict_order=True,
    )
    return eviction_memory.decide(state, config, MemoryEvictionMemory())[0]


def _cpu_verdict(given: dict[str, Any], triggers: dict[str, Any]) -> Verdict:
    host = HostUse(given["capacity"] // 1000, given["node_used"], 0, 0)
    state = NodeState(1_000_000, 1_000_000, host, tuple(_pods(given)))
    config = CpuEvictionConfig(
        satisfaction=triggers.get("cpu_satisfaction"),
        allocatable=triggers.get("cpu_allocatable"),
        used=triggers.get("cpu_used"),
        pools_cpu_m=_pools(given, "cpu"),
        window_us=1_000_000,
        strict_order=True,
    )
    return eviction_cpu.decide(state, config, CpuEvictionMemory())[0]


KINDS = {
    "config_valid": config_valid,
    "be_satisfaction_release": be_satisfaction_release,
    "used_release": used_releases,
    "allocatable_release": allocatable_releases,
    "victims": victims,
}
