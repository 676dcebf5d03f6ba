"""A simulated node as its agent sees a real one: groups, counters, knobs, pods.

The agent must be the same code on a simulated node, and its limits must change what the node's services suffer.
Counters are the integrals of what the world says that each pod uses; cycles per instruction are its slowdown by
neighbours, as a counter of a real machine shows contention; a limit of a best-effort group or pod is a limit of the CPU
that its work uses in the world, so pressure on its neighbours falls with it.
Limits: CPU limits only, and of best-effort work; no waiting for a CPU and no pressure stall, for which the world has no
law; between two samples use counts as constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from cotenant.drivers.kubelet.declared import DeclaredPod, join
from cotenant.model.cluster.labels import QOS_CLASS, Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.counters import Gap, GroupCounters, HostCounters, NodeSample
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, KnobTarget, LeaseAnswer, SetKnob
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant_lab.plant.keeping import PlantKeeper
from cotenant_lab.plant.knobs import PlantKnobs
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.world import LiveWorld

ROOT, BEST_EFFORT = "kubepods", "kubepods/besteffort"
CYCLES_PER_US = 2500  # at 2.5 GHz
INSTRUCTIONS_PER_CYCLE = 1.0  # alone on its node
_GAPS = (Gap("run delay, pressure", "a law of the simulated world"),)


@dataclass(slots=True)
class _Counted:
    cpu_us: float = 0.0
    cycles: float = 0.0
    instructions: float = 0.0


class SimulatedMachine:
    """One node. Implements `Sensor`, `PodDiscovery` and `KnobPort` (engine/node/interfaces.py)."""

    def __init__(
        self,
        world: LiveWorld,
        node: str,
        pods: Callable[[], Sequence[PodObjectView]],
        clock: Callable[[], float],
        now_us: Callable[[], int],
    ) -> None:
        """`pods`: those bound to the node; `clock`: Unix seconds, the world's; `now_us`: monotonic."""
        self._world, self._node, self._pods = world, node, pods
        self._clock, self._now_us = clock, now_us
        self._knobs = PlantKnobs(world.config.node_cores, (BEST_EFFORT,))
        self._counted: dict[str, _Counted] = {}  # by group
        self._busy_us = 0.0
        self._sampled_us: int | None = None

    # --- discovery

    async def pods(self) -> tuple[NodePod, ...]:
        """As the Protocol."""
        return self.found()

    def found(self) -> tuple[NodePod, ...]:
        """The pods that run, by the rules that hold for pods of a kubelet."""
        found, declared = [], []
        for pod in self._pods():
            meta = pod.metadata
            group = group_of(pod)
            if pod.finished or not self._world.knows(meta.uid):
                continue
            self._knobs.add(group)
            found.append(NodePod(meta.uid, meta.namespace, meta.name, group))
            phase = NodePodPhase.TERMINATING if meta.terminating else NodePodPhase.RUNNING
            declared.append(
                DeclaredPod(
                    meta.uid,
                    meta.namespace,
                    meta.name,
                    Labels.of(meta.labels),
                    Labels.of(meta.annotations),
                    phase=phase,
                )
            )
        here = {pod.group for pod in found}
        for gone in [group for group in self._counted if group != BEST_EFFORT and group not in here]:
            del self._counted[gone]
            self._knobs.remove(gone)
        return join(found, declared)

    # --- sensor

    def sample(self, groups: Sequence[str]) -> NodeSample:
        """The machine and these groups now."""
        now_us = self._now_us()
        passed_us = 0 if self._sampled_us is None else max(0, now_us - self._sampled_us)
        self._sampled_us = now_us
        memory: dict[str, float] = {}
        for pod in self._pods():
            usage = self._world.usage(pod.metadata.uid)
            if usage is None:
                continue
            group, cpu_us = group_of(pod), usage.cpu_cores * passed_us
            self._busy_us += cpu_us
            for name in (group, BEST_EFFORT) if group.startswith(BEST_EFFORT) else (group,):
                counted = self._counted.setdefault(name, _Counted())
                counted.cpu_us += cpu_us
                counted.cycles += cpu_us * CYCLES_PER_US
                counted.instructions += cpu_us * CYCLES_PER_US * INSTRUCTIONS_PER_CYCLE / usage.slowdown
                memory[name] = memory.get(name, 0.0) + usage.memory_bytes
        self.apply()
        config = self._world.config
        used = round(self._world.node_usage(self._node)[1])
        host = HostCounters(
            config.node_cores, round(self._busy_us), config.node_memory_bytes, config.node_memory_bytes - used
        )
        asked = [self._read(group, memory) for group in groups if group in self._counted]
        return NodeSample(now_us, self._clock(), host, tuple(asked), gaps=_GAPS)

    def _read(self, group: str, memory: dict[str, float]) -> GroupCounters:
        counted, size = self._counted[group], round(memory.get(group, 0.0))
        return GroupCounters(
            group,
            cpu_us=round(counted.cpu_us),
            memory_bytes=size,
            working_set_bytes=size,
            cycles=round(counted.cycles),
            instructions=round(counted.instructions),
        )

    # --- knobs

    def supported(self, knob: Knob) -> Gap | None:
        """Only the CPU limit has an effect in the world."""
        return None if knob is Knob.CPU_MAX else Gap(str(knob), "a law of the simulated world")

    def read(self, target: KnobTarget) -> str:
        """As the Protocol."""
        return self._knobs.read(target)

    def raw(self, target: KnobTarget) -> str:
        """As the Protocol."""
        return self._knobs.raw(target)

    def write(self, target: KnobTarget, value: str) -> None:
        """As the Protocol; takes effect at once."""
        self._knobs.write(target, value)
        self.apply()

    def restore(self, target: KnobTarget, raw: str) -> None:
        """As the Protocol; takes effect at once."""
        self._knobs.restore(target, raw)
        self.apply()

    def apply(self) -> None:
        """Let each best-effort pod use what its own limit and its share of the whole group's leave it."""
        wanted: dict[str, float] = {}
        for pod in self._pods():
            group, uid = group_of(pod), pod.metadata.uid
            if group.startswith(BEST_EFFORT) and self._world.knows(uid):
                wanted[uid] = min(self._world.wanted_cores(uid), self._limit(group))
        total, most = sum(wanted.values()), self._limit(BEST_EFFORT)
        for uid, cores in wanted.items():
            allowed = cores * most / total if total > most else cores
            is_limited = allowed < self._world.wanted_cores(uid)
            self._world.limit(uid, allowed if is_limited else inf, self._clock())

    def _limit(self, group: str) -> float:
        """Cores."""
        if group not in self._knobs.groups():
            return inf
        limit = parse_cpu_max(self._knobs.value(group, Knob.CPU_MAX))
        return inf if limit.quota_us is None else limit.quota_us / limit.period_us


class SimulatedKeeper:
    """A `Keeper`: the engine of leases over a simulated machine's knobs, in this process."""

    def __init__(self, machine: SimulatedMachine, now_us: Callable[[], int], wall: Callable[[], float]) -> None:
        self._plant = PlantKeeper(machine, now_us, wall)

    async def hold(self, wanted: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        self._plant.tick()
        return self._plant.hold(wanted)

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        return self._plant.give_back(requests)

    async def leases(self) -> tuple[KnobLease, ...]:
        """As the Protocol."""
        self._plant.tick()
        return self._plant.leases()


def group_of(pod: PodObjectView) -> str:
    """The path of a pod's group; best-effort work has a group of its own, as a kubelet's."""
    is_best_effort = pod.metadata.labels.get(QOS_CLASS) == QoSClass.BE.value
    return f"{BEST_EFFORT if is_best_effort else ROOT}/{pod.metadata.uid}"
