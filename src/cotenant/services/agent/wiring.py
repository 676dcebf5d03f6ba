"""Opens the real world for an agent: drivers, keeper, cluster, and closes all of it again.

Problem: what a machine has decides which parts there are, and a part that is missing must cost only itself. Choice: one async context manager that
opens what the configuration asks for and this machine has; what it lacks is a `Gap` that every answer tells. Heavy parts are imported where they
are used: an agent without a cluster and without receivers never loads an HTTP client. Limits: what is missing at the start is not looked for
again, apart from groups.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import Layout, detect
from cotenant.drivers.cgroup.sensor import Cycles, NodeSensor, RunDelays
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.gpu.nvml import GpuReader, working_reader
from cotenant.drivers.proc.host import HostReader
from cotenant.drivers.proc.network import container_network
from cotenant.drivers.proc.schedstat import RunDelayReader
from cotenant.drivers.proc.topology import read_topology
from cotenant.drivers.psi.triggers import PressureFiles, PressureTrigger, Resource
from cotenant.engine.node.interfaces import Discovery, Keeper
from cotenant.engine.node.settings import Mode
from cotenant.model.errors import CotenantError, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, Scope
from cotenant.model.machine.node_pod import NodePod
from cotenant.services.agent.actions.evictions import Evictions
from cotenant.services.agent.actions.hardware_classes import open_classes, quietly
from cotenant.services.agent.actions.keepers import open_keeper
from cotenant.services.agent.components import Clocks, Ports
from cotenant.services.agent.configuration.config import AgentConfig, PlainEviction
from cotenant.services.agent.loop.triggers import Bell, LateBell, PressureBell
from cotenant.services.agent.reports.outbox import Post

if TYPE_CHECKING:
    from cotenant.drivers.kube.client.client import Client
    from cotenant.drivers.kubelet.tree import KubepodsTree
    from cotenant.services.agent.discovery.cluster_pods import ClusterNode

Tell = Callable[[Sequence[str], Sequence[str]], None]  # the services' groups, and those of best-effort work
_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_ports(config: AgentConfig, *, single: bool) -> AsyncIterator[Ports]:
    """The world for this configuration. `single`: knobs are turned in this process. Raises `Unsupported`, `InvalidInput`, `Permanent`."""
    clocks = Clocks(time.monotonic, time.time)
    async with AsyncExitStack() as stack:
        layout = detect(str(config.cgroup_root))
        keeper = await stack.enter_async_context(open_keeper(config, single=single))
        knobs = stack.enter_context(CgroupKnobs(layout))
        bells: dict[str, Bell] = {}
        tells: list[Tell] = []
        delays = _run_delays(config, layout, stack, bells, tells)
        groups, host = stack.enter_context(closing(CgroupReader(layout))), stack.enter_context(closing(HostReader()))
        if config.pressure.enabled and config.mode is not Mode.OBSERVE:
            bells["pressure"] = pressure = _pressure(config, layout, keeper, stack)
            tells.append(pressure.watch)
        client = await _client(config, stack)
        news = asyncio.Event()
        sources, background, tree = _sources(config, layout, stack, client, news)
        node = _cluster_node(config, client, background)
        classes = open_classes(config, layout, stack, single=single)
        yield Ports(
            sensor=NodeSensor(
                groups,
                host,
                clocks.now_us,
                clocks.wall,
                delays,
                _cycles(layout, stack, tells),
                _accelerators(stack),
                classes.uplink,
            ),
            knobs=knobs,
            keeper=keeper,
            evictor=_evictor(config, layout, stack, client),
            sources=sources,
            background=background,
            news=news,
            client=client,
            clocks=clocks,
            mode=config.mode,
            bells=bells,
            groups_seen=tuple(tells),
            supported=classes.knobs
            | {each for each in Knob if each.scope is Scope.CGROUP and not knobs.supported(each)},
            leases_seen=() if tree is None else (tree.held,),
            came_or_went=(lambda: False) if tree is None else tree.changed,
            allocatable=node.allocatable if node is not None else lambda: None,
            cache=classes.hardware,
            cache_use=classes.cache.use if classes.cache is not None else tuple,
            network=_networks(stack.enter_context(Groups(layout))),
            placers=tuple(each for each in (classes.cache, classes.uplink) if each is not None),
            gaps=classes.gaps,
            cpus=read_topology(),
            post=await _reports(config, stack),
        )


def _networks(groups: Groups) -> Callable[[NodePod], tuple[int, int] | None]:
    """What pods moved, asked of the first process found in each: all containers of a pod share its network."""

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


def _run_delays(
    config: AgentConfig, layout: Layout, stack: AsyncExitStack, bells: dict[str, Bell], tells: list[Tell]
) -> RunDelays | None:
    """From the probe where it can be had, else from schedstat; its bell joins `bells`, who wants to know the groups `tells`."""
    try:
        return _probe(config, layout, stack, bells, tells)
    except CotenantError as error:
        _log.info("no run-queue probe: %s", error)
        missing = Gap("who ran while a service waited", str(error))
    try:
        reader = stack.enter_context(closing(RunDelayReader(layout)))
    except Unsupported as error:
        _log.warning("%s", error)
        return None
    delays = ServicesDelays(reader, missing)
    tells.append(delays.watch)
    return delays


def _probe(
    config: AgentConfig, layout: Layout, stack: AsyncExitStack, bells: dict[str, Bell], tells: list[Tell]
) -> RunDelays:
    if not config.probe.enabled:
        raise Unsupported("the probe", "probe.enabled: true")
    from cotenant.drivers.ebpf.delays import ProbeDelays
    from cotenant.drivers.ebpf.runqueue import RunQueue

    tree = layout.by_controller.get("cpu") or layout.unified
    if tree is None:
        raise Unsupported("the probe", "a cgroup tree")
    probe = stack.enter_context(RunQueue(tree.path, tree.version))
    bell = LateBell(probe, round(config.probe.late_ms * 1000))
    bells["probe"] = bell
    tells.append(bell.watch)
    return ProbeDelays(probe, bell.late_us)


def _cycles(layout: Layout, stack: AsyncExitStack, tells: list[Tell]) -> Cycles | None:
    """Cycles and instructions of the services, where this machine has counters for them."""
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
    tells.append(lambda services, best_effort: counters.watch(services))
    return counters


@dataclass(slots=True)
class ServicesDelays:
    """Run delay of the services' groups only: looking at each task is what costs, and of best-effort work nobody asks it.

    Meets `drivers/cgroup/sensor.RunDelays`.
    """

    reader: RunDelayReader
    missing: Gap
    groups: frozenset[str] = field(default_factory=frozenset)

    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        """As the reader has it."""
        return self.reader.read([group for group in groups if group in self.groups], now_us)

    def gaps(self) -> tuple[Gap, ...]:
        """What it could not tell so far."""
        return (*self.reader.gaps(), self.missing)

    def watch(self, services: Sequence[str], best_effort: Sequence[str]) -> None:
        """Whose tasks to look at from now on."""
        self.groups = frozenset(services)


def _accelerators(stack: AsyncExitStack) -> GpuReader | None:
    """Where they can be read now; without a driver nothing is tried again."""
    try:
        reader = working_reader()
    except CotenantError as error:
        _log.info("no accelerators: %s", error)
        return None
    stack.callback(quietly(reader.close))
    return reader


def _cluster_node(
    config: AgentConfig, client: Client | None, background: dict[str, Callable[[], Coroutine[object, object, None]]]
) -> ClusterNode | None:
    """What the node has to give is asked for only where an eviction is judged by it."""
    asked = (config.policies.cpu_eviction, config.policies.memory_eviction)
    if client is None or not any(asked):
        return None
    from cotenant.services.agent.discovery.cluster_pods import ClusterNode

    node = ClusterNode(client, config.node)
    background["what the node has to give"] = node.run
    return node


def _pressure(config: AgentConfig, layout: Layout, keeper: Keeper, stack: AsyncExitStack) -> PressureBell:
    stall_us, window_us = config.pressure.stall_ms * 1000, config.pressure.window_ms * 1000
    from cotenant.services.keeper.client import KeeperClient
    from cotenant.services.keeper.wire import Trigger

    if isinstance(keeper, KeeperClient):

        async def from_keeper(group: str, resource: str) -> PressureTrigger:
            granted, taken_us = await keeper.trigger(Trigger(group, resource, stall_us, window_us))
            return PressureTrigger(granted, group, Resource(resource), stall_us, taken_us)

        return PressureBell(from_keeper)
    files = stack.enter_context(closing(PressureFiles(layout)))

    async def from_here(group: str, resource: str) -> PressureTrigger:
        return files.trigger(group, Resource(resource), stall_us, window_us)

    return PressureBell(from_here)


async def _client(config: AgentConfig, stack: AsyncExitStack) -> Client | None:
    """Of the cluster's API server. Raises `InvalidInput` where the access makes no sense; the server may be away."""
    if config.cluster is None:
        return None
    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client

    access = load_access(config.cluster.kubeconfig, config.cluster.context)
    client = Client(access, qps=10.0, burst=50, in_flight=8, timeout_s=10.0, user_agent="cotenant-agent")
    return await stack.enter_async_context(client)


def _sources(
    config: AgentConfig, layout: Layout, stack: AsyncExitStack, client: Client | None, news: asyncio.Event
) -> tuple[dict[str, Discovery], dict[str, Callable[[], Coroutine[object, object, None]]], KubepodsTree | None]:
    """Who says what runs here, in the order in which they are believed; what has to run for it; and kubelet's groups, where they are read."""
    asked, found = config.sources, dict[str, Discovery]()
    if not (asked.kubepods or asked.runtime or asked.pod_info or client):
        return found, {}, None
    from cotenant.drivers.kubelet.podinfo import PodInfo
    from cotenant.drivers.kubelet.tree import KubepodsTree

    tree = stack.enter_context(closing(KubepodsTree(layout)))
    if asked.pod_info:
        found["pod.info"] = PodInfo(tree, str(asked.pod_info))
    groups: Discovery = tree
    if asked.runtime:
        from cotenant.drivers.cri.client import CriClient
        from cotenant.drivers.cri.discovery import CriPods

        groups = CriPods(stack.enter_context(closing(CriClient(str(asked.runtime)))), tree)
    if client is not None:
        from cotenant.services.agent.discovery.cluster_pods import ClusterPods

        pods = ClusterPods(client, config.node, groups, news.set)
        return {"cluster": pods, **found}, {"pods of the cluster": pods.run}, tree
    return {**found, "runtime" if asked.runtime else "kubepods": groups}, {}, tree


def _evictor(config: AgentConfig, layout: Layout, stack: AsyncExitStack, client: Client | None) -> Evictions:
    kill: Callable[[str], None] | None = None
    if config.plain_eviction is PlainEviction.KILL and config.mode is Mode.ACT:
        kill = stack.enter_context(Groups(layout)).kill
    return Evictions(client, kill, config.writable)


async def _reports(config: AgentConfig, stack: AsyncExitStack) -> Post | None:
    if not config.reports.urls:
        return None
    from cotenant.services.reporting.sender import ReportSender  # an HTTP client, of some 15 MiB

    return (await stack.enter_async_context(ReportSender(config.reports.token_file))).post
