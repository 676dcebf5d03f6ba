"""One tick of a node's engine: from counters to instructions. Goal: 5 ms of CPU at 50 groups, which leaves half of 1 %
of a core for reading.

Half of the pods are best effort; each pod has one container, so there are two groups per pod and one for all best
effort. Every service waits a little and reports latency; knobs are granted. `first` is the tick at which all groups are
new; the others are medians after a minute. `default` runs the policies that are on by default, `all` every policy that
needs no device.
"""

from __future__ import annotations

import argparse
import gc
from statistics import median
from time import process_time
from typing import Any

from bench.machine import show
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.counters import GroupCounters, HostCounters, LogicalCpu, NodeSample, Pressure, Stall
from cotenant.model.machine.knob import Knob, KnobTarget, LeaseAnswer, LeaseState
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.model.machine.node_state import ServiceHealth
from cotenant.policy.interference.settings import InterferenceSettings
from cotenant.policy.nodeqos.burst.config import BurstConfig, BurstPolicy
from cotenant.policy.nodeqos.eviction.cpu import CpuEvictionConfig
from cotenant.policy.nodeqos.eviction.goals import BestEffortMemoryTrigger
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig
from cotenant.policy.nodeqos.eviction.memory_pressure import MemoryPressureConfig
from cotenant.policy.nodeqos.io.disk import IoConfig
from cotenant.policy.nodeqos.memory.protection import ClassMemory, MemoryQosConfig
from cotenant.policy.nodeqos.memory.reclaim import ReclaimConfig

DEFAULT_GROUPS = (50, 200, 500)
SECOND_US = 1_000_000
GIB = 1 << 30
CPUS = 16
EVERY_POLICY = PolicySettings(
    burst=BurstConfig(policy=BurstPolicy.AUTO),
    interference=InterferenceSettings(),
    memory=MemoryQosConfig(ls=ClassMemory(min_percent=50, low_percent=80)),
    reclaim=ReclaimConfig(),
    io=IoConfig(best_effort_weight=10, service_weight=200),
    cpu_eviction=CpuEvictionConfig(),
    memory_eviction=MemoryEvictionConfig(best_effort=BestEffortMemoryTrigger()),
    memory_pressure=MemoryPressureConfig(),
)
POLICIES = {"default": DEFAULT_POLICIES, "all": EVERY_POLICY}


class Machine:
    """A node with constant load on all groups, and a keeper that grants everything."""

    def __init__(self, pods: int, policies: PolicySettings) -> None:
        self.agent = Agent(AgentSettings(roots=("pods",), policies=policies), "bench")
        self.services: list[str] = []
        self.taken: list[float] = []  # CPU seconds per tick
        self._now_us = 0
        self._knobs: dict[KnobTarget, str] = {}
        self._cpus = tuple(LogicalCpu(cpu, cpu // 2, 0, 0) for cpu in range(CPUS))
        made = [self._pod(number) for number in range(pods)]
        self.agent.pods_seen(made, 0)
        self.services = [pod.key for pod in made if not pod.best_effort]

    def tick(self) -> None:
        """Advance one second."""
        self._now_us += SECOND_US
        for key in self.services:
            self.agent.health_reported(key, ServiceHealth(SECOND_US, 200, 4000, 0, 0), self._now_us)
        sample = self._sample()
        begin = process_time()
        watched = self.agent.knobs_to_read()
        between = process_time()
        knobs = {target: self._knobs.get(target, _usual(target)) for target in watched}
        again = process_time()
        instructions = self.agent.sampled(sample, knobs, self._cpus)
        self.taken.append(process_time() - again + between - begin)
        self._knobs.update({wish.target: wish.value for wish in instructions.hold})
        answers = [LeaseAnswer(give_back.target, LeaseState.RESTORED) for give_back in instructions.give_back]
        answers += [LeaseAnswer(wish.target, LeaseState.HELD) for wish in instructions.hold]
        self.agent.answered(answers, self._now_us)

    def _sample(self) -> NodeSample:
        groups = self.agent.groups()
        share = 1000 * CPUS * 6 // (10 * len(groups))  # milli-CPU each, of 60 % of the machine
        now = self._now_us
        stall = Stall(now // 50, now // 100)
        counters = tuple(
            GroupCounters(
                group,
                cpu_us=now * share // 1000,
                periods=now // 100_000,
                throttled_periods=now // 1_000_000,
                throttled_us=now // 100,
                run_delay_us=now * share // 50_000,
                memory_bytes=64 << 20,
                working_set_bytes=48 << 20,
                refaults=now // 10_000,
                oom_kills=0,
                io_read_bytes=now,
                io_written_bytes=now,
                tasks=8,
                pressure=Pressure(stall, stall, stall),
            )
            for group in groups
        )
        host = HostCounters(CPUS, now * CPUS * 6 // 10, 64 * GIB, 32 * GIB, pressure=Pressure(stall, stall, stall))
        return NodeSample(now, now / 1e6, host, counters)

    @staticmethod
    def _pod(number: int) -> NodePod:
        guest = number % 2 == 1
        group = f"pods/{'be/' if guest else ''}p{number}"
        container = NodeContainer("c", f"{group}/c", "", 200, 400, 64 << 20, 128 << 20)
        return NodePod(
            f"uid-{number}",
            f"team-{number % 5}",
            f"p{number}",
            group,
            QoSClass.BE if guest else QoSClass.LS,
            priority_class=PriorityClass.BATCH if guest else PriorityClass.PROD,
            objective_p99_us=None if guest else 10_000,
            containers=(container,),
        )


def _usual(target: KnobTarget) -> str:
    usual = {Knob.CPU_MAX: "40000 100000", Knob.CPUSET_CPUS: f"0-{CPUS - 1}", Knob.MEMORY_HIGH: "max"}
    return usual.get(target.knob, "0")


def a_row(groups: int, variant: str, ticks: int) -> dict[str, Any]:
    machine = Machine(groups // 2, POLICIES[variant])
    for _ in range(60):
        machine.tick()
    first = max(machine.taken[:2])
    machine.taken.clear()
    for _ in range(ticks):
        machine.tick()
    machine.agent.validate()
    if machine.agent.counts().policy_failures:
        raise AssertionError("a policy failed")
    ordered = sorted(machine.taken)
    return {
        "groups": len(machine.agent.groups()),
        "variant": variant,
        "held": len(machine.agent.held_knobs()),
        "tick_ms": round(median(ordered) * 1e3, 2),
        "p99_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3, 2),
        "first_ms": round(first * 1e3, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.nodetick", description=__doc__)
    parser.add_argument("--groups", type=int, action="append")
    parser.add_argument("--ticks", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    gc.freeze()  # the benchmark's imports are not part of an agent's heap
    rows = [a_row(groups, variant, given.ticks) for groups in given.groups or DEFAULT_GROUPS for variant in POLICIES]
    show(rows, given.json, ("CPU time of one core. Reading the files is not part of it.",))


if __name__ == "__main__":
    main()
