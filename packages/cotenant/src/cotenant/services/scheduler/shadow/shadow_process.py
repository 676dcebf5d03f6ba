"""The shadow's process: the scheduler's watches, an engine that acts on nothing, and pages that say what it found.

It must be safe to run beside a scheduler that matters. Its client sends nothing but GET (`read_only`), it takes part in
no election, and it has no part that writes: none is made, rather than switched off. It is one process; a second one
beside it judges the same once more.
Limits: one core; extenders of a configuration are not asked; a report of a node needs `--report-token-file`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

import msgspec

from cotenant.drivers.http.address import ListeningSocket
from cotenant.drivers.http.messages import JSON, HttpAnswer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex
from cotenant.engine.shadow.following import NodeSignals
from cotenant.engine.shadow.parking import Parking
from cotenant.engine.shadow.scheduler import KEPT, ShadowScheduler
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant.services.routes import CallerGuard, PageRequest, Route, Routes
from cotenant.services.scheduler.http import SchedulerPages
from cotenant.services.scheduler.pages.debugging import Debugging
from cotenant.services.scheduler.pages.plugins import routes as plugin_routes
from cotenant.services.scheduler.pages.scheduler_pages import Process, ProcessState
from cotenant.services.scheduler.pages.scheduler_pages import routes as process_routes
from cotenant.services.scheduler.pods_of import pods_of
from cotenant.services.scheduler.server_coverage import ServerCoverage
from cotenant.services.scheduler.shadow.metrics import add_metrics
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.engine import scheduling_engine
from cotenant.services.scheduling.options import Options
from cotenant.services.scheduling.watches import EngineWatches

COMPONENT = "cotenant-shadow"
STANDING = "a shadow: another scheduler binds"
_SLICE_S = 0.01  # of judging, before the event loop does something else
_LONGEST_SLEEP_S = 5.0

_log = logging.getLogger(__name__)


class ShadowProcess:
    """The process. `options.schedulers` are the names of the scheduler that is watched."""

    def __init__(
        self,
        access: Access,
        profile: PlacementProfile,
        options: Options,
        identity: str,
        share: float,
        clock: SteadyClock | None = None,
        listening: ListeningSocket | None = None,
    ) -> None:
        """Raises `InvalidInput` for an address or a token file that cannot be used."""
        if options.extenders:
            _log.warning("a shadow asks no extender: %d of the configuration are left out", len(options.extenders))
        left_out = len(options.extenders)
        parking, signals = Parking(), NodeSignals()
        self.options = options = replace(
            options,
            plugins=(*options.plugins, parking, signals),
            quotas=replace(options.quotas, revoke=False),
            preempts_for_resizes=False,
            extenders=(),
            pods_a_round=1,  # each is judged by what is bound, not by what the one before it would have taken
        )
        self.client = Client(
            access, qps=options.qps, burst=options.burst, in_flight=16, user_agent=COMPONENT, read_only=True
        )
        self.kube = kube = KubeProcess(
            COMPONENT, identity, self.client, streaming_lists=options.streaming_lists, clock=clock
        )
        self.cluster = scheduling_engine(profile, options)
        self.shadow = ShadowScheduler(
            self.cluster, parking, signals, time.thread_time, kube.now(), share=share, extenders_left_out=left_out
        )
        kube.on_listed(self.shadow.listed)
        self.reports = NodeReports()
        self._workloads = WorkloadIndex(options.workload_kinds)
        reader = PodReader(by_scheduler=pods_of(self.cluster.profile, options), workloads=self._workloads)
        claims = ClaimBinder(self.client, reader.volumes, lambda node: self.cluster.node(node))
        watched = EngineWatches(
            kube.watches, self.cluster, reader, claims, self.reports, kube.now, pod_events=self.shadow
        )
        self.coverage = ServerCoverage(self.client, kube.watches.kinds, watched.pods, watched.pods_delivered)
        kube.before_watching(self.coverage.prepare)
        kube.background("coverage", self.coverage.run)
        add_metrics(kube.metrics, self.shadow, lambda: kube.watches.malformed, lambda: self.client.requests)
        traffic = ServerTraffic("scheduler")
        kube.metrics.register(traffic)
        report = ReportEndpoint(
            self.reports,
            time.time,
            BearerToken(options.report_token, "--report-token-file") if options.report_token else None,
            self._reported,
            lambda node: bool(self.cluster.reported(node)) if kube.watches.synced else None,
        )
        health = HealthPages(kube.metrics.page, kube.health.unhealthy, kube.health.unready, lambda: STANDING)
        self.server = HttpServer(
            SchedulerPages(health, report=report, debug=self._pages()),
            listening or options.listen,
            limits=options.http,
            tls=options.tls,
            traffic=traffic,
            has_dates=True,
        )
        kube.serve("http", self.server)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of the API server never end it; a defect of ours does."""
        await self.kube.run(stop, self._work, on_synced=self._synced)

    def _synced(self) -> None:
        nodes, pods = self.cluster.size()
        names = ", ".join(self.options.schedulers)
        _log.info("listed %d nodes and %d pods; judging pods of %s beside it", nodes, pods, names)
        _log.info("metrics, health and `cotenant explain shadow` on %s", self.server.url)

    async def _work(self) -> None:
        while True:
            now_s = self.kube.turn()
            left_s = self.shadow.next_s(now_s) - now_s
            if left_s > 0:
                await self.kube.sleep(min(_LONGEST_SLEEP_S, max(0.001, left_s)))
                continue
            until_s = time.monotonic() + _SLICE_S
            while self.shadow.next_s(now_s) <= now_s and time.monotonic() < until_s:
                self.shadow.work(now_s)
            await asyncio.sleep(0)

    # ---- reports and pages

    def _reported(self, report: NodeReport) -> None:
        row = list(report.row())
        row[-1] = self.kube.now.ours(report.at_s)
        self.cluster.report(report.node, tuple(row))
        if self.cluster.plugins.load_aware.is_on:
            self.cluster.plugins.load_aware.report_seen(replace(report, at_s=row[-1]), self.kube.now())
            self.kube.wake()

    def _state(self) -> ProcessState:
        nodes, pods = self.cluster.size()
        return ProcessState(
            identity=self.kube.identity,
            leading=False,
            standing=STANDING,
            synced=self.kube.watches.synced,
            nodes=nodes,
            pods=pods,
            seated=len(self.cluster.assigned()),
            pending=self.cluster.pending_pods(),
            nominated={},
            binds_under_way=0,
            notices_waiting=0,
            oddities=dict(self.cluster.counts),
        )

    def _pages(self) -> Routes:
        token = self.options.debug_token
        process = Process(
            self.cluster,
            Debugging(self.cluster.observe),
            self.options.schedulers,
            self.kube.now,
            self._state,
            lambda: STANDING,
            self._workloads.state,
            self.coverage.notes,
        )
        return Routes(
            (
                Route("GET", "/debug/shadow", self._report),
                *process_routes(process),
                *plugin_routes(self.cluster, self.kube.now),
            ),
            CallerGuard(BearerToken(token, "--debug-token-file") if token else None, time.time),
        )

    def _report(self, asked: PageRequest) -> HttpAnswer:
        text = asked.query.get("last", (str(KEPT),))[0]
        if not (text.isascii() and text.isdecimal() and len(text) < 6):
            raise InvalidInput("last", text, "how many of the newest differences, 0 or more")
        return HttpAnswer(200, msgspec.json.encode(self.shadow.report(self.kube.now(), int(text))), JSON)
