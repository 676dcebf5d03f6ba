"""The pods of a node before its agent: whoever may write one writes its labels, its annotations and its amounts.

Two services with an objective and a pod of each class stand beside one pod that is made up anew each time, on a machine
whose counters grow. All policies are on and measure by the same samples, so a value that makes one of them fail, which
would leave all pods of the node without it, is found; so is one that no later message can carry.
Limits: cgroup and runtime are given; values of knobs are not written.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec

from bench.fuzz.inputs import changed, damaged, documents_of, text_input
from bench.fuzz.reader import Reader
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.pod.on_node import NODE_PODS, NodePodObject, declared_pods
from cotenant.drivers.kubelet.declared import join
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import Permanent
from cotenant.model.machine.counters import GroupCounters, HostCounters, LogicalCpu, NodeSample, Pressure, Stall
from cotenant.model.machine.knob import LeaseAnswer, LeaseState
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.model.machine.node_state import Allocatable, ServiceHealth
from cotenant.policy.interference.settings import InterferenceSettings
from cotenant.policy.nodeqos.eviction.cpu import CpuEvictionConfig
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig
from cotenant.policy.nodeqos.eviction.memory_pressure import MemoryPressureConfig
from cotenant.policy.nodeqos.io.disk import IoConfig
from cotenant.policy.nodeqos.io.disk_limits import BlockDevice
from cotenant.policy.nodeqos.memory.protection import MemoryQosConfig
from cotenant.policy.nodeqos.memory.reclaim import ReclaimConfig

_SECOND_US, _GIB, _CPUS = 1_000_000, 1 << 30, 8
_PRESSURE = Pressure(Stall(0, 0), Stall(0, 0), Stall(0, 0))
_NOTES: dict[str, Any] = {
    "koordinator.sh/cpuBurst": {
        "policy": "auto", "cpuBurstPercent": 1000, "cfsQuotaBurstPercent": 300, "cfsQuotaBurstPeriodSeconds": 10
    },
    "koordinator.sh/memoryQOS": {
        "policy": "auto", "minLimitPercent": 50, "lowLimitPercent": 80, "throttlingPercent": 60
    },
    "koordinator.sh/blkioQOS": {
        "blocks": [{"name": "8:0", "type": "device", "ioCfg": {"readBPS": 1, "writeIOPS": 9, "ioWeightPercent": 5}}]
    },
    "koordinator.sh/eviction-policy": ["MemoryEvict", "CPUEvict"],
    "koordinator.sh/eviction-priority": 7,
    "cotenant.io/objective-p99-ms": 12.5,
    "cotenant.io/tenant": "a",
    "scheduling.koordinator.sh/resource-status": {"cpuset": "0-3", "numaNodeResources": [{"node": 0}]},
    "scheduling.koordinator.sh/resource-spec": {"preferredCPUBindPolicy": "FullPCPUs"},
    "node.koordinator.sh/extended-resource-spec": {
        "containers": {"c0": {"requests": {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "1Gi"}}}
    },
    "controller.kubernetes.io/pod-deletion-cost": 3,
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "1h",
    "kubernetes.io/config.mirror": "x",
    "kubernetes.io/config.hash": "uid-web",
}  # fmt: skip
_LABELS = {
    "koordinator.sh/qosClass": ("BE", "LS", "LSR", "LSE", "SYSTEM"),
    "koordinator.sh/priority-class": ("koord-prod", "koord-mid", "koord-batch", "koord-free"),
    "koordinator.sh/priority": ("5", "-1", "9" * 30),
    "koordinator.sh/eviction-enabled": ("true",),
    "app.kubernetes.io/part-of": ("cotenant", "x"),
}
_AMOUNTS = ("1", "100m", "4", "1Gi", "64Gi", "0", "-1", "9223372036854775807", "1n", "8Ei", "1e3", "1.5")
_RESOURCES = ("cpu", "memory", "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu")


def agent_readers() -> list[Reader]:
    """One, of the made-up pod."""
    return [Reader("agent pods", documents_of(NODE_PODS.form, _shape), _Node().read, UNREADABLE, 0.05)]


def _shape(document: Any, rng: Random) -> None:
    meta, spec = document.get("metadata"), document.get("spec")
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        return
    meta |= {"name": "odd", "namespace": "default", "uid": "uid-odd"}
    names = rng.sample(tuple(_NOTES), rng.choice((0, 1, 2, len(_NOTES))))
    meta["annotations"] = {name: _text(changed(_NOTES[name], rng), rng) for name in names}
    meta["labels"] = {name: rng.choice(values) for name, values in _LABELS.items() if rng.random() < 0.4}
    spec["priority"] = rng.choice((None, 0, 5500, 9500, 2_000_001_000, 2**31 - 1, -(2**31)))
    spec["containers"] = [
        {"name": f"c{i}", "resources": {"requests": _amounts(rng), "limits": _amounts(rng)}}
        for i in range(rng.choice((0, 1, 2, 2)))
    ]


def _amounts(rng: Random) -> dict[str, str]:
    return {name: rng.choice(_AMOUNTS) for name in _RESOURCES if rng.random() < 0.4}


def _text(value: object, rng: Random) -> str:
    """The value as JSON, with numbers that no machine word holds among them."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if rng.random() < 0.15:
        text = text.replace("00", "0" * rng.choice((20, 400, 5000)), 1)
    if rng.random() < 0.1:
        text = damaged(text.encode(), rng).decode("utf-8", "replace")
    return text if rng.random() < 0.95 else text_input(rng)


class _Node:
    """An agent and its machine."""

    def __init__(self) -> None:
        policies = PolicySettings(
            interference=InterferenceSettings(),
            antagonists_leave=True,
            recovery=RecoverySettings(),
            memory=MemoryQosConfig(),
            reclaim=ReclaimConfig(),
            io=IoConfig(devices=(BlockDevice("8:0", ("/dev/sda",)),), follow_services=True, best_effort_weight=50),
            cpu_eviction=CpuEvictionConfig(),
            memory_eviction=MemoryEvictionConfig(),
            memory_pressure=MemoryPressureConfig(),
        )
        self._agent = Agent(AgentSettings(roots=("kubepods",), policies=policies), "n")
        self._now_us, self._busy_us, self._bad_wishes = 1_000 * _SECOND_US, 0, 0
        self._counters: dict[str, GroupCounters] = {}
        self._neighbours = tuple(
            NodePod(f"uid-{name}", "default", name, f"kubepods/{tier}/pod{name}", qos, objective_p99_us=objective)
            for name, tier, qos, objective in (
                ("web", "burstable", QoSClass.LS, 10_000),
                ("hog", "besteffort", QoSClass.BE, None),
            )
        )

    def read(self, text: bytes) -> None:
        """Three ticks with the pod, in one of the tiers of the tree. Raises what decoding does."""
        seen = msgspec.json.decode(text, type=NodePodObject)
        declared = declared_pods((seen,))
        for tier in ("burstable", "besteffort", "guaranteed"):
            group = f"kubepods/{tier}/pododd"
            containers = tuple(NodeContainer(f"c{i}", f"{group}/c{i}", container_id=f"c{i}") for i in range(2))
            found = NodePod("uid-odd", "default", "odd", group, containers=containers)
            self._agent.pods_seen(join((*self._neighbours, found), declared), self._now_us)
            self._agent.allocatable_seen(
                Allocatable(cpu_m=1000 * _CPUS, memory_bytes=8 * _GIB, batch_cpu_m=2000, batch_memory_bytes=_GIB)
            )
            for _ in range(3):
                self._tick()

    def _tick(self) -> None:
        self._now_us += _SECOND_US
        for group in self._agent.groups():
            old = self._counters.get(group, GroupCounters(group, cpu_us=0, run_delay_us=0, pressure=_PRESSURE))
            self._counters[group] = replace(
                old,
                cpu_us=(old.cpu_us or 0) + 2 * _SECOND_US,
                run_delay_us=(old.run_delay_us or 0) + 100_000,
                memory_bytes=2 * _GIB,
                working_set_bytes=2 * _GIB,
                periods=(old.periods or 0) + 10,
                throttled_periods=(old.throttled_periods or 0) + 5,
                tasks=1,
            )
        self._busy_us += 7 * _SECOND_US
        host = HostCounters(_CPUS, self._busy_us, 8 * _GIB, _GIB // 4, pressure=_PRESSURE)
        groups = tuple(self._counters[group] for group in self._agent.groups())
        sample = NodeSample(self._now_us, 1.7e9 + self._now_us / 1e6, host, groups)
        late = ServiceHealth(window_us=_SECOND_US, requests=100, p99_us=40_000, over_objective=50, age_us=0)
        self._agent.health_reported("uid-web", late, self._now_us)
        cpus = tuple(LogicalCpu(cpu, cpu // 2, 0, 0) for cpu in range(_CPUS))
        given = self._agent.sampled(sample, {}, cpus)
        answers = [LeaseAnswer(wish.target, LeaseState.HELD) for wish in given.hold]
        answers += [LeaseAnswer(back.target, LeaseState.RESTORED) for back in given.give_back]
        self._agent.answered(answers, self._now_us)
        for evicted in given.evict:
            self._agent.evicted(evicted.uid, False, "fuzz", self._now_us)
        self._agent.validate()
        for failure in self._agent.failing_policies():
            raise Permanent(str(failure))
        bad, self._bad_wishes = self._agent.counts().bad_wishes - self._bad_wishes, self._agent.counts().bad_wishes
        if bad:
            unfit = [entry.reason.text for entry in self._agent.decisions() if entry.reason.rule == "unfit"]
            if unfit and "run idle" not in unfit[-1]:
                raise Permanent(f"a policy wants what no kernel takes: {unfit[-1]}")
        said = (given, self._agent.held_knobs(), self._agent.decisions()[-20:], self._agent.report(1.7e9),
            self._agent.usage((60 * _SECOND_US,)), self._agent.explain("kubepods/burstable/pododd"))  # fmt: skip
        for value in said:
            msgspec.json.encode(value, enc_hook=str)
