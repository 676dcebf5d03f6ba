"""Kinds of cpu_burst: the shared CPUs' state, static burst, one step of the quotas, one step of the tokens,
settings by pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import Unreadable

from cotenant.model.cluster.labels import QOS_CLASS, Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import CpuMax
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.policy.nodeqos.burst import throttle_tokens
from cotenant.policy.nodeqos.burst.config import ANNOTATION, BurstConfig, BurstPolicy, merged, read_annotation
from cotenant.policy.nodeqos.burst.policy import BurstMemory, CpuPoolState, PodPlan, plan, shared_use

NAMES = {
    "policy": "policy",
    "cpu_burst_pct": "cpuBurstPercent",
    "cfs_quota_burst_pct": "cfsQuotaBurstPercent",
    "cfs_quota_burst_period_s": "cfsQuotaBurstPeriodSeconds",
}


def annotation(given: dict[str, Any]) -> str:
    unknown = given.keys() - NAMES.keys()
    if unknown:
        raise Unreadable(f"the settings {sorted(unknown)} are not known")
    return json.dumps({NAMES[key]: value for key, value in given.items() if value is not None})


def settings(given: dict[str, Any] | None, **fields: Any) -> BurstConfig:
    return merged(BurstConfig(**fields), read_annotation(annotation(given)) if given else None)


def node(cpus: int, used_m: int | None, *pods: PodUse, **fields: Any) -> NodeState:
    host = HostUse(cpus, used_m, memory_total_bytes=1 << 34, memory_used_bytes=0)
    return NodeState(at_us=0, interval_us=1_000_000, host=host, pods=pods, **fields)


def pool_state(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    pods = []
    for entry in given.get("pods", ()):
        containers = (NodeContainer("c", "", cpu_request_m=entry.get("request_cpu_m", 0)),)
        qos = entry.get("qos", "")
        labels = Labels.of({QOS_CLASS: qos})
        raw = NodePod(entry["name"], "ns", entry["name"], "", QoSClass(qos), containers=containers, labels=labels)
        pods.append(PodUse(raw, GroupUse("", cpu_m=entry["used_cpu_m"])))
    seen = node(given["node_cpus"] or 0, given["node_used_cpu_m"], *pods)
    state, _ = shared_use(seen, BurstConfig(pool_threshold_percent=given.get("threshold_pct", 50)), BurstMemory())
    yield "state", case.expect["state"], state.value


def planned(given: dict[str, Any], pool: CpuPoolState) -> PodPlan:
    """The plan of a pod with settings in its annotation."""
    containers, uses, knobs = [], [], {}
    for element in given["containers"]:
        group = f"pod/{element['name']}"
        containers.append(NodeContainer(element["name"], group, cpu_limit_m=element["limit_cpu_m"] or 0))
        ratio = element["throttled_ratio"]
        throttled = None if ratio is None else round(ratio * 1_000_000)
        uses.append(GroupUse(group, cpu_m=element["used_cpu_m"], throttled_ppm=throttled))
        knobs[KnobTarget(group, Knob.CPU_MAX)] = quota_text(element.get("current_quota_us", -1), given["period_us"])
    knobs[KnobTarget("pod", Knob.CPU_MAX)] = quota_text(given.get("pod_current_quota_us", -1), given["period_us"])
    said = Labels.of({ANNOTATION: annotation(given.get("config", {}))})
    raw = NodePod("u", "ns", "p", "pod", QoSClass.LS, containers=tuple(containers), annotations=said)
    entry = PodUse(raw, GroupUse("pod"), tuple(uses))
    config = BurstConfig(period_us=given["period_us"])
    return plan(entry, node(16, 0, entry, knobs=knobs), config, BurstMemory(), pool)


def quota_text(quota_us: int, period_us: int) -> str:
    return str(CpuMax(None if quota_us < 0 else quota_us, period_us))


def static_burst(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = planned(case.given, CpuPoolState.IDLE)
    by_name = {part.container.name: part.burst_us for part in got.containers}
    for name, wanted in case.expect["container_burst_us"].items():
        yield f"container_burst_us.{name}", wanted, by_name.get(name)
    yield "pod_burst_us", case.expect["pod_burst_us"], got.burst_us


def quota_scale(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = planned(case.given, CpuPoolState(case.given["pool_state"]))
    by_name = {part.container.name: part.quota_us for part in got.containers}
    for name, wanted in case.expect["container_quota_us"].items():
        yield f"container_quota_us.{name}", wanted, by_name.get(name)
    yield "pod_quota_us", case.expect["pod_quota_us"], got.quota_us


def token_bucket(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    capacity = throttle_tokens.capacity_of(given["burst_period_s"], given["max_scale_pct"])
    elapsed_ms = given["elapsed_s"] * 1000
    after = throttle_tokens.step(given["tokens_before"] * 1000, capacity, given["usage_pct_of_limit"], elapsed_ms)
    yield "tokens_after", case.expect["tokens_after"], after // 1000
    yield "allowed", case.expect["allowed"], after > 0


def config_merge(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    node_config = settings(given["node_config"])
    pod_config = read_annotation(annotation(given["pod_config"])) if given["pod_config"] else None
    got = merged(node_config, pod_config)
    yield "policy", BurstPolicy(case.expect["policy"]), got.policy
    yield "cpu_burst_pct", case.expect["cpu_burst_pct"], got.burst_percent
    yield "cfs_quota_burst_pct", case.expect["cfs_quota_burst_pct"], got.quota_burst_percent
    yield "cfs_quota_burst_period_s", case.expect["cfs_quota_burst_period_s"], got.quota_burst_period_s


KINDS = {
    "pool_state": pool_state,
    "static_burst": static_burst,
    "quota_scale": quota_scale,
    "token_bucket": token_bucket,
    "config_merge": config_merge,
}
