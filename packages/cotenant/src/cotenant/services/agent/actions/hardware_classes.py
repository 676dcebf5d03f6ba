"""Optional hardware classes: accelerators, a partitioned cache, an uplink with traffic classes.

A policy configures a class of the cache or of the uplink, which has no effect until the programs are in that class; and
missing hardware must cost nothing per tick. Each part is probed once, at the start. `CacheClasses` and `Uplink` put the
existing pods into their policy's class, called every few seconds because programs start and end.
Limits: moving tasks and marking packets need privileges that the keeper's socket does not grant: an agent of two
processes disables both policies and reports it (`NEEDS_SINGLE`). Tasks of a class that existed before us stay in it
when we exit; those of our own classes fall back with the class.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.resctrl.hardware import read_hardware
from cotenant.drivers.resctrl.members import assign, members
from cotenant.drivers.resctrl.monitoring import CacheUse, cache_use
from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.drivers.tc.knobs import TcKnobs, priority_of
from cotenant.drivers.tc.priority import PriorityMarks
from cotenant.engine.node.policies import PolicySettings
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.cache_partition import CacheHardware
from cotenant.model.machine.counters import Gap, NodeSample
from cotenant.model.machine.knob import Knob, KnobTarget, Vanished
from cotenant.model.machine.node_pod import NodePod
from cotenant.policy.nodeqos.io.network import BEST_EFFORT
from cotenant.policy.nodeqos.memory.cache import group_of
from cotenant.services.agent_settings.config import AgentConfig

NEEDS_SINGLE = "one process with root's rights, `cotenant agent --single`"
CLASSES = ("LSR", "LS", "BE")  # the results of `group_of`
_MAX_GROUPS = 10_000
_log = logging.getLogger(__name__)


class CacheClasses:
    """Puts the tasks of pods into the resctrl groups of their classes. Implements `components.Placer`."""

    what = "classes of the cache"

    def __init__(self, tree: ResctrlTree, groups: Groups) -> None:
        """`groups` lists the tasks of a pod."""
        self._tree = tree
        self._groups = groups

    def place(self, pods: Sequence[NodePod], policies: PolicySettings) -> None:
        """Move the tasks that are not in their class. Raises `Transient`, `Permanent` as the tree does."""
        wanted: dict[str, set[int]] = {}
        existing = [name for name in CLASSES if self._tree.exists(name)]
        if not existing:
            return
        for pod in pods:
            name = "" if policies.cache is None else group_of(pod.qos, policies.cache)
            if pod.group:
                wanted.setdefault(name if name in existing else "", set()).update(self._tasks(pod.group))
        ours: set[int] = set()
        for name in existing:
            with suppress(Vanished):  # the keeper removed it meanwhile
                ours |= members(self._tree, name)
                if name in wanted:
                    assign(self._tree, name, wanted[name])
        # Foreign groups are left alone: only tasks in a class of ours that no longer have one go back to the root.
        assign(self._tree, "", wanted.get("", set()) & ours)

    def use(self) -> tuple[CacheUse, ...]:
        """Occupancy and traffic of each existing class; () where this machine does not monitor."""
        found = []
        for name in ("", *CLASSES):
            with suppress(CotenantError):  # missing, or not monitored: left out
                found.append(cache_use(self._tree, name))
        return tuple(found)

    def _tasks(self, group: str) -> set[int]:
        tasks: set[int] = set()
        for inside in (group, *self._groups.walk(group, _MAX_GROUPS).groups):
            with suppress(Vanished):
                tasks.update(self._groups.threads(inside))
        return tasks


class Uplink:
    """Puts best-effort traffic into its class of the uplink. Implements `components.Placer`; `collect` makes a
    drivers/cgroup/sensor.SampleCollector.

    A pod with an address of its own is classified by that, any other program by its group.
    """

    what = "classes of the uplink"

    def __init__(self, knobs: TcKnobs, marks: PriorityMarks | None) -> None:
        """`marks`: None = a machine without a v2 tree; then only addresses are classified."""
        self._knobs = knobs
        self._marks = marks
        self._device = ""
        self._steered: tuple[str, ...] = ()
        self._sent = 0  # at the last call: less means a recreated class, without filters

    def place(self, pods: Sequence[NodePod], policies: PolicySettings) -> None:
        """Mark and steer while the best-effort class exists; undone at the first call after it. Raises as the
        drivers do.
        """
        self._device = policies.network.device if policies.network is not None else ""
        sent = self.best_effort_sent_bytes()
        if sent is None:
            self.close()
            return
        if sent < self._sent:
            self._steered = ()
        self._sent = sent
        best_effort = [pod for pod in pods if pod.best_effort]
        addresses = tuple(sorted({address for pod in best_effort for address in pod.addresses}))
        if addresses != self._steered:
            self._knobs.steer(self._target(), addresses)
            self._steered = addresses
        marked = {pod.group for pod in best_effort if pod.group and not pod.addresses}
        if self._marks is None:
            if marked:
                raise Unsupported("packets of groups without addresses of their own", "a cgroup v2 tree")
            return
        for group in self._marks.groups().keys() - marked:
            self._marks.clear(group)
        for group in sorted(marked):
            with suppress(Vanished):
                self._marks.mark(group, priority_of(BEST_EFFORT))

    def collect(self, sample: NodeSample) -> NodeSample:
        """The sample with the bytes sent by the best-effort class."""
        return replace(sample, best_effort_sent_bytes=self.best_effort_sent_bytes())

    def best_effort_sent_bytes(self) -> int | None:
        """Counter of bytes sent by the best-effort class; None where there is no class."""
        if not self._device:
            return None
        with suppress(Vanished):
            return self._knobs.sent_bytes(self._target())
        return None

    def close(self) -> None:
        """Remove all marks. Filters by address are removed with the class."""
        self._steered, self._sent = (), 0
        if self._marks is not None:
            self._marks.close()

    def _target(self) -> KnobTarget:
        return KnobTarget(f"{self._device}/{BEST_EFFORT}", Knob.RATE)


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes beside cgroups that this process can use."""

    cache: CacheClasses | None = None
    hardware: CacheHardware | None = None
    uplink: Uplink | None = None
    knobs: frozenset[Knob] = frozenset()
    gaps: tuple[Gap, ...] = ()


def open_classes(config: AgentConfig, layout: CgroupLayout, stack: AsyncExitStack, *, single: bool) -> Classes:
    """Open what this machine and set-up have. `stack` closes it. `single`: this process may write knobs itself."""
    if not single:
        wanted = (
            ("classes of the cache", config.policies.cache),
            ("classes of the uplink", config.policies.network),
        )
        return Classes(gaps=tuple(Gap(what, NEEDS_SINGLE) for what, settings in wanted if settings is not None))
    marks = PriorityMarks(layout.unified.path) if layout.unified is not None else None
    uplink = Uplink(TcKnobs(), marks)
    stack.callback(uplink.close)
    tree = ResctrlTree(str(config.resctrl_root))
    try:
        hardware = read_hardware(tree)
    except CotenantError as error:
        lacking = Gap("classes of the cache", error.needs if isinstance(error, Unsupported) else str(error))
        gaps = () if config.policies.cache is None else (lacking,)
        return Classes(uplink=uplink, knobs=frozenset({Knob.RATE}), gaps=gaps)
    cache = CacheClasses(tree, stack.enter_context(Groups(layout)))
    return Classes(cache, hardware, uplink, frozenset({Knob.RATE, Knob.SCHEMATA}))


def quietly(close: Callable[[], None]) -> Callable[[], None]:
    """Wrap a close whose errors are only logged."""

    def closed() -> None:
        try:
            close()
        except CotenantError as error:
            _log.info("%s", error)

    return closed
