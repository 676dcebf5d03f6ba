"""The scheduler process: watches feed the engine, the engine decides, workers carry out.

Problem: all of it shares one event loop and one core, and must survive a server that is away, the loss of leadership at any moment, and its own
restart. Choice: state is only ever built from lists and watches, so a start after a crash is a start; the loop sleeps until something changed
or the engine's next deadline, judges in batches, and judges ahead of the binds by one batch at most, so that the newest facts decide. Limits: a replica
that does not lead watches too, so that it can take over at once; it costs the memory of the cluster's pods twice.

Order at the end (SIGTERM, or the lease lost): no more judgement, binds not sent are withheld, those under way are awaited, the lease is given up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Protocol

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.reading import ObjectReader
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.framework.settings import Settings
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import DEFAULTS as QUOTAS_AS_USUAL
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.reservations.instructions import Reserve
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.requests import DeviceSettings
from cotenant.engine.rules.devices.rules import SETTINGS as DEVICES_AS_USUAL
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.state.reports import Reports
from cotenant.model.cluster.report import NodeReport
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant.services.reporting.tokens import ReportToken
from cotenant.services.running import cancelled
from cotenant.services.scheduler.actions.binding import VOLUMES_WITHIN_S, Binder
from cotenant.services.scheduler.actions.claims import Claiming
from cotenant.services.scheduler.actions.eviction import Evictor
from cotenant.services.scheduler.actions.pod_status import Notices
from cotenant.services.scheduler.actions.reservations import Reserver
from cotenant.services.scheduler.actions.statuses import Statuses
from cotenant.services.scheduler.http import Pages, Server, serve
from cotenant.services.scheduler.metrics import Metrics
from cotenant.services.scheduler.pages.debugging import Debugging
from cotenant.services.scheduler.pages.plugins import routes as plugin_routes
from cotenant.services.scheduler.pages.process import Process, State
from cotenant.services.scheduler.pages.process import routes as process_routes
from cotenant.services.scheduler.pages.routes import Guard, Routes
from cotenant.services.scheduler.watches import Watches

STUCK_S = 60.0  # the loop has not turned for so long: not healthy
DRAIN_S = 5.0
_LONGEST_SLEEP_S = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """What may be set."""

    scheduler: str = "cotenant"
    binds_in_flight: int = 32
    qps: float = inf  # requests a second to the API server
    burst: int = 100
    notices_per_s: float = 50.0  # conditions, and as many events
    host: str = "127.0.0.1"
    port: int = 10261
    report_token: Path | None = None
    debug_token: Path | None = None  # of those who may use the debug API from elsewhere
    streaming_lists: bool = False
    seed: int = 0
    load_aware: LoadAwareSettings | None = None  # None = off
    quotas: QuotaSettings = QUOTAS_AS_USUAL
    devices: DeviceSettings = DEVICES_AS_USUAL


class Leadership(Protocol):
    """The right to bind, shared with other replicas (drivers/kube/leaderelection/lease.py)."""

    @property
    def leading(self) -> bool:
        """Whether this replica may bind now; False as soon as the lease could have run out, whatever the server says."""
        ...

    async def run(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Compete, do the work while leading. False when the right was lost, and the work stopped. Gives up what is held when cancelled."""
        ...


class Alone:
    """There is one replica: it always leads."""

    leading = True

    async def run(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Work until it ends."""
        await work()
        return True


class SchedulerProcess:
    """One replica."""

    def __init__(
        self,
        access: Access,
        profile: PlacementProfile,
        options: Options,
        identity: str,
        leadership: Callable[[Client], Leadership],
        clock: SteadyClock | None = None,
    ) -> None:
        self.options = options
        self.identity = identity
        self.now = clock or SteadyClock()
        settings = Settings(scheduler=options.scheduler, unanswered_s=VOLUMES_WITHIN_S + 120.0)
        roster = PluginRegistry(
            devices=DeviceRules(options.devices),
            quotas=Quotas(options.quotas),
            load_aware=LoadAware(options.load_aware),
        )
        self.cluster = Cluster(profile, np.random.default_rng(options.seed), settings, roster)
        self.metrics = Metrics(profile.name)
        # Room for the binds, the notices beside them, and what reads or evicts.
        self.client = Client(
            access, qps=options.qps, burst=options.burst, in_flight=options.binds_in_flight + 16, user_agent="cotenant-scheduler"
        )  # fmt: skip
        self.leadership = leadership(self.client)
        self.reader = ObjectReader()
        self.claiming = Claiming(self.client, self.reader.volumes)
        self.reports = Reports()
        self._report = ReportEndpoint(
            self.reports, time.time, ReportToken(options.report_token) if options.report_token else None, self._reported
        )
        self.notices = Notices(
            self.client, options.scheduler, identity, per_s=options.notices_per_s, monotonic=time.monotonic
        )
        self.reserver = Reserver(
            self.client,
            self.cluster,
            self.now,
            may_write=lambda: self._working and self.leadership.leading,
            changed=self._wake,
        )
        self.statuses = Statuses(self.client, per_s=options.notices_per_s, monotonic=time.monotonic)
        self.feed = Watches(
            self.client,
            self.cluster,
            self.reader,
            self.claiming,
            self.reports,
            self.now,
            self._wake,
            streaming=options.streaming_lists,
        )
        self.binder = Binder(
            self.client,
            self.cluster,
            self.reader,
            self.claiming,
            self.notices,
            self.metrics,
            self.now,
            in_flight=options.binds_in_flight,
            may_bind=lambda: self._working and self.leadership.leading,
            changed=self._wake,
        )
        self.evictor = Evictor(
            self.client, self.cluster, self.notices, self.metrics, options.scheduler, self.now, self._wake
        )
        self._awake = asyncio.Event()
        self._working = False
        self._turned_s = time.monotonic()
        self._read_metrics()
        self.debugging = Debugging(profile, self.cluster.observe)
        self.server: Server = serve(
            Pages(
                self.metrics,
                self._report,
                healthy=self._unhealthy,
                ready=lambda: "" if self.feed.synced else "not everything has been listed yet",
                debug=self._debug_pages(),
            ),
            options.host,
            options.port,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of the server never end it; an error of ours does."""
        background = [
            asyncio.create_task(self.feed.run(), name="watches"),
            asyncio.create_task(self.notices.run(), name="notices"),
            asyncio.create_task(self.statuses.run(), name="statuses"),
            asyncio.create_task(self.binder.run(), name="binds"),
            asyncio.create_task(self.server.serve(), name="http"),
        ]
        leading = asyncio.create_task(self._lead(), name="leadership")
        stopped = asyncio.create_task(_wait(stop), name="stop")
        try:
            done, _ = await asyncio.wait({*background, leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()  # raises what ended it
                raise RuntimeError(f"{task.get_name()} ended")
        finally:
            _log.info("stopping: %d binds under way", self.binder.backlog)
            await cancelled([stopped, leading])  # stops judging, settles binds, gives the lease up
            self.server.should_exit = True
            await cancelled(background)
            self.evictor.stop()
            self.reserver.stop()
            await self.client.close()

    async def _lead(self) -> None:
        await self.feed.wait_synced()
        nodes, pods = self.cluster.size()
        _log.info("listed %d nodes and %d pods; %s", nodes, pods, self.cluster.pending_pods())
        _log.info("metrics, health and reports on http://%s:%d", self.options.host, self.server.port)
        while True:
            await self.leadership.run(self._work)

    async def _work(self) -> None:
        """While leading."""
        _log.info("%s leads", self.identity)
        self.metrics.leading.set(1)
        self._working = True
        self._turned_s = time.monotonic()
        try:
            await self._judge()
        finally:
            self._working = False
            self.metrics.leading.set(0)
            self.binder.withhold("not leading")
            await self.binder.drain(DRAIN_S)

    # ---- judgement

    async def _judge(self) -> None:
        ahead = self.cluster.settings.most_pods
        while True:
            self._turned_s = time.monotonic()
            self._awake.clear()
            if self.leadership.leading and self.binder.backlog < ahead and self.cluster.next_s() <= self.now():
                self._carry_out(self._decide())
                await asyncio.sleep(0)  # let what was decided be sent
                if self.binder.backlog < ahead:
                    continue
            await self._sleep()

    async def _sleep(self) -> None:
        """Until something changed, or the engine wants to look again."""
        until = self.cluster.next_s() - self.now() if self.leadership.leading else _LONGEST_SLEEP_S
        if self.binder.backlog >= self.cluster.settings.most_pods:
            until = _LONGEST_SLEEP_S  # an answer wakes us
        try:
            async with asyncio.timeout(min(_LONGEST_SLEEP_S, max(0.001, until))):
                await self._awake.wait()
        except TimeoutError:
            pass

    def _decide(self) -> tuple[Instruction, ...]:
        begun_s = time.perf_counter()
        given = self.cluster.decide(self.now())
        elapsed_s = time.perf_counter() - begun_s
        self.metrics.decide_duration.observe(elapsed_s)
        binds = sum(isinstance(each, Bind) for each in given)
        if binds:
            share_s = elapsed_s / binds
            for _ in range(binds):
                self.metrics.algorithm_duration.observe(share_s)
        return given

    def _carry_out(self, given: tuple[Instruction, ...]) -> None:
        waiting: dict[str, int] = {}
        for each in given:
            if isinstance(each, Bind):
                self.binder.add(each)
            elif isinstance(each, Unschedulable):
                self.metrics.unschedulable.inc()
                self.notices.unschedulable(each)
                waiting[each.message] = waiting.get(each.message, 0) + 1
            elif isinstance(each, Preempt):
                self.evictor.add(each)
            elif isinstance(each, Evict):
                self.evictor.evict(each)
            elif isinstance(each, Reserve):
                self.reserver.add(each)
            elif isinstance(each, ClearNomination):
                self.notices.nomination_cleared(each)
            else:
                self.statuses.add(each)
        for message, pods in waiting.items():
            _log.info("%d pods wait: %s", pods, message)

    def _wake(self) -> None:
        self._awake.set()

    # ---- reports, health, questions

    def _reported(self, report: NodeReport) -> None:
        row = list(report.row())
        row[-1] = self.now.ours(report.at_s)
        self.cluster.report(report.node, tuple(row))
        if self.cluster.roster.load_aware.is_on:
            self.cluster.roster.load_aware.report_seen(replace(report, at_s=row[-1]), self.now())
            self._wake()

    def _unhealthy(self) -> str:
        silent_s = time.monotonic() - self._turned_s
        return f"the loop has not turned for {silent_s:.0f} s" if silent_s > STUCK_S and self._working else ""

    @property
    def _leads(self) -> bool:
        return self._working and self.leadership.leading

    def _state(self) -> State:
        nodes, pods = self.cluster.size()
        return State(
            identity=self.identity,
            leading=self._leads,
            synced=self.feed.synced,
            nodes=nodes,
            pods=pods,
            seated=len(self.cluster.assigned()),
            pending=self.cluster.pending_pods(),
            nominated=self.cluster.reserved(),
            binds_under_way=self.binder.backlog,
            notices_waiting=self.notices.waiting(),
            oddities=dict(self.cluster.counts),
        )

    def _debug_pages(self) -> Routes:
        options = self.options
        token = ReportToken(options.debug_token, "debug token file") if options.debug_token else None
        process = Process(self.cluster, self.debugging, options.scheduler, self.now, self._state, lambda: self._leads)
        return Routes((*process_routes(process), *plugin_routes(self.cluster, self.now)), Guard(token, time.time))

    def _read_metrics(self) -> None:
        cluster, read = self.cluster, self.metrics.read
        read(
            GaugeMetricFamily,
            "scheduler_pending_pods",
            "Pending pods, by the queue type",
            ("queue",),
            lambda: (((queue,), pods) for queue, pods in cluster.pending_pods().items()),
        )
        read(
            CounterMetricFamily,
            "scheduler_queue_incoming_pods",
            "Pods added to scheduling queues by event and queue type",
            ("event", "queue"),
            lambda: cluster.queue.incoming.items(),
        )
        read(
            GaugeMetricFamily,
            "scheduler_cache_size",
            "Nodes and pods in the scheduler's cache",
            ("type",),
            lambda: zip((("nodes",), ("pods",)), cluster.size(), strict=True),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_oddities",
            "What was stale, lost or failed, and how it was met",
            ("what",),
            lambda: (((what,), count) for what, count in list(cluster.counts.items())[:200]),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_malformed_objects",
            "Objects that could not be read",
            ("kind",),
            lambda: (((kind,), count) for kind, count in self.feed.malformed.items()),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_reports",
            "Reports of nodes, by outcome",
            ("outcome",),
            lambda: (((outcome.value,), count) for outcome, count in self._report.counts.items()),
        )
        load = cluster.roster.load_aware
        if load.is_on:
            read(
                GaugeMetricFamily,
                "cotenant_scheduler_node_loads",
                "Nodes by whose figures of their use count",
                ("source",),
                lambda: (((source,), nodes) for source, nodes in load.sources().items()),
            )
            read(
                CounterMetricFamily,
                "cotenant_scheduler_load_oddities",
                "What of nodes' own load settings cannot be read",
                ("what",),
                lambda: (((what,), count) for what, count in load.counts.items()),
            )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_events_dropped",
            "Events that were not written because too many waited",
            (),
            lambda: (((), self.notices.events_dropped),),
        )
        read(
            GaugeMetricFamily,
            "cotenant_scheduler_binds_under_way",
            "Binds decided and not answered",
            (),
            lambda: (((), self.binder.backlog),),
        )
        read(
            CounterMetricFamily,
            "cotenant_scheduler_requests",
            "Requests to the API server",
            (),
            lambda: (((), self.client.requests),),
        )


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
