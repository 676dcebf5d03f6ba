"""The agent's process: one event loop with a task for each activity, none of which waits for another.

    ticks       sample -> engine -> keeper                       every period
    discovery   sources -> engine                                every 10 s, when the cluster has updates, and when a
                                                                 pod's group was created or deleted
    arrivals    names of pods' groups -> discovery               twice per period
    placing     pods -> classes of cache and uplink              every 2 s, where this process may
    triggers    pressure or late wake-up -> engine -> keeper     when one fires
    looks       use of best-effort work -> a tick                every 0.2 s; where it changed
    reports     engine -> outboxes -> receivers                  every 30 s
    NodeMetric  engine -> API server                             by its spec
    topology    machine, pods -> API server                      every 60 s, and when what the kubelet gives changes
    traces      trace process -> engine                          as its replicas' signals arrive
    incidents   engine -> credit process                         when one has a verdict
    http        queries, metrics, services' latency

A node must stay under control while the cluster, a receiver, the keeper or a source of pods is unavailable for hours,
and nothing may be left behind at the end. The loop that holds knobs depends only on the machine and the keeper;
everything else may fail alone, is counted, and is reported in `/metrics`. At the end (SIGTERM) every lease is given
back, within a time limit; the rest expires at the keeper. A reload (SIGHUP) reads the file again: a faulty one is
reported and changes nothing; a change of engine settings restarts the engine, which gets the held leases from the
keeper.
Limits: what was opened at the start stays until a restart (reloading.py); a discovery waits for its slowest source, 20
s at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace

from cotenant import __version__
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.bursts import BurstSettings
from cotenant.engine.node.decision_log import HeldKnob
from cotenant.engine.node.doctor.checks import DoctorFinding
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import PolicySettings
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import KnobLease
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import NodeState
from cotenant.model.machine.stalls import LongWait
from cotenant.services.agent.actions.class_placement import ClassPlacement
from cotenant.services.agent.components import AgentComponents
from cotenant.services.agent.discovery.sources import DiscoverySource, DiscoverySources, plain
from cotenant.services.agent.http import AgentPages, StatePage
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.early_samples import EarlySamples
from cotenant.services.agent.loop.looks import Looks
from cotenant.services.agent.loop.ticker import FAILING, Ticker
from cotenant.services.agent.metrics import AgentMetrics
from cotenant.services.agent.reloading import changeable
from cotenant.services.agent.replica_signals import ReplicaSignalFeed
from cotenant.services.agent.reports.gpu_shares import shares_of_node
from cotenant.services.agent.reports.incidents import incident_reporter
from cotenant.services.agent.reports.lent_gpus import lent_gpus
from cotenant.services.agent.reports.outbox import ReportOutbox
from cotenant.services.agent.reports.writers import writers_of
from cotenant.services.agent.stall_metrics import StallMetrics
from cotenant.services.agent.state_page import state_page
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.agent_settings.node_roots import RootCheck, with_roots
from cotenant.services.reporting import latency
from cotenant.services.running import cancelled
from cotenant.services.zones.agent_zones import zones_page
from cotenant.services.zones.metrics import ZoneMetrics

END_WITHIN_S = 5.0
STUCK_PERIODS = 10
_log = logging.getLogger(__name__)


class AgentProcess:
    """One node's agent. Attributes without underscore are read by metrics and pages."""

    def __init__(
        self, config: AgentConfig, components: AgentComponents, conflicts: tuple[DoctorFinding, ...] = ()
    ) -> None:
        """`conflicts`: what the check at the start found, with which the agent acts all the same, or for which it
        only observes.
        """
        self.config = config
        self.conflicts = conflicts
        self.components = components
        self.node, self.version, self.mode = config.node, __version__, config.mode.value
        self.metrics = AgentMetrics(self)
        self.metrics.registry.register(ZoneMetrics(config.zone_states))
        if components.stalls is not None:
            self.metrics.registry.register(StallMetrics(components.stalls, lambda: self.pods))
        self.latency_counts = dict.fromkeys(latency.LatencyOutcome, 0)
        self.reloads = {"taken": 0, "refused": 0}
        self.signals = ReplicaSignalFeed(self)
        self.placing = ClassPlacement(components.placers, lambda: self.pods, self.policies)
        self.pods: tuple[NodePod, ...] = ()
        self.agent = self._new_agent()
        self.actor = Actor(
            self.agent,
            components.keeper,
            components.evictor,
            components.clocks.now_us,
            leases_seen=components.leases_seen,
        )
        self.ticker = Ticker(
            self.agent,
            self.actor,
            components.sensor,
            components.knobs,
            monotonic=components.clocks.monotonic,
            before_sample=components.before_sample,
            observe=self.metrics.tick,
            cpus=components.cpus,
        )
        self.early = EarlySamples(
            lambda: self.agent,
            self.actor,
            self.ticker,
            period_s=lambda: self.config.period_ms / 1000,
            monotonic=components.clocks.monotonic,
            now_us=components.clocks.now_us,
            reacted=self.metrics.reacted,
        )
        self.sources = DiscoverySources(components.clocks.monotonic)
        self.sources.sources = [
            plain(config.pods()),
            *(DiscoverySource(name, discovery) for name, discovery in components.sources.items()),
        ]
        post = components.post
        self.deliveries = (
            []
            if post is None
            else [ReportOutbox(url, post, components.clocks.monotonic) for url in config.reports.urls]
        )
        self.writers = writers_of(
            config.cluster,
            components.client,
            self.node,
            usage=lambda windows_us: self.agent.usage(windows_us),
            wall=components.clocks.wall,
            pods=lambda: self.pods,
            reserved_cpus=lambda: self.config.settings().reserved_cpus,
            gpus=lambda: self.ticker.last.gpus if self.ticker.last is not None else (),
            allocatable=lambda: self.agent.room(),
            monotonic=components.clocks.monotonic,
            kubelet=components.kubelet,
            shares=lambda gpus: shares_of_node(self.config.runtime_hook, gpus),
            lent=lambda: lent_gpus(self.agent, self.config),
            network=components.network,
            uplink_bps=components.uplink_bps,
        )
        self.incidents = incident_reporter(
            config, self.node, components.post_incident, self._incidents, components.clocks.wall
        )
        self.roots = RootCheck(components.group_exists)
        self.traffic = ServerTraffic("agent")
        self.metrics.registry.register(self.traffic)
        self.pages = AgentPages(self, self.metrics.page, lambda: zones_page(self.node, self.config.zone_states))
        self._discovery_due = components.discovery_due

    def monotonic(self) -> float:
        """The monotonic clock, seconds."""
        return self.components.clocks.monotonic()

    # Lifecycle

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`; then give back what is held. An internal error ends it too, and gives back first."""
        tasks = [asyncio.create_task(work, name=name) for name, work in self._work().items()]
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await self.discover()
            ticking = asyncio.create_task(self.ticker.run(lambda: self.config.period_ms / 1000, stop), name="ticks")
            tasks.append(ticking)
            done, _ = await asyncio.wait([*tasks, stopped], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped, ticking}:
                task.result()  # raises the error that ended it
                raise RuntimeError(f"{task.get_name()} ended")
        finally:
            await cancelled([stopped, *tasks])
            await self.end()

    async def once(self) -> tuple[HeldKnob, ...]:
        """Two ticks, one period apart, since rates need two samples. Returns what was held, or would have been,
        before the end.
        """
        try:
            await self.discover()
            await self.ticker.tick()
            await asyncio.sleep(self.config.period_ms / 1000)
            await self.ticker.tick()
            return self.agent.held_knobs()
        finally:
            await self.end()

    async def end(self) -> None:
        """Give back every lease, if the keeper can be reached within a few seconds."""
        try:
            async with asyncio.timeout(END_WITHIN_S):
                given = await self.actor.exchange(
                    lambda: self.agent.stopping(self.components.clocks.now_us()), insist=True
                )
                _log.info("stopping: %d leases given back", len(given.give_back))
        except (CotenantError, OSError) as error:
            _log.warning("stopping: not everything was given back, the rest expires: %s", error)
        await self.actor.close()

    def _work(self) -> dict[str, Coroutine[object, object, None]]:
        work: dict[str, Coroutine[object, object, None]] = {
            "discovery": self._discover(),
            "arrivals": self._watch_pod_groups(),
            **{name: run() for name, run in self.components.background.items()},
        }
        for name, trigger in self.components.triggers.items():
            work[f"triggers of {name}"] = trigger.run(self.early.pressed)
        if self.components.cpu_times is not None:
            looks = BurstSettings(look_us=self.config.bursts.look_ms * 1000, change_m=self.config.bursts.change_m)
            work["looks"] = Looks(
                looks,
                max(1, len(self.components.cpus)),
                state=lambda: self.agent.state(),
                read=self.components.cpu_times,
                sample=self.early.changed,
                now_us=self.components.clocks.now_us,
            ).run()
        if self.components.placers:
            work["placing"] = self.placing.run()
        if self.deliveries:
            work["reports"] = self._report()
            work |= {f"reports to {outbox.url}": outbox.run() for outbox in self.deliveries}
        if self.components.traces is not None:
            work["traces"] = self.components.traces.run(lambda: self.signals.asked, self.signals.came)
            work["actions for objectives"] = self.signals.report_actions(self.components.traces)
        if self.incidents is not None:
            work["incidents"] = self.incidents.run()
        work |= self.writers.work()
        return work

    def _incidents(self) -> tuple[RecoveryMemory, NodeState] | None:
        """What is reported of interference; None while the agent only observes, which proves nothing."""
        memory, state = self.agent.recovery(), self.agent.state()
        if self.config.mode is not AgentMode.ACT or memory is None or state is None:
            return None
        return memory, state

    # Discovery

    async def discover(self) -> None:
        """Discover the node's pods, and update the engine."""
        await self.actor.fetch_leases()  # a held value is not the pod's own limit
        pods = self.components.own.marked(await self.sources.pods())
        self.pods = pods
        if self.signals.asks_for_others(pods) and self.components.traces is not None:
            self.components.traces.pods_changed()  # also where a pod whose group came first has its name now
        self.agent.allocatable_seen(self.components.allocatable())
        self.agent.kubelet_seen(self.components.kubelet())
        self.agent.pods_seen(self.pods, self.components.clocks.now_us())
        services = sorted({pod.group for pod in self.pods if not pod.best_effort and pod.group})
        best_effort = sorted({pod.group for pod in self.pods if pod.best_effort and pod.group})
        for receive in self.components.groups_seen:
            receive(services, best_effort)
        await self._look_for_roots()

    async def _look_for_roots(self) -> None:
        """Take kubelet's groups that appeared after the start, and say what is missing."""
        find, roots = self.components.kubelet_roots, None
        if find is not None:
            try:
                roots = await asyncio.to_thread(find)
            except CotenantError as error:
                roots = ()
                _log.debug("kubelet's groups cannot be looked for: %s", error)
        found = with_roots(self.config, roots or ())
        if found != self.config:
            _log.info("kubelet's groups are there now: %s", ", ".join(found.writable))
            await self.reload(lambda: found)
        self.roots.judge(self.config, roots, self.monotonic())

    def discover_soon(self) -> None:
        """Have discovery run before its time."""
        self._discovery_due.set()

    async def _discover(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self.config.discovery_period_s):
                    await self._discovery_due.wait()
            except TimeoutError:
                pass
            self._discovery_due.clear()
            await self.discover()

    async def _watch_pod_groups(self) -> None:
        """Notice new and deleted pod groups within half a period, independently of the discovery period."""
        while True:
            await asyncio.sleep(self.config.period_ms / 2000)
            if self.components.pod_groups_changed():
                self.discover_soon()

    # Reports

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.config.reports.period_s)
            self.report()

    def report(self) -> None:
        """Put the newest report into every outbox."""
        report = self.agent.report(self.components.clocks.wall())
        if report is not None:
            for outbox in self.deliveries:
                outbox.put(report)

    # Reload

    async def reload(self, read: Callable[[], AgentConfig]) -> bool:
        """Apply a new configuration; False, logged and counted, where it is invalid."""
        try:
            requested = read()
        except CotenantError as error:
            self.reloads["refused"] += 1
            _log.error("the configuration is unchanged: %s", error)
            return False
        config = changeable(requested, self.config, self.components.mode)
        restarts = config.settings() != self.config.settings()
        self.config, self.mode = config, config.mode.value
        self.sources.sources[0] = plain(config.pods())
        if restarts:
            await self._restart_engine()
        self.discover_soon()
        self.reloads["taken"] += 1
        _log.info("the configuration was read again%s", ", and the engine is restarted" if restarts else "")
        return True

    async def _restart_engine(self) -> None:
        if self.config.mode is not self.agent.settings.mode:  # an engine in observe mode gives nothing back
            await self.actor.exchange(lambda: self.agent.stopping(self.components.clocks.now_us()))
        agent = self._new_agent()
        agent.allocatable_seen(self.components.allocatable())
        agent.kubelet_seen(self.components.kubelet())
        agent.pods_seen(self.pods, self.components.clocks.now_us())
        self.agent = self.ticker.agent = agent
        if self.components.traces is not None:
            self.components.traces.pods_changed()  # a new stream begins with every signal
        await self.actor.use_agent(agent)

    def policies(self) -> PolicySettings:
        """The configured policies, with this machine's cache."""
        policies = self.config.policies
        cache = policies.cache
        if cache is None or cache.hardware is not None or self.components.cache is None:
            return policies
        return replace(policies, cache=replace(cache, hardware=self.components.cache))

    def gaps(self) -> tuple[Gap, ...]:
        """What cannot be measured or done here."""
        missing = (Gap("groups to act on", self.roots.said),) if self.roots.said else ()
        return (*self.components.gaps, *missing, *(self.ticker.last.gaps if self.ticker.last is not None else ()))

    def _new_agent(self) -> Agent:
        agent = Agent(replace(self.config.settings(), policies=self.policies()), self.config.node)
        agent.machine_seen(self.components.supported)
        agent.obeys(self.components.permissions)
        return agent

    # Queries

    def unhealthy(self) -> str:
        """Why the agent is not healthy, "" where it is: no tick has succeeded for many periods."""
        silent_s = self.monotonic() - self.ticker.succeeded_s
        allowed_s = max(STUCK_PERIODS * self.config.period_ms / 1000, 10.0)
        return f"no tick has succeeded for {silent_s:.0f} s" if silent_s > allowed_s else ""

    def unready(self) -> str:
        """Why the agent is not ready, "" where it is."""
        if self.ticker.failing >= FAILING:
            return f"the last {self.ticker.failing} ticks failed"
        if self.agent.state() is None:
            return "nothing has been measured yet"
        if self.actor.keeper_up is False:
            return f"the keeper cannot be reached: {self.actor.keeper_said}"
        return self.roots.said

    def remark(self) -> str:
        """What a person should know who asks whether it is ready, "" where there is nothing."""
        if not self.conflicts:
            return ""
        does = "acts despite" if self.mode == AgentMode.ACT else f"mode is {self.mode}, not act, because of"
        found = "; ".join(conflict.text for conflict in self.conflicts)
        return f"{does} conflicts found at the start ({len(self.conflicts)}): {found}"

    def state_page(self, state: NodeState) -> StatePage:
        """The answer to `/v1/state`."""
        return state_page(self, state)

    def long_waits(self, group: str | None) -> list[LongWait] | None:
        """The long waits that are kept, of one group or of all."""
        return None if self.components.stalls is None else self.components.stalls.ring(group)

    async def leases(self) -> tuple[KnobLease, ...]:
        """The keeper's leases."""
        async with asyncio.timeout(END_WITHIN_S):
            return await self.components.keeper.leases()

    def latency_reported(self, report: latency.LatencyReport) -> bool:
        """Store a service's report; False where its workload is unknown."""
        pod = latency.find(report.workload, self.pods)
        if pod is None:
            return False
        health = report.health(pod.objective_p99_us)
        return self.agent.health_reported(pod.uid, health, self.components.clocks.now_us())
