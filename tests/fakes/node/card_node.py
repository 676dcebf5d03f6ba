"""A node on which a model server on a GPU gets into trouble for a known cause, under a law that is drawn at random.

The cards are NVML's as a test has them: the agent's own reader reads them, and limits of their power are written by
the keeper's own driver. How much a neighbour's use of a card slows the server, how that grows, how far its work on
the card follows its CPU and its power, and the noise differ by seed, and nobody but this file knows them. No clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from tests.fakes.node.fake_nvml import FakeNvml, Gpu

from cotenant.drivers.gpu.knobs import GpuKnobs
from cotenant.drivers.gpu.nvml import GpuReader
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.devices.card_sample import CardPath
from cotenant.model.machine.knob import UNLIMITED, Knob, KnobTarget
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import PPM, GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.model.machine.verdict import PolicyVerdict

SECOND_US = 1_000_000
OBJECTIVE_US = 500_000
SERVICE = "llm"
CARD_MIB = 80 * 1024
_LINK_BPS = 20_000_000_000
CLOCK_MHZ = 1980
_DRAW_MW = 600_000
_SHARED = {"b": 0, "c": 0, "d": 1, "e": 2}  # pods and the index of their card, beside the service on card 0
_APART = {"b": 1, "c": 2, "d": 3, "e": 4}
_ROOTS = ("root-a", "root-a", "root-a", "root-b", "root-b")


@dataclass
class Law:
    """How the server suffers, drawn once."""

    random: Random
    harm: float = 0.0
    power: float = 0.0
    follows_cpu: float = 0.0  # 0: a few large kernels, 1: a kernel for each bit of CPU time
    follows_power: float = 0.0
    noise: float = 0.0

    def __post_init__(self) -> None:
        self.harm = self.random.uniform(1.5, 6.0)
        self.power = self.random.uniform(0.7, 2.0)
        self.follows_cpu = self.random.uniform(0.0, 1.0)
        self.follows_power = self.random.uniform(0.5, 1.0)
        self.noise = self.random.uniform(0.05, 0.2)


@dataclass
class CardNode:
    """`guilty`: the pod that disturbs, "" for none; `path`: where. On PCIe each pod has a card of its own."""

    random: Random
    guilty: str = "b"
    path: CardPath = CardPath.SM
    from_s: int = 20
    load_growth: float = 1.0  # of the service's requests
    window_s: int = 1  # over which its latency is measured
    grace_s: int = 5
    full: bool = True  # whether the guilty pod fills the card; otherwise it comes and goes and leaves room
    nobodys: bool = False  # the guilty process is in no pod
    within: bool = False  # ... or in the service's own
    at_s: int = 0
    gone: set[str] = field(default_factory=set)
    leaves: dict[str, int] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)  # CPUs, by group
    frozen: set[str] = field(default_factory=set)
    threads: int = 100
    slices: set[str] = field(default_factory=set)  # cards with a short time-slice
    follows_slice: bool = False  # whether the server waits less with one
    stays_slow: bool = False
    uid_of: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.law = Law(self.random)
        self.on = dict.fromkeys(_SHARED, 0.0)
        self.levels: list[float] = []
        self.nvml = FakeNvml(
            *(
                Gpu(f"GPU-{index}", total=CARD_MIB << 20, bus=f"00000000:{index:02x}:00.0", power_mw=700_000)
                for index in range(5)
            )
        )
        self.reader = GpuReader(
            self.nvml, lambda pid: self.uid_of.get(pid, ""), lambda bus: _ROOTS[int(bus.split(":")[1], 16)]
        )
        locks = mkdtemp(prefix="cotenant-test-")
        finalize(self, rmtree, locks, ignore_errors=True)
        self.knobs = GpuKnobs(self.nvml, Path(locks))

    @property
    def cards(self) -> Mapping[str, int]:
        """The index of each pod's card."""
        return _APART if self.path is CardPath.PCIE else _SHARED

    def obey(self, verdict: PolicyVerdict) -> None:
        """Apply the verdict's knobs and begin its evictions; a limit of power is given back when it is not held."""
        self.limits, self.frozen, self.threads, power = {}, set(), 100, {gpu.uuid: 700_000 for gpu in self.nvml.gpus}
        clocks = dict.fromkeys(power, UNLIMITED)
        self.slices = set()
        for wish in verdict.knobs:
            match wish.target.knob:
                case Knob.CPU_MAX:
                    self.limits[wish.target.group] = (parse_cpu_max(wish.value).quota_us or PPM) / 100_000
                case Knob.CGROUP_FREEZE:
                    self.frozen.add(wish.target.group)
                case Knob.GPU_POWER:
                    power[wish.target.group] = int(wish.value)
                case Knob.GPU_CLOCKS:
                    clocks[wish.target.group] = wish.value
                case Knob.GPU_TIMESLICE:
                    self.slices.add(wish.target.group)
                case Knob.MPS_THREADS:
                    self.threads = int(wish.value)
        for uuid, limit_mw in power.items():
            self.knobs.write(KnobTarget(uuid, Knob.GPU_POWER), str(limit_mw))
        for uuid, lock in clocks.items():
            if lock != UNLIMITED or self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode()).clocks_mhz is not None:
                self.knobs.write(KnobTarget(uuid, Knob.GPU_CLOCKS), lock)
        for eviction in verdict.evictions:
            self.leaves.setdefault(eviction.uid.removeprefix("uid-"), self.at_s + self.grace_s)

    def second(self) -> NodeState:
        self.at_s += 1
        self.gone |= {name for name, at_s in self.leaves.items() if self.at_s >= at_s}
        planted = self.at_s > self.from_s
        active = {name: self._active(name, planted) for name in self.on}
        load = (self.load_growth if planted else 1.0) * self.random.gauss(1, 0.05)
        self._turn_cards(active, load)
        harm = active[self.guilty] if self.guilty and planted else 0.0
        if self.follows_slice and "GPU-0" in self.slices:
            harm *= 0.1
        if self.stays_slow and planted:
            harm = 0.9
        # A server with continuous batching: its queue grows as the batch takes longer and as more is asked for.
        busy = min(0.95, 0.45 * load * (1 + 0.3 * self.law.harm * harm**self.law.power))
        slow = (1 + self.law.harm * harm**self.law.power) * 0.55 / (1 - busy)
        self.levels.append(0.4 * slow * self.random.lognormvariate(0, self.law.noise))
        recent = self.levels[-self.window_s :]
        p99_us = round(OBJECTIVE_US * sum(recent) / len(recent))
        requests = round(40 * load * self.window_s)
        late = 0.0 if p99_us <= OBJECTIVE_US else min(1.0, 0.03 * p99_us / OBJECTIVE_US)
        health = ServiceHealth(self.window_s * SECOND_US, requests, p99_us, round(requests * late), 0)
        own = GroupUse("pods/llm", cpu_m=round(800 * load), run_delay_ppm=20_000, cpu_stall_ppm=5_000)
        pods = [PodUse(service_pod(), own, health=health), *(self._pod(name) for name in sorted(self.on))]
        return NodeState(
            at_us=self.at_s * SECOND_US,
            interval_us=SECOND_US,
            host=HostUse(16, 4000, 64 << 30, 20 << 30, io_stall_ppm=0),
            pods=tuple(pod for pod in pods if pod.pod.name not in self.gone),
            best_effort_group="batch",
            gpus=self.reader.read(),
        )

    def _pod(self, name: str) -> PodUse:
        pod = batch_pod(name, self.grace_s)
        if name in self.leaves:
            pod = replace(pod, phase=NodePodPhase.TERMINATING)
        return PodUse(pod, GroupUse(pod.group, cpu_m=round(1000 * self._cpu(name)), io_read_bps=0, io_written_bps=0))

    def _cpu(self, name: str) -> float:
        if f"batch/{name}" in self.frozen:
            return 0.0
        return min(self.limits.get(f"batch/{name}", 9.0), 0.1 + self.on[name])  # who waits for a card spins

    def _active(self, name: str, planted: bool) -> float:
        """The part of a card, or of the link, that a pod takes after its limits."""
        wanted = self.on[name] = self._wanted(name, planted)
        if name in self.gone or f"batch/{name}" in self.frozen:
            return 0.0
        share = min(1.0, self.limits.get(f"batch/{name}", 9.0) / max(0.1, wanted))
        gpu = self.nvml.gpus[self.cards[name]]
        power = min(1.0, gpu.power_mw / _DRAW_MW)
        clock = 1.0 if gpu.clocks_mhz is None else min(1.0, gpu.clocks_mhz[1] / CLOCK_MHZ) ** 2
        return float(wanted * share**self.law.follows_cpu * power**self.law.follows_power * clock)

    def _wanted(self, name: str, planted: bool) -> float:
        before = self.on[name]
        if name == self.guilty:
            if not planted:
                return 0.0
            if self.full:
                return self.random.uniform(0.85, 0.95)
            stays = self.random.random() < 0.75 and self.at_s > self.from_s + 1
            return before if stays else self.random.choice((0.6, 0.0))
        if self.random.random() < 0.8:
            return before
        return self.random.uniform(0.05, 0.15) if self.random.random() < 0.6 else 0.3

    def _turn_cards(self, active: Mapping[str, float], load: float) -> None:
        for gpu in self.nvml.gpus:
            gpu.compute, gpu.active, gpu.used, gpu.at_us = [], [], 0, self.at_s * SECOND_US
        self._process(0, 1, f"uid-{SERVICE}", min(0.45, 0.25 * load), 0.3, _LINK_BPS // 100)
        for number, (name, amount) in enumerate(sorted(active.items()), start=2):
            if name in self.gone:
                continue
            uid = f"uid-{name}"
            if name == self.guilty:
                uid = "" if self.nobodys else f"uid-{SERVICE}" if self.within else uid
            on_sm = amount if self.path is not CardPath.MEMORY_BANDWIDTH else 0.5 * amount
            on_memory = amount if self.path is CardPath.MEMORY_BANDWIDTH else 0.3 * amount
            moved = round(amount * _LINK_BPS) if self.path is CardPath.PCIE else _LINK_BPS // 200
            self._process(self.cards[name], number, uid, on_sm, on_memory, moved)
        for gpu in self.nvml.gpus:
            gpu.draw_mw = min(gpu.power_mw, _DRAW_MW)
            gpu.percent = min(100, sum(sm for _, _, sm, _ in gpu.active))

    def _process(self, index: int, pid: int, uid: str, sm: float, memory: float, moved: int) -> None:
        gpu = self.nvml.gpus[index]
        self.uid_of[pid] = uid
        gpu.compute.append((pid, 10 << 30))
        gpu.used += 10 << 30
        gpu.active.append((pid, self.at_s * SECOND_US, min(100, round(100 * sm)), min(100, round(100 * memory))))
        gpu.moved = (gpu.moved[0] + moved // 2, gpu.moved[1] + moved // 2)


def service_pod() -> NodePod:
    return NodePod(
        f"uid-{SERVICE}",
        "shop",
        SERVICE,
        f"pods/{SERVICE}",
        QoSClass.LS,
        priority_class=PriorityClass.PROD,
        objective_p99_us=OBJECTIVE_US,
        labels={"app": SERVICE},
    )


def batch_pod(name: str, grace_s: int | None = None, **fields: Any) -> NodePod:
    return NodePod(f"uid-{name}", "batch", name, f"batch/{name}", QoSClass.BE, grace_s=grace_s, **fields)
