"""Opens the components of an agent on this machine: drivers, keeper, cluster, and closes them.

The machine determines which parts exist, and a missing part must only disable itself. One async context manager that
opens what the configuration asks for and this machine has; what is missing is a `Gap` in every answer. Heavy modules
are imported where they are used: an agent without a cluster and without receivers never loads an HTTP client.
Limits: what is missing at the start is not looked for again, apart from groups.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.cgroup.sensor import NodeSensor
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.kubelet.given_devices import POD_RESOURCES, GivenDevices
from cotenant.drivers.kubelet.roots import roots_here
from cotenant.drivers.proc.host import HostReader
from cotenant.drivers.proc.network import uplink_bps
from cotenant.drivers.proc.topology import read_topology
from cotenant.drivers.psi.triggers import PressureFiles, PressureResource, PressureTrigger
from cotenant.drivers.seals.seals import unsealed
from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.node.interfaces import Keeper, PodDiscovery
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.problems import NodeProblem
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.engine.node.recovery.stages import RecoveryRung
from cotenant.model.autonomy.autonomy import Action
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob, KnobScope
from cotenant.model.machine.run_queue import RunQueueReading
from cotenant.services.agent.actions.evictions import ApiEvictor
from cotenant.services.agent.actions.hardware_classes import open_classes
from cotenant.services.agent.actions.keepers import open_keeper
from cotenant.services.agent.collectors import collectors
from cotenant.services.agent.components import AgentComponents, Clocks
from cotenant.services.agent.discovery.kubelet import KubeletOfNode
from cotenant.services.agent.discovery.own_pods import UID_VARIABLE, OwnPods
from cotenant.services.agent.loop.stall_looks import StallLooks
from cotenant.services.agent.loop.triggers import AgentTriggers, TriggerSource
from cotenant.services.agent.measuring import GroupsReceiver, cpu_times, cycles, networks, run_delays, stalls
from cotenant.services.agent.reports.outbox import Post
from cotenant.services.agent.waits_of_keeper import WaitsOfKeeper
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.agent_settings.plain_groups import PlainEviction
from cotenant.services.knobs.host import groups_of_this_process
from cotenant.services.knobs.node_facts import NodeFactsReader

if TYPE_CHECKING:
    from cotenant.drivers.kube.client.client import Client
    from cotenant.drivers.kubelet.tree import KubepodsTree
    from cotenant.services.agent.discovery.cluster_pods import ClusterNode
    from cotenant.services.agent.trace_link import TraceLink

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_components(config: AgentConfig, *, single: bool) -> AsyncIterator[AgentComponents]:
    """The components for this configuration. `single`: knobs are written in this process. Raises `Unsupported`,
    `InvalidInput`, `Permanent`.
    """
    clocks = Clocks(time.monotonic, time.time)
    async with AsyncExitStack() as stack:
        layout = detect(str(config.cgroup_root))
        keeper = await stack.enter_async_context(open_keeper(config, single=single))
        knobs = stack.enter_context(CgroupKnobs(layout))
        triggers: dict[str, TriggerSource] = {}
        receivers: list[GroupsReceiver] = []
        delays = run_delays(config, layout, stack, triggers, receivers, _waits(config, keeper, stack))
        groups, host = stack.enter_context(closing(CgroupReader(layout))), stack.enter_context(closing(HostReader()))
        if config.pressure.enabled and config.mode is not AgentMode.OBSERVE:
            triggers["pressure"] = pressure = _pressure(config, layout, keeper, stack)
            receivers.append(pressure.watch)
        client = await _client(config, stack)
        discovery_due = asyncio.Event()
        sources, background, tree = _sources(config, layout, stack, client, discovery_due)
        sources |= _docker(config, stack)
        node = _cluster_node(config, client, background)
        permissions = _permissions(client, background)
        kubelet = _kubelet(config, layout, keeper, client, node)
        if kubelet.asks:
            background["kubelet"] = kubelet.run
        classes = open_classes(config, layout, stack, single=single)
        watched = stalls(config, layout, stack)
        if watched is not None:
            background["waits"] = StallLooks(watched, _problems(config, client, background, clocks)).run
        tree_groups = stack.enter_context(Groups(layout))
        yield AgentComponents(
            sensor=NodeSensor(
                groups,
                host,
                clocks.now_us,
                clocks.wall,
                delays,
                cycles(layout, stack, receivers),
                collectors(stack, classes.uplink),
            ),
            before_sample=delays.refresh if isinstance(delays, WaitsOfKeeper) else None,
            knobs=knobs,
            keeper=keeper,
            evictor=_evictor(config, layout, stack, client, lambda name: _held(permissions, name, clocks.wall())),
            permissions=permissions,
            sources=sources,
            background=background,
            discovery_due=discovery_due,
            own=OwnPods(groups_of_this_process(), os.environ.get(UID_VARIABLE, "")),
            client=client,
            clocks=clocks,
            mode=config.mode,
            triggers=triggers,
            cpu_times=cpu_times(config, layout, stack),
            groups_seen=tuple(receivers),
            supported=classes.knobs
            | {knob for knob in Knob if knob.scope is KnobScope.CGROUP and not knobs.supported(knob)}
            | knobs_of_cards(config.policies.recovery),
            leases_seen=() if tree is None else (tree.held,),
            pod_groups_changed=(lambda: False) if tree is None else tree.changed,
            allocatable=node.allocatable if node is not None else lambda: None,
            kubelet=kubelet,
            cache=classes.hardware,
            cache_use=classes.cache.use if classes.cache is not None else tuple,
            network=networks(tree_groups),
            uplink_bps=config.policies.network.link_bits // 8 if config.policies.network else uplink_bps(),
            kubelet_roots=(lambda: roots_here(layout)) if _asks_for_kubelet(config) else None,
            group_exists=tree_groups.exists,
            stalls=watched,
            holdings=unsealed(config.seal_certificate) if client is not None or config.sources.runtime else "",
            placers=tuple(
                cache_classes for cache_classes in (classes.cache, classes.uplink) if cache_classes is not None
            ),
            gaps=classes.gaps,
            cpus=read_topology(),
            post=await _poster(config.reports.urls, config.reports.token_file, config.reports.ca_file, stack),
            post_incident=await _poster(config.credit.url, config.credit.token_file, config.credit.ca_file, stack),
            traces=_traces(config, stack),
        )


def knobs_of_cards(recovery: RecoverySettings | None) -> frozenset[Knob]:
    """The knobs of GPUs that the settings name. Whether the keeper grants them, and the card has them, it says then."""
    if recovery is None:
        return frozenset()
    cards, rungs = bool(recovery.cards), recovery.rungs
    named = (
        (Knob.GPU_POWER, cards),
        (Knob.GPU_CLOCKS, cards and RecoveryRung.CLOCKS in rungs),
        (Knob.GPU_TIMESLICE, cards and RecoveryRung.TIMESLICE in rungs),
        (Knob.MPS_THREADS, recovery.threads_percent > 0),
    )
    return frozenset(knob for knob, is_named in named if is_named)


def _cluster_node(
    config: AgentConfig, client: Client | None, background: dict[str, Callable[[], Coroutine[object, object, None]]]
) -> ClusterNode | None:
    """The node's object: allocatable amounts, and the CPU normalization ratio that quotas are divided by."""
    if client is None:
        return None
    from cotenant.services.agent.discovery.cluster_pods import ClusterNode

    node = ClusterNode(client, config.node)
    background["node object"] = node.run
    return node


def _problems(
    config: AgentConfig,
    client: Client | None,
    background: dict[str, Callable[[], Coroutine[object, object, None]]],
    clocks: Clocks,
) -> Callable[[tuple[NodeProblem, ...]], Awaitable[object]] | None:
    """What writes the node's conditions, where there is a cluster that is to have them."""
    if client is None or config.cluster is None or not config.cluster.node_conditions:
        return None
    from cotenant.services.agent.reports.node_problems import NodeProblemWriter
    from cotenant.services.kube_process.events import EventRecorder

    events = EventRecorder(client, "cotenant-agent", config.node, per_s=1.0)
    background["events"] = events.run
    return NodeProblemWriter(client, config.node, events, clocks.monotonic, clocks.wall).told


def _kubelet(
    config: AgentConfig, layout: CgroupLayout, keeper: Keeper, client: Client | None, node: ClusterNode | None
) -> KubeletOfNode:
    """The facts about the node's kubelet, by all sources that there are."""
    from cotenant.services.knobs.client import KeeperClient

    async def of_keeper() -> KubeletFacts:
        assert isinstance(keeper, KeeperClient)
        return (await keeper.describe()).facts

    async def of_kubelet() -> bytes:
        assert client is not None
        return await client.request("GET", f"/api/v1/nodes/{quote(config.node, safe='')}/proxy/configz")

    asks_kubelet = client is not None and config.cluster is not None and config.cluster.kubelet_configz
    return KubeletOfNode(
        NodeFactsReader(
            layout.version("cpu"),
            lambda: None,
            config.cpu_manager_state,
            devices=GivenDevices(config.cpu_manager_state.parent / POD_RESOURCES),
        ),
        node.kubelet_version if node is not None else lambda: None,
        of_keeper if isinstance(keeper, KeeperClient) else None,
        of_kubelet if asks_kubelet else None,
    )


def _waits(
    config: AgentConfig, keeper: Keeper, stack: AsyncExitStack
) -> Callable[[Sequence[str]], Awaitable[RunQueueReading]] | None:
    """Asks a keeper in another process, over a connection of its own: a late answer must not delay a lease."""
    from cotenant.services.knobs.client import KeeperClient

    if not isinstance(keeper, KeeperClient):
        return None
    client = KeeperClient(config.keeper)
    stack.push_async_callback(client.close)
    return client.waits


def _pressure(config: AgentConfig, layout: CgroupLayout, keeper: Keeper, stack: AsyncExitStack) -> AgentTriggers:
    stall_us, window_us = config.pressure.stall_ms * 1000, config.pressure.window_ms * 1000
    from cotenant.services.knobs.client import KeeperClient
    from cotenant.services.knobs.wire import OpenTrigger

    if isinstance(keeper, KeeperClient):

        async def from_keeper(group: str, resource: str) -> PressureTrigger:
            granted, taken_us = await keeper.trigger(OpenTrigger(group, resource, stall_us, window_us))
            return PressureTrigger(granted, group, PressureResource(resource), stall_us, taken_us)

        return AgentTriggers(from_keeper)
    files = stack.enter_context(closing(PressureFiles(layout)))

    async def from_here(group: str, resource: str) -> PressureTrigger:
        return files.trigger(group, PressureResource(resource), stall_us, window_us)

    return AgentTriggers(from_here)


async def _client(config: AgentConfig, stack: AsyncExitStack) -> Client | None:
    """A client of the cluster's API server. Raises `InvalidInput` for invalid access settings; the server may be
    unavailable.
    """
    if config.cluster is None:
        return None
    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client

    access = load_access(config.cluster.kubeconfig, config.cluster.context)
    client = Client(access, qps=10.0, burst=50, in_flight=8, timeout_s=10.0, user_agent="cotenant-agent")
    return await stack.enter_async_context(client)


def _sources(
    config: AgentConfig,
    layout: CgroupLayout,
    stack: AsyncExitStack,
    client: Client | None,
    discovery_due: asyncio.Event,
) -> tuple[dict[str, PodDiscovery], dict[str, Callable[[], Coroutine[object, object, None]]], KubepodsTree | None]:
    """The sources in order of precedence, their background tasks, and kubelet's tree where it is read."""
    asked, found = config.sources, dict[str, PodDiscovery]()
    if not (asked.kubepods or asked.runtime or asked.pod_info or client):
        return found, {}, None
    from cotenant.drivers.kubelet.declared import Belief
    from cotenant.drivers.kubelet.podinfo import PodInfoFolder
    from cotenant.drivers.kubelet.tree import KubepodsTree
    from cotenant.drivers.seals.seals import read_seals

    tree = stack.enter_context(closing(KubepodsTree(layout)))
    belief = Belief(read_seals(config.seal_certificate), config.node)
    if asked.pod_info:
        found["pod.info"] = PodInfoFolder(tree, str(asked.pod_info))
    groups: PodDiscovery = tree
    if asked.runtime:
        from cotenant.drivers.cri.client import CriClient
        from cotenant.drivers.cri.discovery import CriPods

        groups = CriPods(stack.enter_context(closing(CriClient(str(asked.runtime)))), tree, belief=belief)
    if client is not None:
        from cotenant.services.agent.discovery.cluster_pods import ClusterPods

        pods = ClusterPods(client, config.node, groups, discovery_due.set, belief)
        return {"cluster": pods, **found}, {"pods of the cluster": pods.run}, tree
    return {**found, "runtime" if asked.runtime else "kubepods": groups}, {}, tree


def _docker(config: AgentConfig, stack: AsyncExitStack) -> dict[str, PodDiscovery]:
    if config.sources.docker is None:
        return {}
    from cotenant.drivers.docker.client import DockerClient  # an HTTP client, of some 15 MiB
    from cotenant.drivers.docker.discovery import DockerPods

    client = DockerClient(config.sources.docker, timeout_s=10.0)
    stack.push_async_callback(client.close)
    return {"docker": DockerPods(client)}


def _asks_for_kubelet(config: AgentConfig) -> bool:
    """Whether a node without a kubelet's groups is one on which nothing can be found."""
    return config.sources.kubepods or config.cluster is not None or config.kubelet_groups is not None


def _permissions(
    client: Client | None, background: dict[str, Callable[[], Coroutine[object, object, None]]]
) -> Permissions:
    """What may act here, by the cluster's Autonomy objects; without a cluster everything may."""
    if client is None:
        return Permissions()
    from cotenant.services.agent.discovery.cluster_pods import ClusterAutonomy

    autonomy = ClusterAutonomy(client)
    background["what may act"] = autonomy.run
    return autonomy.permissions


def _held(permissions: Permissions, namespace: str, now_s: float) -> str:
    return permissions.held(Action.RECOVERY, (namespace,), now_s).get(namespace, "")


def _evictor(
    config: AgentConfig, layout: CgroupLayout, stack: AsyncExitStack, client: Client | None, held: Callable[[str], str]
) -> ApiEvictor:
    kill: Callable[[str], None] | None = None
    if config.plain_eviction is PlainEviction.KILL and config.mode is AgentMode.ACT:
        kill = stack.enter_context(Groups(layout)).kill
    return ApiEvictor(client, kill, config.writable, held)


def _traces(config: AgentConfig, stack: AsyncExitStack) -> TraceLink | None:
    if not config.traces.url:
        return None
    from cotenant.services.agent.trace_link import TraceLink  # an HTTP client, of some 15 MiB

    link = TraceLink(config.traces.url, config.node, config.traces.token_file, config.traces.ca_file)
    stack.push_async_callback(link.close)
    return link


async def _poster(
    receivers: object, token_file: Path | None, ca_file: Path | None, stack: AsyncExitStack
) -> Post | None:
    """Posts with the token of this file, to receivers that this authority signed; None without receivers."""
    if not receivers:
        return None
    from cotenant.services.reporting.sender import ReportSender  # an HTTP client, of some 15 MiB

    return (await stack.enter_async_context(ReportSender(token_file, ca_file=ca_file))).post
