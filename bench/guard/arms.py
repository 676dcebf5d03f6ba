"""The arms: what is done to best-effort work while the service runs, each on a tree of groups of its own.

Policies are to be compared as they are on a kubelet's node, where best-effort work has the least weight already, and
the kubelet rewrites what it owns. A root as `kubepods`, the service in a pod below `burstable`, four hogs in pods below
a group of weight 1 (two shares); the idle class is set on pods, since a kubelet that finds its best-effort group idle
cannot write its weight any more. The agent finds a kubelet's group and holds there what it holds beside one.
Limits: groups of our own, without a kubelet; its weights are written once.

Source of `SUPPRESS`: Koordinator, koordlet's CPU suppression by quota (65 % of the node less what the service uses,
once a second), by our implementation of its formula.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.policy.nodeqos.cpu.allowance import UNLIMITED_US, allowance_m, next_quota_us
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig
from cotenant_lab.experiments.site.site import Site, in_plant, now_us

HOGS = 4
ROOT, BURSTABLE, SERVICE = "kubepods", "kubepods/burstable", "kubepods/burstable/pod-service"
_BURSTABLE_WEIGHT, _MIN_WEIGHT = "50", "1"  # half a CPU requested; nothing requested
_CAPACITY_M = 1000  # the plant's core


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm. Without `hogs` the service is alone."""

    name: str
    what: str
    hogs: bool = True
    idle: bool = False  # the idle class, on each pod
    suppress: bool = False
    agent: bool = False
    slice_us: int = 0  # of the hogs' tasks; 0 = the kernel's

    @property
    def best_effort(self) -> str:
        """The group of its best-effort pods. The agent's has a kubelet's own name: what a kubelet writes there is
        left to it.
        """
        if self.agent:
            return in_plant(f"{ROOT}/besteffort")
        return in_plant(f"{ROOT}/besteffort-{self.name.replace(' ', '-')}")

    @property
    def pods(self) -> list[str]:
        """The groups of its best-effort pods."""
        return [f"{self.best_effort}/pod{number}" for number in range(HOGS)]


ALONE = Arm("alone", "the service alone", hogs=False)
AGAIN = Arm("alone again", "the same once more: what the machine itself differs", hogs=False)
KUBE = Arm("kube", "weights of Kubernetes' classes, nothing else")
SUPPRESS = Arm("suppress", "Koordinator's budget by quota, once a second", suppress=True)
IDLE = Arm("idle", "the idle class on each pod, nothing else", idle=True)
SLICE = Arm("slice", "hogs with a slice of 100 ms, nothing else", slice_us=100_000)
OURS = Arm("cotenant", "the agent with its defaults but for the suppression", agent=True)
ARMS = {arm.name: arm for arm in (ALONE, AGAIN, KUBE, SUPPRESS, IDLE, SLICE, OURS)}
DEFAULT = (ALONE, AGAIN, KUBE, SUPPRESS, IDLE, OURS)


def make_groups(site: Site, arms: tuple[Arm, ...]) -> None:
    """The groups of all arms with their weights."""
    site.make_plant(ROOT, BURSTABLE, SERVICE)
    for group in (BURSTABLE, SERVICE):
        _set(site, in_plant(group), Knob.CPU_WEIGHT, _BURSTABLE_WEIGHT)
    for arm in arms:
        if not arm.hogs:
            continue
        for group in (arm.best_effort, *arm.pods):
            site.cgroups.make(group, str(site.plant_cpu))
            _set(site, group, Knob.CPU_WEIGHT, _MIN_WEIGHT)
        if arm.idle:
            for pod in arm.pods:
                _set(site, pod, Knob.CPU_IDLE, "1")


class Suppression:
    """Koordinator's loop: each call sets the quota for what the service used since the last one."""

    def __init__(self, site: Site, group: str) -> None:
        self._site, self._group = site, group
        self._config = SuppressConfig()
        self._quota_us = UNLIMITED_US
        self._before = self._reading()
        self._decide(0)

    def look(self) -> None:
        """One look, once a second."""
        at_us, used_us = self._reading()
        services_m = (used_us - self._before[1]) * 1000 // max(1, at_us - self._before[0])
        self._before = at_us, used_us
        self._decide(services_m)

    def _decide(self, services_m: int) -> None:
        config = self._config
        allowed_m = allowance_m(_CAPACITY_M, config.threshold_percent, services_m, 0, 0)
        next_us = next_quota_us(
            self._quota_us,
            allowed_m,
            _CAPACITY_M,
            config.period_us,
            config.floor_us,
            config.dead_band_ppm,
            config.growth_ppm,
        )
        if next_us != self._quota_us:
            self._quota_us = next_us
            _set(self._site, self._group, Knob.CPU_MAX, f"{next_us} {config.period_us}")

    def _reading(self) -> tuple[int, int]:
        return now_us(), self._site.cgroups.cpu_us(in_plant(SERVICE))


def _set(site: Site, group: str, knob: Knob, value: str) -> None:
    site.cgroups.knobs.write(KnobTarget(site.cgroups.path(group), knob), value)
