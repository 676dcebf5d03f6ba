"""The scheduler process: watches update the engine, the engine decides, and its instructions are carried out.

All of it shares one event loop and one core, and must survive an API server that is away, the loss of leadership at any
moment, and its own restart. The parts of a process and their order of start and stop are those of `KubeProcess`; this
file adds the engine. State is only ever built from lists and watches, so a restart needs nothing else. The loop sleeps
until something changed or until the engine's next deadline, decides in batches, and decides at most one batch ahead of
the binds, so that the newest facts count. A round costs as much for one pod as for several, so the next round begins
`ROUND_S` after the last one at the earliest: a pod that arrives alone is decided at once, pods that arrive one after
the other share rounds.
Limits: one core; a replica that does not lead keeps the cluster in memory too.

When leadership ends (SIGTERM, or the lease lost): no more decisions, binds that are not sent are withheld, those under
way are awaited; then the lease is released.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from cotenant.drivers.http.address import ListeningSocket
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.workload.index import WorkloadIndex
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Instruction, Preempt, Unschedulable
from cotenant.engine.plugins.extenders.question import AskExtenders
from cotenant.engine.plugins.reservations.instructions import ReserveNode
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.engine.state.reports import NodeReports
from cotenant.model.cluster.report import NodeReport
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Leadership
from cotenant.services.kube_process.span_export import exporter
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant.services.reporting.identity import TokenNodes
from cotenant.services.routes import CallerGuard, Routes
from cotenant.services.scheduler.actions import object_status, pod_status
from cotenant.services.scheduler.actions.binding import Binder, BindOutcomes
from cotenant.services.scheduler.actions.eviction import Preemptor
from cotenant.services.scheduler.actions.eviction_marks import EvictionMarks
from cotenant.services.scheduler.actions.eviction_requests import EvictionRequests
from cotenant.services.scheduler.actions.extenders import ExtenderCalls
from cotenant.services.scheduler.actions.reservations import Reserver
from cotenant.services.scheduler.attempt_spans import AttemptSpans, TracedOutcomes
from cotenant.services.scheduler.http import SchedulerPages
from cotenant.services.scheduler.metrics import SchedulerMetrics
from cotenant.services.scheduler.pages.debugging import Debugging
from cotenant.services.scheduler.pages.plugins import routes as plugin_routes
from cotenant.services.scheduler.pages.scheduler_pages import Process, ProcessState
from cotenant.services.scheduler.pages.scheduler_pages import routes as process_routes
from cotenant.services.scheduler.pods_of import pods_of
from cotenant.services.scheduler.server_coverage import ServerCoverage
from cotenant.services.scheduler.shards.pods_of_shard import PodsOfShard
from cotenant.services.scheduler.shards.shard import Shard
from cotenant.services.scheduler.shards.sharding import Sharding
from cotenant.services.scheduling.claim_writer import DeviceClaimWriter
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.engine import scheduling_engine
from cotenant.services.scheduling.options import Options
from cotenant.services.scheduling.watches import EngineWatches

DRAIN_S = 5.0
_LONGEST_SLEEP_S = 5.0
ROUND_S = 0.01  # from the start of a round to the next one, unless the first takes longer

_log = logging.getLogger(__name__)


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
        listening: ListeningSocket | None = None,
        sharding: Sharding | None = None,
    ) -> None:
        """`listening`: a socket that is bound already. `sharding`: it is one of several that act. Raises `InvalidInput`
        for an address or a token file that cannot be used.
        """
        self.options = options
        # Room for the binds, the statuses and Events beside them, and what reads or evicts.
        self.client = Client(
            access,
            qps=options.qps,
            burst=options.burst,
            in_flight=options.binds_in_flight + 16,
            user_agent="cotenant-scheduler",
        )
        self.kube = kube = KubeProcess(
            options.schedulers[0],
            identity,
            self.client,
            leadership=leadership(self.client),
            events_per_s=options.notices_per_s,
            streaming_lists=options.streaming_lists,
            later_in_portions=True,
            clock=clock,
        )
        self.cluster = scheduling_engine(profile, options)
        self._sharding = sharding
        self.shard: Shard | None = None
        self.metrics = SchedulerMetrics(profile.name, kube.metrics)
        self.reports = NodeReports()
        self._report = ReportEndpoint(
            self.reports,
            time.time,
            BearerToken(options.report_token, "--report-token-file") if options.report_token else None,
            self._reported,
            lambda node: bool(self.cluster.reported(node)) if kube.watches.synced else None,
            TokenNodes(self.client, options.report_user, time.monotonic) if options.report_user else None,
        )
        self._deciding = False
        self.spans = self._spans(kube, options)
        self._carry_out_with(kube, options)
        self.debugging = Debugging(self.cluster.observe)
        health = HealthPages(self.metrics.page, kube.health.unhealthy, kube.health.unready, self._remark)
        traffic = ServerTraffic("scheduler")
        self.metrics.registry.register(traffic)
        self.pages = SchedulerPages(health, report=self._report, debug=self._debug_pages())
        self.server = HttpServer(
            self.pages,
            listening or options.listen,
            limits=options.http,
            tls=options.tls,
            traffic=traffic,
            has_dates=True,
        )
        kube.serve("http", self.server)
        self.metrics.read_engine(self.cluster)
        self.metrics.read_process(
            malformed=lambda: kube.watches.malformed,
            reports=self._report.counts,
            events_dropped=lambda: kube.events.dropped,
            binds_under_way=lambda: self.binder.backlog,
            requests=lambda: self.client.requests,
            leads=lambda: self._leads,
        )
        if self.shard is not None:
            self.metrics.read_shard(self.shard)

    def _spans(self, kube: KubeProcess, options: Options) -> AttemptSpans | None:
        sink = exporter(kube, "cotenant-scheduler", options.span_target)
        if sink is None:
            return None
        self.metrics.read_spans(sink.samples)
        return AttemptSpans(sink)

    def _carry_out_with(self, kube: KubeProcess, options: Options) -> None:
        """Make the parts that carry out instructions, and the watches that feed the engine."""
        self._workloads = WorkloadIndex(options.workload_kinds)
        reader = PodReader(
            by_scheduler=pods_of(self.cluster.profile, options), seals=options.seals, workloads=self._workloads
        )
        claims = ClaimBinder(self.client, reader.volumes, lambda node: self.cluster.node(node))
        per_s = options.notices_per_s
        # The engine reports each status once, so what waits is written even where leadership was lost meanwhile.
        writers = pod_status.writers(self.cluster.state_of)
        conditions = kube.status_writer("conditions", writers, per_s=per_s, only_leading=False)
        self.statuses = kube.status_writer("statuses", object_status.WRITERS, per_s=per_s, only_leading=False)
        self.pod_statuses = pod_status.PodStatuses(conditions, kube.events)
        outcomes: BindOutcomes = self.cluster
        if self.spans is not None:
            outcomes = TracedOutcomes(outcomes, self.spans)
        self.extender_calls = ExtenderCalls(
            self.client, self.cluster.plugins.extenders, self.metrics, kube.now, kube.wake, self.cluster.node
        )
        kube.on_stop(self.extender_calls.stop)
        self.binder = Binder(
            self.client,
            outcomes,
            reader,
            claims,
            self.pod_statuses,
            self.metrics,
            kube.now,
            in_flight=options.binds_in_flight,
            may_bind=lambda: self._leads,
            changed=kube.wake,
            sealer=options.sealer,
            volumes_within_s=options.volumes_within_s,
            bound_by=self.extender_calls.binder if self.cluster.plugins.extenders.extenders else None,
            version_of=self._version_of if self._sharding is not None else None,
        )
        kube.background("binds", self.binder.run)
        marks = EvictionMarks(self.client, lambda: self.shard.term if self.shard else "", lambda: self._leads)
        self.evictor = Preemptor(
            self.client,
            self.cluster,
            self.pod_statuses,
            self.metrics,
            options.schedulers[0],
            kube.now,
            kube.wake,
            EvictionRequests(self.client, kube.watches, kube.now),
            may_act=lambda: self._leads,
            agreed=self.extender_calls.agreed,
            marks=marks if self._sharding is not None else None,
        )
        kube.background("evictions", self.evictor.run)
        kube.on_stop(self.evictor.stop)
        leads, fenced, sealer = lambda: self._leads, self._sharding is not None, options.sealer
        self.reserver = Reserver(
            self.client, self.cluster, kube.now, may_write=leads, changed=kube.wake, sealer=sealer, is_fenced=fenced
        )
        kube.on_stop(self.reserver.stop)
        if self._sharding is None:
            watched = EngineWatches(kube.watches, self.cluster, reader, claims, self.reports, kube.now)
        else:
            pods = PodsOfShard(self.cluster, options.schedulers, kube.now)
            self.shard = shard = self._sharding.shard(
                self.client, self.cluster, pods, reader, options.schedulers, self._pods_version, kube
            )
            watched = EngineWatches(
                kube.watches,
                self.cluster,
                reader,
                claims,
                self.reports,
                kube.now,
                pod_events=pods,
                node_events=shard,
                hearing=shard.custom,
            )
        self._watched = watched
        self.binder.devices = DeviceClaimWriter(self.client, watched.device_claims.claims, time.time)
        self.coverage = ServerCoverage(self.client, kube.watches.kinds, watched.pods, watched.pods_delivered)
        kube.before_watching(self.coverage.prepare)
        kube.background("coverage", self.coverage.run)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of the API server never end it; a defect of ours does."""
        try:
            await self.kube.run(stop, self._work, on_synced=self._synced)
        finally:
            await self.extender_calls.close()

    def _synced(self) -> None:
        nodes, pods = self.cluster.size()
        _log.info("listed %d nodes and %d pods; %s", nodes, pods, self.cluster.pending_pods())
        _log.info("metrics, health and reports on %s", self.server.url)

    def _version_of(self, key: str, uid: str) -> str:
        """The version of a pod as last seen; one that nothing has where it is not known."""
        pod = self._watched.pods.cache.get(key)
        known = pod is not None and pod.metadata.uid == uid
        return (pod.metadata.resource_version or "0") if known and pod is not None else "0"

    def _pods_version(self) -> int:
        version = self._watched.pods.cache.resource_version
        return int(version) if version.isdecimal() else 0

    def _remark(self) -> str:
        """What a person should know about its right to act."""
        standing = self.kube.standing()
        return standing if standing or self.shard is None else self.shard.standing()

    async def _work(self) -> None:
        """Decide while leading; then settle the binds."""
        self._deciding = True
        sharing: asyncio.Task[None] | None = None
        if self.shard is not None and self._sharding is not None:
            sharing = asyncio.create_task(self.shard.run(self._sharding.slot))
        try:
            await self._decide_and_sleep(sharing)
        finally:
            self._deciding = False
            if sharing is not None:
                sharing.cancel()
                await asyncio.wait((sharing,))
            _log.info("no longer deciding: %d binds under way", self.binder.backlog)
            self.binder.withhold("not leading")
            await self.binder.drain(DRAIN_S)
            if self.shard is not None:
                await self.shard.leave(may_write=self.kube.leads)

    # ---- decisions

    async def _decide_and_sleep(self, beside: asyncio.Task[None] | None) -> None:
        ahead, kube = self.cluster.settings.max_pods, self.kube
        loop = asyncio.get_running_loop()
        while True:
            if beside is not None and beside.done():
                beside.result()  # a defect of ours: it never ends by itself
            begun_s, now_s = loop.time(), kube.turn()
            # Where only an answer, leadership or the rest of a list can help, the longest sleep: each wakes the loop.
            may_decide = kube.leads and self.binder.backlog < ahead and not kube.watches.is_handing_on
            left_s = self.cluster.next_s() - now_s if may_decide else _LONGEST_SLEEP_S
            if left_s > 0:
                await kube.sleep(min(_LONGEST_SLEEP_S, max(0.001, left_s)))
                continue
            self._carry_out(self._decide(now_s))
            await asyncio.sleep(begun_s + ROUND_S - loop.time())  # what was decided is sent meanwhile

    def _decide(self, now_s: float) -> tuple[Instruction, ...]:
        begun_s = time.perf_counter()
        instructions = self.cluster.decide(now_s)
        elapsed_s = time.perf_counter() - begun_s
        self.metrics.decide_duration.observe(elapsed_s)
        if self.spans is not None:
            self.spans.decided(instructions, now_s, now_s + elapsed_s)
        binds = sum(isinstance(instruction, Bind) for instruction in instructions)
        if binds:
            share_s = elapsed_s / binds
            for _ in range(binds):
                self.metrics.algorithm_duration.observe(share_s)
        return instructions

    def _carry_out(self, instructions: tuple[Instruction, ...]) -> None:
        waiting: dict[str, int] = {}
        shard = self.shard
        for instruction in instructions:
            if isinstance(instruction, Bind):
                self.binder.add(instruction)
            elif shard is not None and not shard.carries_out(instruction):
                continue
            elif isinstance(instruction, Unschedulable):
                self.metrics.unschedulable.inc()
                self.pod_statuses.unschedulable(instruction)
                waiting[instruction.message] = waiting.get(instruction.message, 0) + 1
            elif isinstance(instruction, Preempt):
                self.evictor.add(instruction)
            elif isinstance(instruction, Evict):
                self.evictor.evict(instruction)
            elif isinstance(instruction, ReserveNode):
                self.reserver.add(instruction)
            elif isinstance(instruction, ReleaseClaim):
                self.binder.release(instruction)
            elif isinstance(instruction, AskExtenders):
                self.extender_calls.ask(instruction)
            elif isinstance(instruction, ClearNomination):
                self.pod_statuses.nomination_cleared(instruction)
            else:
                self.statuses.put((instruction.kind, instruction.key), instruction)
        for message, pods in waiting.items():
            _log.info("%d pods wait: %s", pods, message)

    @property
    def _leads(self) -> bool:
        return self._deciding and self.kube.leads and (self.shard is None or not self.shard.is_lost)

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
            leading=self._leads,
            standing=self._remark(),
            synced=self.kube.watches.synced,
            nodes=nodes,
            pods=pods,
            seated=len(self.cluster.assigned()),
            pending=self.cluster.pending_pods(),
            nominated=self.cluster.reserved(),
            binds_under_way=self.binder.backlog,
            notices_waiting=self.pod_statuses.waiting(),
            oddities=dict(self.cluster.counts),
        )

    def _debug_pages(self) -> Routes:
        options = self.options
        token = BearerToken(options.debug_token, "--debug-token-file") if options.debug_token else None
        process = Process(
            self.cluster,
            self.debugging,
            options.schedulers,
            self.kube.now,
            self._state,
            self.kube.standing,
            self._workloads.state,
            self.coverage.notes,
            self.shard.of_pod if self.shard is not None else None,
        )
        return Routes(
            (*process_routes(process), *plugin_routes(self.cluster, self.kube.now)), CallerGuard(token, time.time)
        )
