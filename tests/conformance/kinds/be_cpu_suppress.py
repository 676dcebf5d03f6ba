"""Kinds of be_cpu_suppress: the CPU allowance of best-effort work, its CPU set, its quota, and the recovery
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import one_of

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.policy.nodeqos.cpu import choice, suppression
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig, BestEffortCpuMemory, decide

GROUP = "besteffort"


def pod(uid: str, qos: str | None, used_m: int | None = None, **fields: Any) -> PodUse:
    raw = NodePod(uid, "default", uid, group=f"pods/{uid}", qos=QoSClass(qos or ""), **fields)
    return PodUse(raw, GroupUse(raw.group, cpu_m=used_m))


def state(cpus: tuple[LogicalCpu, ...], *pods: PodUse, **fields: Any) -> NodeState:
    host = HostUse(len(cpus), 0, memory_total_bytes=1 << 34, memory_used_bytes=0)
    return NodeState(**{"at_us": 0, "interval_us": 1_000_000, "host": host, "pods": pods, "cpus": cpus} | fields)


def processors(given: list[dict[str, int]]) -> tuple[LogicalCpu, ...]:
    return tuple(LogicalCpu(**entry) for entry in given)


def allowance(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    # A series of an unknown pod counts as not best effort, and so does an application outside the best-effort group.
    pods = []
    for entry in given.get("pods", ()):
        qos, is_known = entry["qos"], entry.get("known", True)
        pods.append(pod(entry["uid"], qos if is_known else None, entry["cpu_used_m"]))
    for app in given.get("host_apps", ()):
        qos, in_group = app["qos"], bool(app["in_besteffort_cgroup"])
        pods.append(
            pod(app["name"], qos if in_group or qos != "BE" else None, app["cpu_used_m"], host_application=True)
        )
    host = HostUse(given.get("node_capacity_cpu_m", 0) // 1000, given.get("node_cpu_used_m", 0), 1 << 34, 0)
    seen = state((), *pods, host=host, reserved_cpu_m=given.get("node_reserved_cpu_m", 0))
    threshold = given.get("threshold_pct", suppression.SuppressConfig().threshold_percent)
    config = suppression.SuppressConfig(threshold_percent=threshold, min_percent=given["min_pct"])
    got = suppression.allowance(seen, config)
    assert got is not None
    yield "be_allowed_cpu_m", case.expect["be_allowed_cpu_m"], got.cpu_m
    yield "be_allowed_cpu_m.terms", case.expect["be_allowed_cpu_m"], sum(term.value for term in got.reason.terms)


def pick(case: Any) -> Iterator[tuple[str, Any, Any]]:
    chosen = choice.pick(case.given["count"], processors(case.given["processors"]))
    yield "ordered_cpus", case.expect["ordered_cpus"], list(chosen)


def cpuset(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    system, exclusive = tuple(given.get("system_qos_cpus", ())), given.get("system_qos_exclusive", True)
    seen = state(
        processors(given["processors"]),
        pod("lsr", "LSR", own_cpus=tuple(given.get("lsr_cpus", ()))),
        pod("lse", "LSE", own_cpus=tuple(given.get("lse_cpus", ()))),
        pod("system", "SYSTEM", own_cpus=system if exclusive else ()),
        reserved_cpus=tuple(given.get("node_reserved_cpus", ())),
    )
    chosen = suppression.cpuset(
        given["allowed_cpu_m"],
        seen.cpus,
        given.get("current_be_cpus", ()),
        suppression.exclusive_cpus(seen),
        suppression.lent_cpus(seen),
        suppression.SuppressConfig(),
    )
    yield "be_cpus", sorted(case.expect["be_cpus"]), list(chosen)


def recover(case: Any) -> Iterator[tuple[str, Any, Any]]:
    """Off: the desired value is all CPUs except exclusive ones; the state machine's "recovered" is that nothing
    else is desired.
    """
    given = case.given
    seen = state(
        tuple(LogicalCpu(cpu, cpu // 2, 0, 0) for cpu in given["all_cpus"]),
        pod("lse", "LSE", own_cpus=tuple(given.get("lse_cpus", ()))),
        pod("system", "SYSTEM", own_cpus=tuple(given.get("system_qos_exclusive_cpus", ()))),
        reserved_cpus=tuple(given.get("node_reserved_cpus", ())),
        best_effort_group=GROUP,
        best_effort=GroupUse(GROUP, cpu_m=0),
    )
    target = KnobTarget(GROUP, Knob.CPUSET_CPUS)
    before = one_of(given, "previous_state", ("using", "recovered", ""), "")
    using = (SetKnob(target, "0-1", Reason("before", "")),) if before == "using" else ()
    config = BestEffortCpuConfig(suppress=suppression.SuppressConfig(enabled=False), idle=False)
    verdict, memory = decide(seen, config, BestEffortCpuMemory(wanted=using))
    wished = {wish.target: wish.value for wish in verdict.knobs}
    yield "be_cpus", case.expect["be_cpus"], list(parse_cpus(wished[target]))
    yield "state", case.expect["state"], "recovered" if set(wished) == {target} else "using"
    yield "be_cpus.again", verdict.knobs, decide(seen, config, memory)[0].knobs


def cfs_quota(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    config = suppression.SuppressConfig(period_us=given.get("period_us", 100_000))
    current = given.get("current_quota_us", -1)
    got = suppression.quota_us(current, given["allowed_cpu_m"], given["node_capacity_cpu_m"], config)
    yield "quota_us", case.expect["quota_us"], got


KINDS = {"allowance": allowance, "pick": pick, "cpuset": cpuset, "recover": recover, "cfs_quota": cfs_quota}
