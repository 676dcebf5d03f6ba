"""Kinds of evict_decisions.json: usable configurations, the amount that must become free, and the evicted pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import Unreadable, no_matter, one_of

from cotenant.model.cluster.labels import SUB_PRIORITY, Labels
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.eviction import cpu as eviction_cpu
from cotenant.policy.nodeqos.eviction import memory as eviction_memory
from cotenant.policy.nodeqos.eviction.cpu import CpuEvictionConfig, CpuEvictionMemory
from cotenant.policy.nodeqos.eviction.goals import (
    POOL,
    AllocatableTrigger,
    BestEffortMemoryTrigger,
    Currency,
    EvictionTrigger,
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
from cotenant.policy.nodeqos.eviction.victims import EVICTION_ENABLED, EVICTION_POLICY, EVICTION_PRIORITY

_PHASES = {
    "Running": NodePodPhase.RUNNING,
    "Pending": NodePodPhase.OVER,  # upstream takes running pods alone
    "Succeeded": NodePodPhase.OVER,
    "Failed": NodePodPhase.OVER,
    "Unknown": NodePodPhase.OVER,
    "Terminating": NodePodPhase.TERMINATING,
}
_POLICIES = {
    "cpu_satisfaction": EvictionTrigger.CPU_SATISFACTION.value,
    "cpu_allocatable": EvictionTrigger.CPU_ALLOCATABLE.value,
    "cpu_used": EvictionTrigger.CPU_USED.value,
    "memory_used_be": EvictionTrigger.MEMORY_BEST_EFFORT.value,
    "memory_allocatable": EvictionTrigger.MEMORY_ALLOCATABLE.value,
    "memory_used": EvictionTrigger.MEMORY_USED.value,
}
_SETTINGS = (
    "satisfaction_lower_pct",
    "satisfaction_upper_pct",
    "be_usage_threshold_pct",
    "policy",
    "used_threshold_pct",
    "used_lower_pct",
    "priority_threshold",
    "alloc_threshold_pct",
    "alloc_lower_pct",
    "alloc_priority_threshold",
)
_POOLS = {"batch": Currency.REQUESTED_BATCH, "mid": Currency.REQUESTED_MID}
_PREFIXES = {pool: prefix for prefix, pool in _POOLS.items()}


def _satisfaction(config: dict[str, Any]) -> SatisfactionTrigger:
    return SatisfactionTrigger(
        config["satisfaction_lower_pct"],
        config["satisfaction_upper_pct"],
        config.get("be_usage_threshold_pct", 90),
        SatisfactionOf(config.get("policy", SatisfactionOf.REAL_LIMIT)),
    )


def _best_effort(config: dict[str, Any]) -> BestEffortMemoryTrigger:
    return BestEffortMemoryTrigger(config["used_threshold_pct"], config["used_lower_pct"])


def _used(config: dict[str, Any]) -> UsedTrigger:
    return UsedTrigger(config["used_threshold_pct"], config["priority_threshold"], config["used_lower_pct"])


def _allocatable(config: dict[str, Any]) -> AllocatableTrigger:
    names = ("alloc_threshold_pct", "alloc_lower_pct", "alloc_priority_threshold")
    return AllocatableTrigger(*(config[name] for name in names))


_READ = {
    "cpu_satisfaction": _satisfaction,
    "cpu_used": _used,
    "cpu_allocatable": _allocatable,
    "memory_used_be": _best_effort,
    "memory_used": _used,
    "memory_allocatable": _allocatable,
}


def _read(trigger: str, config: dict[str, Any] | None) -> Any:
    """The trigger; None if its configuration is not usable, or there is none."""
    if trigger not in _READ:
        raise Unreadable(f"the trigger {trigger!r} is not one of {', '.join(_READ)}")
    if config is None:
        return None
    try:
        return _READ[trigger](config)
    except InvalidInput:
        return None


def config_valid(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = _read(case.given["trigger"], case.given["config"])
    no_matter(case.given["config"], *_SETTINGS)  # of the other triggers
    yield "valid", case.expect["valid"], got is not None


def be_satisfaction_release(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    trigger, allocatable = _satisfaction(given["config"]), given.get("batch_allocatable_cpu_m", 0)

    def seen(at: dict[str, Any] | None) -> Satisfaction | None:
        if at is None:
            return None
        samples, real = at.get("samples", 1), at.get("real_limit_m", 0)
        limit = allocatable if trigger.measured_against is SatisfactionOf.ALLOCATABLE else real
        found = Satisfaction(at.get("used_m", 0), at.get("request_m", 0), limit)
        return found if samples or at is average else None

    average = given["window_avg"]
    samples = 0 if average is None else average.get("samples", 0)
    enough = trusted(samples, given["window_s"] * 1_000_000, given["collect_interval_s"] * 1_000_000)
    before, latest = seen(average), seen(given["latest"])
    got = release(trigger, before, latest).cpu_m if enough and before is not None else 0
    yield "release_batch_cpu_m", case.expect["release_batch_cpu_m"], got


def used_releases(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    for resource in ("cpu_m", "memory"):
        if f"capacity_{resource}" in given:
            config = given["config"]
            no_matter(config, "priority_threshold")  # it chooses the victims
            amounts = given[f"capacity_{resource}"], given[f"node_used_{resource}"]
            got = used_release(config["used_threshold_pct"], config["used_lower_pct"], *amounts)
            yield f"release_{resource}", case.expect[f"release_{resource}"], got


def _pods(given: dict[str, Any]) -> list[PodUse]:
    pods = []
    for pod in given.get("pods", ()):
        labels = {EVICTION_ENABLED: "true"} if pod["evict_enabled"] else {}
        if pod["sub_priority"] is not None:
            labels[SUB_PRIORITY] = str(pod["sub_priority"])
        notes = {}
        if pod["allowed_triggers"] is not None:
            notes[EVICTION_POLICY] = json.dumps([_POLICIES.get(name, name) for name in pod["allowed_triggers"]])
        if pod["eviction_priority"] is not None:
            notes[EVICTION_PRIORITY] = str(pod["eviction_priority"])
        asked = {name.removesuffix("_m"): amount or 0 for name, amount in pod.get("request", {}).items()}
        pool = POOL.get(PriorityClass(pod["priority_class"] or pod["class"] or ""))
        if pool in _PREFIXES:  # beside the amounts of its pool, a pod may name those that the kubelet counts
            asked = {name: amount for name, amount in asked.items() if name.startswith(_PREFIXES[pool])}
        cpu_m = sum(amount for name, amount in asked.items() if name.endswith("cpu"))
        memory_bytes = sum(amount for name, amount in asked.items() if name.endswith("memory"))
        name, phase = pod["name"], one_of(pod, "phase", _PHASES, "Running")
        pods.append(
            PodUse(
                NodePod(
                    uid=name,
                    namespace="test",
                    name=name,
                    group=f"pods/{name}",
                    qos=QoSClass(pod.get("qos", "BE")),
                    priority_class=PriorityClass(pod["priority_class"] or pod["class"] or ""),
                    priority=pod.get("priority", 0),
                    sub_priority=int(pod.get("sub_priority", 0)),
                    containers=(NodeContainer("main", "", cpu_request_m=cpu_m, memory_request_bytes=memory_bytes),),
                    labels=Labels.of(labels),
                    annotations=Labels.of(notes),
                    phase=_PHASES[phase],
                ),
                GroupUse(f"pods/{name}", cpu_m=pod["used"], working_set_bytes=pod["used"]),
            )
        )
    return pods


def _pools(given: dict[str, Any], suffix: str) -> tuple[tuple[Currency, int], ...]:
    names, has = ((f"{prefix}-{suffix}", pool) for prefix, pool in _POOLS.items()), given.get("node_allocatable", {})
    no_matter(has, *(f"{prefix}-{other}" for prefix in _POOLS for other in ("cpu", "memory")))  # of the other resource
    return tuple((pool, has[name]) for name, pool in names if has[name] is not None)


def allocatable_releases(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given, config = case.given, case.given["config"]
    no_matter(config, "alloc_priority_threshold")  # of a node without pods
    amounts = [*given.get("node_allocatable", {}), *(name for pod in given.get("pods", ()) for name in pod["request"])]
    suffix = "cpu" if any("cpu" in name for name in amounts) else "memory"
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
    triggers = {name: _read(name, given["config"]) for name in given.get("triggers", ())}
    no_matter(given["config"], *_SETTINGS)  # of triggers that are off
    if given["config"] is not None and given["config"].get("enable") is False:
        triggers = {}
    is_memory = one_of(given, "resource", ("memory", "cpu")) == "memory"
    one_of(given, "unit", ("bytes",) if is_memory else ("milli_cpu",), "bytes" if is_memory else "milli_cpu")
    verdict = _memory_verdict(given, triggers) if is_memory else _cpu_verdict(given, triggers)
    evicted = {eviction.uid for eviction in verdict.evictions}
    must = set(case.expect.get("must_evict", ()))
    yield "must_evict", must, evicted & must
    yield "must_not_evict", set(), evicted & set(case.expect.get("must_not_evict", ()))


def _memory_verdict(given: dict[str, Any], triggers: dict[str, Any]) -> PolicyVerdict:
    total, used = given["capacity"], given["node_used"]
    measured = (0, 0) if total is None or used is None else (total, used)  # as the agent has it before its first sample
    state = NodeState(0, 0, HostUse(1, None, *measured), tuple(_pods(given)))
    config = MemoryEvictionConfig(
        best_effort=triggers.get("memory_used_be"),
        allocatable=triggers.get("memory_allocatable"),
        used=triggers.get("memory_used"),
        pools_bytes=_pools(given, "memory"),
        strict_order=True,
    )
    return eviction_memory.decide(state, config, MemoryEvictionMemory())[0]


def _cpu_verdict(given: dict[str, Any], triggers: dict[str, Any]) -> PolicyVerdict:
    host = HostUse(given.get("capacity", 0) // 1000, given["node_used"], 0, 0)
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
