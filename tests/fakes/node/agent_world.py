"""An in-memory machine for the agent's process: its sensor, knobs, keeper, sources and clocks, each of which can be
made to fail.

The keeper is the real one (`services/keeper`) over knobs in memory, without its threads, so that nothing depends on
timing; time passes when a test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fakes.node.fake_knobs import FakeKnobs
from tests.fakes.node.kept_knobs import KeptKnobs

from cotenant.engine.node.mode import AgentMode
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.machine.counters import (
    GpuCounters,
    GroupCounters,
    HostCounters,
    LogicalCpu,
    NodeSample,
    Pressure,
    Stall,
)
from cotenant.model.machine.knob import GiveBack, KnobChange, KnobLease, KnobScope, LeaseAnswer, SetKnob
from cotenant.model.machine.node_decision import EvictPod
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent.components import AgentComponents, Clocks
from cotenant.services.agent.loop.triggers import TriggerSource
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.agent_settings.plain_groups import PlainGroup, WrittenAmounts
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

SECOND_US = 1_000_000
GIB = 1 << 30
_NO_STALL = Pressure(Stall(0, 0), Stall(0, 0), Stall(0, 0))


class AwayKeeper:
    """The real keeper over knobs in memory; while `away` it cannot be reached, while `hangs` it never answers."""

    def __init__(self, knobs: FakeKnobs, clock: Clock, roots: tuple[str, ...]) -> None:
        self.trail: list[KnobChange] = []
        self.executor = LeaseExecutor({KnobScope.CGROUP: knobs}, NoStateFile(), self, clock, KnobRules(roots))
        self.away = False
        self.hangs = False
        self.asked = 0

    def write(self, changes: Sequence[KnobChange]) -> None:
        self.trail.extend(changes)

    async def hold(self, wishes: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        await self._reach()
        return self.executor.hold(wishes)

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        await self._reach()
        return self.executor.give_back(requests)

    async def leases(self) -> tuple[KnobLease, ...]:
        await self._reach()
        return self.executor.leases()

    async def _reach(self) -> None:
        self.asked += 1
        if self.away:
            raise Transient("nobody listens on the keeper's socket")
        if self.hangs:
            await asyncio.Event().wait()


@dataclass
class AwaySource:
    """A source of pods that may be away, broken, or slow."""

    answer: tuple[NodePod, ...] = ()
    fails: CotenantError | None = None
    hangs: asyncio.Event | None = None  # until this is set
    asked: int = 0

    async def pods(self) -> tuple[NodePod, ...]:
        self.asked += 1
        if self.hangs is not None:
            await self.hangs.wait()
        if self.fails is not None:
            raise self.fails
        return self.answer


@dataclass
class Asked:
    """Evicted pods, and the answer to give."""

    pods: list[EvictPod] = field(default_factory=list)
    answer: tuple[bool, str] = (True, "evicted")
    fails: Exception | None = None

    async def evict(self, pod: EvictPod) -> tuple[bool, str]:
        self.pods.append(pod)
        if self.fails is not None:
            raise self.fails
        return self.answer


@dataclass
class World:
    """`use` is milli-CPU by group, `delay_ppm` waiting for a CPU by group."""

    config: AgentConfig
    cpus: int = 4
    use: dict[str, int] = field(default_factory=dict)
    delay_ppm: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)  # groups without counters
    sensor_fails: Exception | None = None
    now_us: int = 1_000 * SECOND_US
    wall_off_s: float = 0.0
    sources: dict[str, AwaySource] = field(default_factory=dict)
    triggers: dict[str, TriggerSource] = field(default_factory=dict)
    gpus: tuple[GpuCounters, ...] = ()
    pod_groups_changed: Callable[[], bool] = lambda: False
    more: dict[str, Any] = field(default_factory=dict)  # further ports

    def __post_init__(self) -> None:
        self.knobs = KeptKnobs(group for entry in self.config.groups for group in _with_parents(entry.group))
        clock = Clock(lambda: self.now_us, self.wall_s)
        self.keeper = AwayKeeper(self.knobs, clock, self.config.writable)
        self.evictions = Asked()
        self.posted: list[tuple[str, bytes]] = []
        self.post_fails: Exception | None = None
        self.samples = 0
        self._counters: dict[str, GroupCounters] = {}
        self._busy_us = 0

    def process(self) -> AgentProcess:
        """An agent on this machine."""
        return AgentProcess(
            self.config,
            AgentComponents(
                sensor=self,
                knobs=self.knobs,
                keeper=self.keeper,
                evictor=self.evictions,
                sources=self.sources,
                clocks=Clocks(lambda: self.now_us / SECOND_US, self.wall_s),
                mode=self.config.mode,
                cpus=tuple(LogicalCpu(cpu, cpu // 2, 0, 0) for cpu in range(self.cpus)),
                triggers=self.triggers,
                post=self.post,
                pod_groups_changed=lambda: self.pod_groups_changed(),
                **self.more,
            ),
        )

    def wall_s(self) -> float:
        return 1_700_000_000 + self.now_us / SECOND_US + self.wall_off_s

    async def post(self, url: str, body: bytes) -> None:
        if self.post_fails is not None:
            raise self.post_fails
        self.posted.append((url, body))

    def sample(self, groups: Sequence[str]) -> NodeSample:
        self.samples += 1
        if self.sensor_fails is not None:
            raise self.sensor_fails
        found = [self._counters.setdefault(group, _zero(group)) for group in groups if group not in self.gone]
        host = HostCounters(self.cpus, self._busy_us, 8 * GIB, 6 * GIB, pressure=_NO_STALL)
        return NodeSample(self.now_us, self.wall_s(), host, tuple(found), self.gpus)

    def pass_time(self, seconds: float = 1.0) -> None:
        """Everybody works for a while; expired leases come back."""
        us = round(seconds * SECOND_US)
        self.now_us += us
        self._busy_us += sum(self.use.values()) * us // 1000
        for group, old in self._counters.items():
            self._counters[group] = replace(
                old,
                cpu_us=(old.cpu_us or 0) + self.use.get(group, 0) * us // 1000,
                run_delay_us=(old.run_delay_us or 0) + self.delay_ppm.get(group, 0) * us // SECOND_US,
            )
        self.keeper.executor.tick()

    async def tick(self, process: AgentProcess, count: int = 1) -> None:
        """Some periods pass."""
        for _ in range(count):
            self.pass_time(process.config.period_ms / 1000)
            await process.ticker.try_tick()
            process.agent.validate()

    def vanish(self, group: str) -> None:
        """A group is removed, counters and knobs."""
        self.gone.add(group)
        self.knobs.remove(group)

    def appear(self, group: str) -> None:
        """A group that was gone, or never there, is made."""
        self.gone.discard(group)
        self._counters.pop(group, None)
        self.knobs.add(group)


def _with_parents(group: str) -> list[str]:
    parts = group.split("/")
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def _zero(group: str) -> GroupCounters:
    return GroupCounters(
        group,
        cpu_us=0,
        periods=0,
        throttled_periods=0,
        run_delay_us=0,
        memory_bytes=0,
        working_set_bytes=0,
        tasks=1,
        pressure=_NO_STALL,
    )


WEB = PlainGroup(
    group="top/web", name="shop/web", qos=QoSClass.LS, objective_p99_ms=5.0, requests=WrittenAmounts(cpu="1")
)
JOB = PlainGroup(group="top/job", name="jobs/one", qos=QoSClass.BE)
CONFIG = AgentConfig(node="n1", mode=AgentMode.ACT, writable=("top",), groups=(WEB, JOB), listen="")


def world(**more: Any) -> World:
    """A machine with a service and a best-effort job, with other settings than `CONFIG`'s."""
    return World(replace(CONFIG, **more))


def live(w: World, scenario: Callable[[AgentProcess], Awaitable[None]]) -> AgentProcess:
    """Run a scenario with the agent begun."""

    async def run() -> AgentProcess:
        process = w.process()
        await process.discover()
        await scenario(process)
        return process

    return asyncio.run(run())


def asked(config: AgentConfig) -> Callable[[], AgentConfig]:
    """What a reload reads."""
    return lambda: config
