"""What of this machine is measured: waits for a CPU, stalls, cycles, CPU times and network counters.

Each part that is missing (no probe, no counters, no cgroup controller) becomes a `Gap` or None with a line in the log,
and nothing else stops.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field

from cotenant.drivers.cgroup.cpu_time import CpuTimes
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.cgroup.sensor import Cycles, RunDelays
from cotenant.drivers.cgroup.task_states import TaskStates
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.proc.network import container_network
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.run_queue import BLAME, RunQueueReading
from cotenant.services.agent.loop.triggers import LateWakeups, TriggerSource
from cotenant.services.agent.waits_of_keeper import WaitsOfKeeper
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.nodeview.stalls import StallWatch

GroupsReceiver = Callable[[Sequence[str], Sequence[str]], None]  # the services' groups, and the best-effort groups
_log = logging.getLogger(__name__)


def cpu_times(
    config: AgentConfig, layout: CgroupLayout, stack: AsyncExitStack
) -> Callable[[Sequence[str]], Mapping[str, int]] | None:
    """For looks between two ticks, where these are wanted and something may be done about what they show."""
    if not config.bursts.enabled or config.mode is AgentMode.OBSERVE:
        return None
    try:
        return stack.enter_context(closing(CpuTimes(layout))).read
    except Unsupported as error:
        _log.info("no looks between ticks: %s", error)
        return None


def networks(groups: Groups) -> Callable[[NodePod], tuple[int, int] | None]:
    """Network counters of pods, read from the first process of each: all containers of a pod share its network."""

    def network(pod: NodePod) -> tuple[int, int] | None:
        for group in (*(container.group for container in pod.containers), pod.group):
            try:
                pids = groups.pids(group) if group else ()
            except CotenantError:  # gone meanwhile
                continue
            if pids:
                return container_network(pids[0])
        return None

    return network


def run_delays(
    config: AgentConfig,
    layout: CgroupLayout,
    stack: AsyncExitStack,
    triggers: dict[str, TriggerSource],
    receivers: list[GroupsReceiver],
    ask: Callable[[Sequence[str]], Awaitable[RunQueueReading]] | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> RunDelays | None:
    """From the probe where available, else from schedstat, and then a keeper of its own process says who ran
    meanwhile. Adds its triggers to `triggers`, and receivers of groups to `receivers`.
    """
    try:
        return _probe(config, layout, stack, triggers, receivers)
    except CotenantError as error:
        _log.info("no run-queue probe in this process: %s", error)
        missing = Gap(BLAME, error.needs if isinstance(error, Unsupported) else str(error))
    delays: ServicesDelays | None = None
    try:
        delays = ServicesDelays(stack.enter_context(closing(RunDelayReader(layout))), missing)
        receivers.append(delays.watch)
    except Unsupported as error:
        _log.warning("%s", error)
    if ask is None or not config.probe.enabled:
        return delays
    waits = WaitsOfKeeper(delays, ask, monotonic)
    receivers.append(waits.watch)
    return waits


def stalls(config: AgentConfig, layout: CgroupLayout, stack: AsyncExitStack) -> StallWatch | None:
    """What groups wait for besides a CPU, where it is asked for and this machine can."""
    tree = layout.by_controller.get("cpu") or layout.unified
    if not config.probe.stalls or tree is None:
        return None
    from cotenant.drivers.ebpf.stalls import StallTracer

    try:
        probe = StallTracer(tree.path, tree.version, long_us=round(config.probe.long_wait_ms * 1000))
        watch = StallWatch(
            stack.enter_context(probe), system_us=stack.enter_context(closing(TaskStates(layout))).system_us
        )
        watch.view()
        return watch
    except CotenantError as error:
        _log.warning("waits for block I/O and memory are not measured: %s", error)
        return None


def _probe(
    config: AgentConfig,
    layout: CgroupLayout,
    stack: AsyncExitStack,
    triggers: dict[str, TriggerSource],
    receivers: list[GroupsReceiver],
) -> RunDelays:
    if not config.probe.enabled:
        raise Unsupported("the probe", "probe.enabled: true")
    from cotenant.drivers.ebpf.delays import ProbeDelays
    from cotenant.drivers.ebpf.runqueue import RunQueue

    tree = layout.by_controller.get("cpu") or layout.unified
    if tree is None:
        raise Unsupported("the probe", "a cgroup tree")
    probe = stack.enter_context(RunQueue(tree.path, tree.version))
    late = LateWakeups(probe, round(config.probe.late_ms * 1000))
    triggers["probe"] = late
    receivers.append(late.watch)
    return ProbeDelays(probe, late.late_us)


def cycles(layout: CgroupLayout, stack: AsyncExitStack, receivers: list[GroupsReceiver]) -> Cycles | None:
    """Cycles and instructions of the services, where this machine has hardware counters."""
    from cotenant.drivers.perf.group_events import GroupCycles

    tree = layout.by_controller.get("perf_event") or layout.unified
    try:
        if tree is None:
            raise Unsupported("cycles per instruction", "a cgroup tree for performance events")
        counters = stack.enter_context(closing(GroupCycles(tree.path)))
    except CotenantError as error:
        _log.info("no cycles per instruction: %s", error)
        return None
    counters.watch(())
    receivers.append(lambda services, best_effort: counters.watch(services))
    return counters


@dataclass(slots=True)
class ServicesDelays:
    """Run delay of the services' groups only: reading each task is expensive, and it is not needed for best-effort
    work.

    Implements `drivers/cgroup/sensor.RunDelays`.
    """

    reader: RunDelayReader
    missing: Gap
    groups: frozenset[str] = field(default_factory=frozenset)

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """Read the watched groups."""
        return self.reader.read([group for group in groups if group in self.groups], now_us)

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read so far."""
        return (*self.reader.gaps(), self.missing)

    def watch(self, services: Sequence[str], best_effort: Sequence[str]) -> None:
        """Set the groups whose tasks are read."""
        self.groups = frozenset(services)
