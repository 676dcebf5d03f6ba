"""The agent's process: one event loop in which everything has a task of its own and nothing waits for another.

    ticks       sample -> engine -> keeper                       every period
    discovery   sources -> engine                                every 10 s, when a cluster has news, and when a pod's group came or went
    arrivals    names of pods' groups -> discovery               twice a period
    placing     pods -> classes of cache and uplink              every 2 s, where this process may
    bells       trigger or late wake-up -> engine -> keeper      when one rings
    reports     engine -> outboxes -> receivers                  every 30 s
    NodeMetric  engine -> API server                             as its spec says
    topology    machine, pods -> API server                      every 60 s, where it differs
    http        questions, metrics, services' latency

Problem: a node must stay in hand while the cluster, a receiver, the keeper or a source of pods is away for hours, and nothing may be left behind
at the end. Choice: the loop that holds knobs depends on nothing but the machine and the keeper; all else may fail alone, is counted, and is told in
`/metrics`. At the end (SIGTERM) every lease is asked back, within bounds; what cannot be asked for runs out at the keeper.
A reload (SIGHUP) reads the file again: what is wrong with it is told and changes nothing; a change of how to judge starts the engine anew, which
learns from the keeper what is held. Limits: what was opened at the start stays until a restart (`FIXED`); a discovery waits for its slowest source,
20 s at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING

from cotenant import __version__
from cotenant.drivers.http.traffic import Traffic
from cotenant.drivers.resctrl.monitoring import CacheUse
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.decision_log import HeldKnob
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.settings import Mode
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Lease
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import NodeState
from cotenant.services.agent import latency
from cotenant.services.agent.actions.class_placement import Placing
from cotenant.services.agent.components import Ports
from cotenant.services.agent.configuration.config import AgentConfig
from cotenant.services.agent.discovery.sources import Source, Sources, plain
from cotenant.services.agent.http import Pages, PodPage, StatePage
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.ticker import FAILING, Ticker
from cotenant.services.agent.metrics import Metrics
from cotenant.services.agent.reports.outbox import Outbox
from cotenant.services.running import cancelled

if TYPE_CHECKING:  # an HTTP client comes with these: only where there is a cluster
    from cotenant.services.agent.reports.devices import DeviceWriter
    from cotenant.services.agent.reports.nodemetric import NodeMetricWriter
    from cotenant.services.agent.reports.topology import NodeTopologyWriter

END_WITHIN_S = 5.0
STUCK_PERIODS = 10
LEAST_USE_M = 10  # milli-CPU; less is no work
LEAST_AGE_S = 0.05  # a younger sample says nothing else than a new one
FIXED = (  # for a restart
    "node",
    "cgroup_root",
    "resctrl_root",
    "listen",
    "insecure",
    "keeper",
    "state_dir",
    "cluster",
    "sources",
    "reports",
    "pressure",
    "probe",
    "plain_eviction",
)
_log = logging.getLogger(__name__)


class AgentProcess:
    """One node's agent. Attributes without underscore are read by metrics and pages."""

    def __init__(self, config: AgentConfig, ports: Ports) -> None:
        self.config = config
        self.ports = ports
        self.node, self.version, self.mode = config.node, __version__, config.mode.value
        self.metrics = Metrics(self)
        self.latency_counts = dict.fromkeys(latency.LatencyOutcome, 0)
        self.reloads = {"taken": 0, "refused": 0}
        self.pressure_events: dict[str, int] = {}
        self.placing = Placing(ports.placers, lambda: self.pods, self.policies)
        self.pods: tuple[NodePod, ...] = ()
        self.agent = self._new_agent()
        self.actor = Actor(self.agent, ports.keeper, ports.evictor, ports.clocks.now_us, leases_seen=ports.leases_seen)
        self.ticker = Ticker(
            self.agent,
            self.actor,
            ports.sensor,
            ports.knobs,
            monotonic=ports.clocks.monotonic,
            observe=self.metrics.tick,
            cpus=ports.cpus,
        )
        self.sources = Sources(ports.clocks.monotonic)
        self.sources.sources = [
            plain(config.pods()),
            *(Source(name, discovery) for name, discovery in ports.sources.items()),
        ]
        post = ports.post
        self.deliveries = (
            [] if post is None else [Outbox(url, post, ports.clocks.monotonic) for url in config.reports.urls]
        )
        self.node_metric = self._node_metric_writer()
        self.node_topology = self._node_topology_writer()
        self.devices = self._device_writer()
        self.traffic = Traffic("agent")
        self.metrics.registry.register(self.traffic)
        self.pages = Pages(self, self.metrics.page)
        self._look = ports.news
        self._looked_s = float("-inf")  # when a bell last made the agent look

    def monotonic(self) -> float:
        """Now."""
        return self.ports.clocks.monotonic()

    # ---- life

    async def run(self, stop: asyncio.Event) -> None:
        """Until told to stop; then give back what is held. An error of ours ends it too, and gives back first."""
        tasks = [asyncio.create_task(work, name=name) for name, work in self._work().items()]
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await self.discover()
            ticking = asyncio.create_task(self.ticker.run(lambda: self.config.period_ms / 1000, stop), name="ticks")
            tasks.append(ticking)
            done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped, ticking}:
                task.result()  # raises what ended it
                raise RuntimeError(f"{task.get_name()} ended")
        finally:
            await cancelled([stopped, *tasks])
            await self.end()

    async def once(self) -> tuple[HeldKnob, ...]:
        """Two ticks, a period apart, and the end: rates need two samples. What was held, or would have been, before the end."""
        try:
            await self.discover()
            await self.ticker.tick()
            await asyncio.sleep(self.config.period_ms / 1000)
            await self.ticker.tick()
            return self.agent.held_knobs()
        finally:
            await self.end()

    async def end(self) -> None:
        """Give back every lease, as far as the keeper can be reached within a few seconds."""
        try:
            async with asyncio.timeout(END_WITHIN_S):
                given = await self.actor.turn(lambda: self.agent.stopping(self.ports.clocks.now_us()), insist=True)
                _log.info("stopping: %d leases given back", len(given.give_back))
        except (CotenantError, OSError) as error:
            _log.warning("stopping: not everything was given back, the rest runs out: %s", error)
        await self.actor.close()

    def _work(self) -> dict[str, Coroutine[object, object, None]]:
        work: dict[str, Coroutine[object, object, None]] = {
            "discovery": self._discover(),
            "arrivals": self._notice(),
            **{name: run() for name, run in self.ports.background.items()},
            **{f"bell of {name}": bell.run(self.pressed) for name, bell in self.ports.bells.items()},
        }
        if self.ports.placers:
            work["placing"] = self.placing.run()
        if self.deliveries:
            work["reports"] = self._report()
            work |= {f"reports to {outbox.url}": outbox.run() for outbox in self.deliveries}
        if self.node_metric is not None:
            work["NodeMetric"] = self._write_node_metric(self.node_metric)
        if self.node_topology is not None:
            work["NodeResourceTopology"] = self._write_node_topology(self.node_topology)
        if self.devices is not None:
            work["Device"] = self._write_devices(self.devices)
        return work

    # ---- discovery

    async def discover(self) -> None:
        """Ask who runs here, and tell the engine."""
        await self.actor.meet()  # what is held already is not what a pod may use
        self.pods = await self.sources.pods()
        self.agent.allocatable_seen(self.ports.allocatable())
        self.agent.pods_seen(self.pods, self.ports.clocks.now_us())
        services = sorted({pod.group for pod in self.pods if not pod.best_effort and pod.group})
        best_effort = sorted({pod.group for pod in self.pods if pod.best_effort and pod.group})
        for tell in self.ports.groups_seen:
            tell(services, best_effort)

    def look_again(self) -> None:
        """Have discovery ask before its time."""
        self._look.set()

    async def _discover(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.config.discovery_period_s):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            await self.discover()

    async def _notice(self) -> None:
        """A pod's group that came is known before the next tick but one, whenever the next discovery is."""
        while True:
            await asyncio.sleep(self.config.period_ms / 2000)
            if self.ports.came_or_went():
                self.look_again()

    # ---- pressure

    async def pressed(self, group: str, resource: str, stall_ppm: int) -> None:
        """A bell rang: look again, at most once a period beside the ticks, and have urgent policies decide now.

        The last sample is from before whatever came: by it, who disturbs the service does nothing yet.
        """
        began_s = self.monotonic()
        self.pressure_events[resource] = self.pressure_events.get(resource, 0) + 1
        before = self.actor.turned
        if began_s - self._looked_s >= self.config.period_ms / 1000 and self.ticker.age_s() >= LEAST_AGE_S:
            self._looked_s = began_s
            await self.ticker.try_tick()
        if not self._best_effort_runs():
            return  # nobody is there to be held back: the service waits for itself or for the system
        try:
            await self.actor.turn(lambda: self.agent.pressed(self.ports.clocks.now_us(), group, resource, stall_ppm))
        except CotenantError as error:
            _log.warning("pressure on %s of /%s: %s", resource, group, error)
        if self.actor.turned > before:
            self.metrics.reacted(self.monotonic() - began_s)

    def _best_effort_runs(self) -> bool:
        """Whether best-effort work used CPU when last looked at."""
        state = self.agent.state()
        if state is None:
            return False
        uses = [entry.use.cpu_m for entry in state.best_effort_pods()]
        return any(use is None or use >= LEAST_USE_M for use in uses)

    # ---- reports

    async def _write_node_metric(self, writer: NodeMetricWriter) -> None:
        while True:
            await asyncio.sleep(writer.period_s)
            await writer.write()

    async def _write_node_topology(self, writer: NodeTopologyWriter) -> None:
        while True:
            await writer.write()
            await asyncio.sleep(writer.period_s)

    async def _write_devices(self, writer: DeviceWriter) -> None:
        while True:
            await asyncio.sleep(writer.period_s)
            await writer.write()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.config.reports.period_s)
            self.report()

    def report(self) -> None:
        """Put the newest report into every outbox."""
        report = self.agent.report(self.ports.clocks.wall())
        if report is not None:
            for outbox in self.deliveries:
                outbox.put(report)

    # ---- reload

    async def reload(self, read: Callable[[], AgentConfig]) -> bool:
        """Take a new configuration; False, told and counted, where it is wrong."""
        try:
            asked = read()
        except CotenantError as error:
            self.reloads["refused"] += 1
            _log.error("the configuration stays as it is: %s", error)
            return False
        for name in FIXED:
            if getattr(asked, name) != getattr(self.config, name):
                _log.warning("%s changes with a restart only", name)
        if asked.mode not in (self.ports.mode, Mode.OBSERVE):
            _log.warning("mode changes from %s to %s with a restart only", self.ports.mode, asked.mode)
            asked = replace(asked, mode=self.config.mode)
        config = replace(asked, **{name: getattr(self.config, name) for name in FIXED})
        anew = config.settings() != self.config.settings()
        self.config, self.mode = config, config.mode.value
        self.sources.sources[0] = plain(config.pods())
        if anew:
            await self._begin_anew()
        self.look_again()
        self.reloads["taken"] += 1
        _log.info("the configuration was read again%s", ", and the engine begins anew" if anew else "")
        return True

    async def _begin_anew(self) -> None:
        if self.config.mode is not self.agent.settings.mode:  # an engine that only observes gives nothing back
            await self.actor.turn(lambda: self.agent.stopping(self.ports.clocks.now_us()))
        agent = self._new_agent()
        agent.allocatable_seen(self.ports.allocatable())
        agent.pods_seen(self.pods, self.ports.clocks.now_us())
        self.agent = self.ticker.agent = agent
        await self.actor.serve(agent)

    def _node_metric_writer(self) -> NodeMetricWriter | None:
        cluster = self.config.cluster
        if self.ports.client is None or cluster is None or not cluster.node_metric:
            return None
        from cotenant.services.agent.reports.nodemetric import NodeMetricWriter

        return NodeMetricWriter(
            self.ports.client,
            self.node,
            lambda windows_us: self.agent.usage(windows_us),
            self.ports.clocks.wall,
            cluster.node_metric_period_s,
        )

    def _node_topology_writer(self) -> NodeTopologyWriter | None:
        cluster = self.config.cluster
        if self.ports.client is None or cluster is None or not cluster.node_topology:
            return None
        from cotenant.services.agent.reports.topology import NodeTopologyWriter

        return NodeTopologyWriter(
            self.ports.client, self.node, lambda: self.pods, lambda: self.config.settings().reserved_cpus
        )

    def _device_writer(self) -> DeviceWriter | None:
        cluster = self.config.cluster
        if self.ports.client is None or cluster is None or not cluster.devices:
            return None
        from cotenant.services.agent.reports.devices import DeviceWriter

        return DeviceWriter(
            self.ports.client, self.node, lambda: self.ticker.last.gpus if self.ticker.last is not None else ()
        )

    def policies(self) -> PolicySettings:
        """Those of the configuration, with what this machine has."""
        policies = self.config.policies
        cache = policies.cache
        if cache is None or cache.hardware is not None or self.ports.cache is None:
            return policies
        return replace(policies, cache=replace(cache, hardware=self.ports.cache))

    def network(self, pod: NodePod) -> tuple[int, int] | None:
        """Bytes that a pod received and sent; None where it has no network of its own."""
        return self.ports.network(pod)

    def cache_use(self) -> tuple[CacheUse, ...]:
        """What the classes of the cache hold and move now; () where this cannot be told."""
        return self.ports.cache_use()

    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be known or done here."""
        return (*self.ports.gaps, *(self.ticker.last.gaps if self.ticker.last is not None else ()))

    def _new_agent(self) -> Agent:
        agent = Agent(replace(self.config.settings(), policies=self.policies()), self.config.node)
        agent.machine_seen(self.ports.supported)
        return agent

    # ---- what is asked

    def unhealthy(self) -> str:
        """The loop has not ended a tick for many periods."""
        silent_s = self.monotonic() - self.ticker.turned_s
        allowed_s = max(STUCK_PERIODS * self.config.period_ms / 1000, 10.0)
        return f"no tick has ended well for {silent_s:.0f} s" if silent_s > allowed_s else ""

    def unready(self) -> str:
        """Why the node is not in hand."""
        if self.ticker.failing >= FAILING:
            return f"the last {self.ticker.failing} ticks failed"
        if self.agent.state() is None:
            return "nothing has been measured yet"
        if self.actor.keeper_up is False:
            return f"the keeper cannot be reached: {self.actor.keeper_said}"
        return ""

    def state_page(self, state: NodeState) -> StatePage:
        """The answer to `/v1/state`."""
        return StatePage(
            node=self.node,
            mode=self.mode,
            at_us=state.at_us,
            interval_us=state.interval_us,
            keeper_up=self.actor.keeper_up,
            keeper_said=self.actor.keeper_said,
            host=state.host,
            best_effort_group=state.best_effort_group,
            best_effort=state.best_effort,
            pods=tuple(
                PodPage(
                    pod=entry.pod.key,
                    uid=entry.pod.uid,
                    group=entry.pod.group,
                    qos=entry.pod.qos.value,
                    tenant=entry.pod.tenant,
                    phase=entry.pod.phase.value,
                    objective_p99_us=entry.pod.objective_p99_us,
                    use=entry.use,
                    health=entry.health,
                )
                for entry in state.pods
            ),
            gpus=self.ticker.last.gpus if self.ticker.last is not None else (),
            cache=self.cache_use(),
            gaps=self.gaps(),
            sources={source.name: source.said for source in self.sources.sources},
        )

    async def leases(self) -> tuple[Lease, ...]:
        """What the keeper holds."""
        async with asyncio.timeout(END_WITHIN_S):
            return await self.ports.keeper.leases()

    def latency_reported(self, report: latency.LatencyReport) -> bool:
        """Take a service's report."""
        pod = latency.find(report.workload, self.pods)
        if pod is None:
            return False
        health = report.health(pod.objective_p99_us)
        return self.agent.health_reported(pod.uid, health, self.ports.clocks.now_us())
