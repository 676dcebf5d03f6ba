"""An in-memory node for the node engine: groups whose counters grow as configured, and a keeper that can be made to
misbehave.

It drives an `Agent` as its process would: reads the knobs that the agent needs, samples, executes instructions, reports
answers. Knobs have no effect on what groups use; the lab's plant does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.policies import NodePolicy
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.counters import GroupCounters, HostCounters, LogicalCpu, NodeSample, Pressure, Stall
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.verdict import PolicyVerdict

SECOND = 1_000_000
GIB = 1 << 30


def pod(name: str, group: str, qos: QoSClass = QoSClass.LS, **more: object) -> NodePod:
    """A pod by its name; its UID is `uid-NAME`."""
    priority = PriorityClass.BATCH if qos is QoSClass.BE else PriorityClass.PROD
    made = NodePod(f"uid-{name}", "default", name, group, qos=qos, priority_class=priority)
    return replace(made, **more)  # type: ignore[arg-type]


@dataclass
class FakeKeeper:
    """Leases in memory. `refuses`: why a request is not granted, "" where it is; `loses`: whether answers are lost."""

    refuses: Callable[[SetKnob], str] = lambda element: ""
    loses: Callable[[], bool] = lambda: False
    held: dict[KnobTarget, str] = field(default_factory=dict)
    until: dict[KnobTarget, int] = field(default_factory=dict)
    foreign: set[KnobTarget] = field(default_factory=set)  # another process wrote these since
    once: list[SetKnob] = field(default_factory=list)

    def expire(self, now_us: int) -> None:
        for target in [t for t, until in self.until.items() if until <= now_us]:
            del self.held[target], self.until[target]

    def give_back(self, requests: Sequence[GiveBack]) -> list[LeaseAnswer]:
        answers = []
        for request in requests:
            yielded = request.target in self.foreign and request.target in self.held
            self._drop(request.target)
            answers.append(LeaseAnswer(request.target, LeaseState.YIELDED if yielded else LeaseState.RESTORED))
        return answers

    def hold(self, wanted: Sequence[SetKnob], now_us: int) -> list[LeaseAnswer]:
        answers = []
        for wish in wanted:
            why = self.refuses(wish)
            if why:
                answers.append(LeaseAnswer(wish.target, LeaseState.REFUSED, why))
            elif not wish.target.knob.undoable:
                self.once.append(wish)
                answers.append(LeaseAnswer(wish.target, LeaseState.RESTORED))
            elif wish.target in self.foreign and wish.target in self.held:
                self._drop(wish.target)
                answers.append(LeaseAnswer(wish.target, LeaseState.YIELDED, "another process wrote it"))
            else:
                self.held[wish.target], self.until[wish.target] = wish.value, now_us + wish.lasts_us
                answers.append(LeaseAnswer(wish.target, LeaseState.HELD))
        return answers

    def _drop(self, target: KnobTarget) -> None:
        self.held.pop(target, None)
        self.until.pop(target, None)
        self.foreign.discard(target)


@dataclass
class FakeNode:
    """One machine; `use` is milli-CPU by group."""

    agent: Agent
    pods: tuple[NodePod, ...] = ()
    use: dict[str, int] = field(default_factory=dict)
    cpus: int = 4
    keeper: FakeKeeper = field(default_factory=FakeKeeper)
    now_us: int = 1_000 * SECOND
    delay_ppm: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    knobs: dict[KnobTarget, str] = field(default_factory=dict)  # values without our leases
    counters: dict[str, GroupCounters] = field(default_factory=dict)
    busy_us: int = 0
    said: list[Instructions] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.show(self.pods)

    def show(self, pods: Sequence[NodePod]) -> None:
        """Discovery's answer."""
        self.pods = tuple(pods)
        self.agent.pods_seen(self.pods, self.now_us)

    def pass_time(self, us: int = SECOND) -> None:
        """Advance the clock and the counters."""
        self.now_us += us
        self.busy_us += sum(self.use.values()) * us // 1000
        for group in self.agent.groups():
            old = self.counters.get(group, GroupCounters(group, cpu_us=0, run_delay_us=0, pressure=_PRESSURE))
            self.counters[group] = replace(
                old,
                cpu_us=(old.cpu_us or 0) + self.use.get(group, 0) * us // 1000,
                run_delay_us=(old.run_delay_us or 0) + self.delay_ppm.get(group, 0) * us // SECOND,
                memory_bytes=self.memory.get(group, 0),
                working_set_bytes=self.memory.get(group, 0),
                tasks=1,
            )

    def sample(self) -> NodeSample:
        """A sample of the machine now."""
        groups = tuple(self.counters[group] for group in self.agent.groups() if group in self.counters)
        free = 8 * GIB - sum(self.memory.values())
        host = HostCounters(self.cpus, self.busy_us, 8 * GIB, free, pressure=_PRESSURE)
        return NodeSample(self.now_us, 1.7e9 + self.now_us / 1e6, host, groups)

    def knob_values(self) -> dict[KnobTarget, str]:
        """The current values of the knobs that the agent reads."""
        return {
            t: v for t in self.agent.knobs_to_read() if (v := self.keeper.held.get(t, self.knobs.get(t))) is not None
        }

    def carry_out(self, instructions: Instructions) -> Instructions:
        """Execute instructions as the process does."""
        self.said.append(instructions)
        self.keeper.expire(self.now_us)
        answers = self.keeper.give_back(instructions.give_back) + self.keeper.hold(instructions.hold, self.now_us)
        if answers and self.keeper.loses():
            self.agent.unreachable(self.now_us)
        elif answers:
            self.agent.answered(answers, self.now_us)
        self.agent.validate()
        return instructions

    def tick(self, us: int = SECOND) -> Instructions:
        """Advance one period and sample."""
        self.pass_time(us)
        topology = tuple(LogicalCpu(cpu, cpu // 2, 0, 0) for cpu in range(self.cpus))
        return self.carry_out(self.agent.sampled(self.sample(), self.knob_values(), topology))


_PRESSURE = Pressure(Stall(0, 0), Stall(0, 0), Stall(0, 0))


@dataclass
class FixedPolicy:
    """A policy that wants fixed values; the rule is its name."""

    name: str
    wants: dict[KnobTarget, str] = field(default_factory=dict)
    evicts: tuple[NodePod, ...] = ()
    ttl_us: int = 30 * SECOND
    fails: bool = False
    asked: int = 0

    def decide(self, state: NodeState, config: object, memory: int) -> tuple[PolicyVerdict, int]:
        self.asked += 1
        if self.fails:
            raise ValueError("broken on purpose")
        reason = Reason(self.name, f"{self.name} wants it")
        knobs = tuple(SetKnob(target, value, reason, self.ttl_us) for target, value in self.wants.items())
        evictions = tuple(EvictPod(one.uid, one.key, reason) for one in self.evicts)
        return PolicyVerdict((reason,), knobs, evictions), memory + 1

    def entry(self, **more: object) -> NodePolicy:
        """The policy as an entry."""
        return replace(NodePolicy(self.name, self.decide, None, 0, "its test says so"), **more)  # type: ignore[arg-type]


def weight(group: str) -> KnobTarget:
    """A knob that any group has."""
    return KnobTarget(group, Knob.CPU_WEIGHT)
