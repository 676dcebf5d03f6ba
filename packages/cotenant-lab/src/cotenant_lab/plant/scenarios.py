"""Trials on the plant: the founding Test 1, and a hog that appears beside a service with an objective.

The results of the experiments on real cgroups must be exactly repeatable without them. One function per trial and arm,
each giving the figures of the live experiment.
Limits: those of the plant, see `machine.py`; a p99 here does not predict one there.

Source: Test 1 of the founding notes (a service whose CPU use is a sine wave, and a hog bound to the same core).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import sqrt

import numpy as np

from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant_lab.plant.driving import Drive, StallTrigger
from cotenant_lab.plant.loads import Hog, PlantService, SineLoad, percentile
from cotenant_lab.plant.machine import Plant

SECOND_US = 1_000_000
ROOT, GUESTS = "plant", "plant/guests"
SERVICE = f"{ROOT}/service"


class PlantArm(StrEnum):
    """The work beside the service."""

    ALONE = "alone"
    UNREGULATED = "unregulated"
    REGULATED = "regulated"


@dataclass(frozen=True, slots=True)
class SineResult:
    """Figures of one arm of Test 1."""

    arm: PlantArm
    correlation: float  # of delivered with demanded CPU, slot by slot
    delivered_share: float  # of what was demanded
    hog_share_of_idle: float | None  # of what the service did not demand; None without a hog
    demanded: tuple[float, ...]  # share of a CPU, a slot
    delivered: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class StepResult:
    """Figures of the trial in which a hog appears."""

    arm: PlantArm
    p99_before_us: int
    p99_after_us: int  # from 5 s after the hog's appearance to the end
    action_after_us: int | None  # from the hog's appearance to the first knob that reduces its CPU; None = never
    hog_cpu_share: float  # of the CPUs that the service left over, after its appearance
    drive: Drive | None


def policies(threshold_percent: int, idle: bool = True, guard: GuardConfig | None = None) -> PolicySettings:
    """Best-effort CPU by quota only. Koordinator's threshold is meant for many CPUs; on a single CPU it would leave
    the hog almost nothing.
    """
    suppress = SuppressConfig(form=SuppressionForm.QUOTA, threshold_percent=threshold_percent)
    return PolicySettings(best_effort_cpu=BestEffortCpuConfig(suppress, guard or GuardConfig(), idle))


def service_pod(objective_us: int | None = None) -> NodePod:
    """The protected pod."""
    container = NodeContainer("service", SERVICE, cpu_request_m=1000)
    return NodePod(
        "u-service", "plant", "service", SERVICE, QoSClass.LS, objective_p99_us=objective_us, containers=(container,)
    )


def hog_pods(count: int) -> tuple[NodePod, ...]:
    """Best-effort pods."""
    return tuple(NodePod(f"u-hog-{i}", "plant", f"hog-{i}", f"{GUESTS}/hog-{i}", QoSClass.BE) for i in range(count))


def sine(arm: PlantArm, seconds: int = 60, hogs: int = 8) -> SineResult:
    """Test 1 on one CPU: the service wants 10 to 70 % of it, the hogs all, each in a group of its own beside the
    service's where unregulated.
    """
    wave = SineLoad(SERVICE)
    pods = hog_pods(hogs) if arm is not PlantArm.ALONE else ()
    # Unregulated, as on a machine without a kubelet: all groups are siblings of equal weight.
    groups = {pod.uid: pod.group if arm is PlantArm.REGULATED else f"{ROOT}/{pod.name}" for pod in pods}
    guests = [Hog(groups[pod.uid]) for pod in pods]
    plant = Plant(1, [wave, *guests], (ROOT,))
    if arm is PlantArm.REGULATED:
        settings = AgentSettings(policies=policies(95), roots=(ROOT,), best_effort_group=GUESTS)
        Drive(plant, settings, (service_pod(), *pods)).run(seconds * SECOND_US)
    plant.advance(seconds * SECOND_US)
    demanded, delivered = wave.demanded, wave.delivered
    idle_us = seconds * SECOND_US - sum(demanded)
    return SineResult(
        arm,
        correlation(demanded, delivered),
        sum(delivered) / sum(demanded),
        sum(guest.done_us for guest in guests) / idle_us if guests else None,
        tuple(amount / wave.slot_us for amount in demanded),
        tuple(amount / wave.slot_us for amount in delivered),
    )


def step(
    arm: PlantArm, *, idle: bool = True, trigger: bool = False, seconds: int = 60, at_second: int = 20, seed: int = 0
) -> StepResult:
    """A service with an objective on two CPUs; in the `at_second` second four hogs appear in their group.

    `idle` False leaves the reaction to guard and quota alone; `trigger` adds a PSI trigger on the service's group.
    """
    rng = np.random.default_rng(seed)
    server = PlantService(SERVICE, rate_hz=300.0, request_us=1500, objective_us=8000, rng=rng)
    hogs = hog_pods(4) if arm is not PlantArm.ALONE else ()
    guests = [Hog(pod.group, from_us=at_second * SECOND_US) for pod in hogs]
    plant = Plant(2, [server, *guests], (ROOT, GUESTS))
    drive = None
    if arm is PlantArm.REGULATED:
        settings = AgentSettings(policies=policies(95, idle), roots=(ROOT,), best_effort_group=GUESTS)
        pods = (service_pod(server.objective_us), *hogs)
        triggers = (StallTrigger(SERVICE, stall_us=50_000),) if trigger else ()
        drive = Drive(plant, settings, pods, {pods[0].key: server}, triggers)
        drive.run(seconds * SECOND_US)
    plant.advance(seconds * SECOND_US)
    appeared_us = at_second * SECOND_US
    before = [took for ended, took in server.latencies if ended < appeared_us]
    after = [took for ended, took in server.latencies if ended >= appeared_us + 5 * SECOND_US]
    used_us = sum(guest.done_us for guest in guests)
    left_us = (
        2 * (seconds - at_second) * SECOND_US
        - len(server.latencies) * server.request_us * (seconds - at_second) / seconds
    )
    return StepResult(
        arm,
        percentile(before, 99),
        percentile(after, 99),
        _acted_after(drive, appeared_us),
        used_us / left_us,
        drive,
    )


def correlation(first: list[int], second: list[int]) -> float:
    """Pearson's correlation; 0 if either list is constant."""
    n = len(first)
    mean_a, mean_b = sum(first) / n, sum(second) / n
    both = sum((a - mean_a) * (b - mean_b) for a, b in zip(first, second, strict=True))
    spread = sqrt(sum((a - mean_a) ** 2 for a in first) * sum((b - mean_b) ** 2 for b in second))
    return both / spread if spread else 0.0


def _acted_after(drive: Drive | None, appeared_us: int) -> int | None:
    """Time from the hogs' appearance to the first reduction of their quota."""
    for at_us, instructions in drive.issued if drive else ():
        lowered = any(
            setting.target.knob is Knob.CPU_MAX
            and setting.target.group.startswith(GUESTS)
            and "guard" in setting.reason.text
            for setting in instructions.hold
        )
        if at_us > appeared_us and lowered:
            return at_us - appeared_us
    return None
