"""What the hook knows of its node when a container is created.

A decision may not wait, and needs figures that others keep: the agent (GPUs and their health, the CPU normalization
ratio), the kubelet (its CPU manager's policy), and the groups above a container. The former are read every few seconds
beside the calls; the last two files at the moment itself, since a quota or a CPU set above what the groups above have
is an error of the start. GPUs that no agent has told of for a minute are not known, and none is given to a container.
Limits: on cgroup v1 a group above may still be lowered between the answer and the runtime's write.

Source: kernel/sched/core.c (`__cfs_schedulable_v1`, cgroup v1 alone) and cpusets(7) for what is refused below a group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.gpu.mps import MpsControl
from cotenant.drivers.kubelet.cpu_manager import read_cpu_manager
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.engine.node.first_values import FirstValueFacts
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.services.clients.agent import AgentClient

_log = logging.getLogger(__name__)
KNOWN_FOR_S = 60.0
_ONLINE = "/sys/devices/system/cpu/online"


class _Told(msgspec.Struct, frozen=True):
    """What of the agent's `/v1/state` is used."""

    gpus: tuple[GpuCounters, ...] = ()
    cpu_ratio_milli: int = 1000


@dataclass(slots=True)
class FactsOfNode:
    """The node's facts; `read` renews them and blocks for a few seconds at most."""

    node: str
    agent: AgentClient | None
    cpu_manager_state: Path
    resctrl: ResctrlTree
    monotonic: Callable[[], float]
    mps: MpsControl | None = None  # the daemon by whose limits shares of GPUs are held
    shared_memory: Path | None = None  # of that daemon: a folder that is not there would end a container's creation
    now: FirstValueFacts = field(init=False)
    _told_s: float | None = None

    def __post_init__(self) -> None:
        self.now = FirstValueFacts(self.node)

    def read(self) -> None:
        """Renew what others keep. An agent that does not answer leaves its figures as they were, for a while."""
        told: _Told | None = None
        if self.agent is not None:
            try:
                told = msgspec.convert(self.agent.get("/v1/state"), type=_Told)
            except (CotenantError, msgspec.ValidationError, OSError):
                told = None
        if told is not None:
            self._told_s = self.monotonic()
            self.now = replace(self.now, gpus=told.gpus, cpu_ratio_milli=told.cpu_ratio_milli)
        elif self._told_s is None or self.monotonic() - self._told_s > KNOWN_FOR_S:
            self.now = replace(self.now, gpus=None)
        try:
            classes = frozenset(self.resctrl.groups()) if self.resctrl.present else frozenset()
        except CotenantError:
            classes = frozenset()
        policy = read_cpu_manager(self.cpu_manager_state).policy
        self.now = replace(self.now, cpu_manager=policy, cache_classes=classes, mps_answers=self._mps_answers())

    def _mps_answers(self) -> bool:
        if self.mps is None or (self.shared_memory is not None and not self.shared_memory.is_dir()):
            return False
        try:
            self.mps.servers()
        except CotenantError as error:
            _log.debug("MPS: %s", error)
            return False
        return True


@dataclass(frozen=True, slots=True)
class GroupsAbove:
    """What a pod's group and those above it allow a container."""

    knobs: CgroupKnobs
    online: str = _ONLINE

    def quota_ceiling_m(self, group: str) -> int | None:
        """The least CPU quota above, milli-CPU, where a higher one is refused (v1); 0 = cannot be read; None = any
        is accepted.
        """
        if self.knobs.layout.version("cpu") != 1:
            return None
        least: int | None = None
        for above in _upwards(group):
            try:
                allowed = parse_cpu_max(self.knobs.read(KnobTarget(above, Knob.CPU_MAX))).cpu_m
            except CotenantError:
                return 0
            if allowed is not None:
                least = allowed if least is None else min(least, allowed)
        return least

    def cpus(self, group: str) -> tuple[int, ...] | None:
        """The CPUs of the nearest group above that names some, else of the machine; None where they cannot be read."""
        try:
            for above in _upwards(group):
                if text := self.knobs.read(KnobTarget(above, Knob.CPUSET_CPUS)):
                    return tuple(parse_cpus(text))
            return tuple(parse_cpus(Path(self.online).read_text(encoding="ascii").strip()))
        except (CotenantError, OSError, UnicodeError):
            return None


def _upwards(group: str) -> list[str]:
    """The group and those above it, without the root."""
    parts = group.split("/") if group else []
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
