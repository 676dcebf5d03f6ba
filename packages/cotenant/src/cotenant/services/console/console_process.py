"""The console process: watches, polls, and the server, joined.

It must never disturb what it shows, and must come up before the cluster's lists are complete. It only reads, but for
terminals, changes and approvals where they are switched on; every source may be absent. Changes of the cluster are
collected and settled once a `SETTLE_S`, a few hundred nodes at a time, so that the server answers meanwhile.
Limits: one process, one core; each replica watches by itself, and sessions are of one replica.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily

from cotenant.drivers.http.address import Address, ListeningSocket
from cotenant.drivers.http.limits import DEFAULTS
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES, read_autonomy
from cotenant.drivers.kube.kinds.custom.control_zone import CONTROL_ZONES
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS, read_migration_job
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.custom.node_resource_topology import NODE_TOPOLOGIES
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS, read_pool_lending
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS, read_right_sizing
from cotenant.drivers.kube.kinds.custom.workload_profile import WORKLOAD_PROFILES, read_workload_profile
from cotenant.drivers.kube.kinds.node import NODES, internal_address, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.metrics.registry import MetricsRegistry
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.assess.prices import PriceTable
from cotenant.model.cluster.node import Node
from cotenant.services.changes.book import ChangeBook
from cotenant.services.changes.machines import Machines
from cotenant.services.changes.place import ClusterPlace
from cotenant.services.changes.releases import Releases
from cotenant.services.console.access import OneTimeToken, Sessions, TokenReviewer
from cotenant.services.console.acting.allowing import Allowing
from cotenant.services.console.acting.board import ActingBoard
from cotenant.services.console.agents import Agents
from cotenant.services.console.app import ConsoleApp
from cotenant.services.console.applications.answers import ApplicationAnswers, Section
from cotenant.services.console.applications.changing import Changing
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.history import SnapshotHistory
from cotenant.services.console.hosts.answers import HostAnswers
from cotenant.services.console.hosts.contract import FleetReader, TerminalHost
from cotenant.services.console.hosts.known import KnownFleet
from cotenant.services.console.hosts.logs import LogAnswers
from cotenant.services.console.hosts.terminals import TERMINAL, Terminals
from cotenant.services.console.kept_sessions import KeptSessions
from cotenant.services.console.live import Live
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.proxy_login import ProxyLogin
from cotenant.services.console.questions import Questions, QuestionSection
from cotenant.services.console.sources import CLUSTER, CREDIT, SCHEDULER, TRACES, ConsoleSources
from cotenant.services.console.upstream import Upstream
from cotenant.services.console.views.credit import Credit
from cotenant.services.console.views.latencies import Latencies
from cotenant.services.console.views.lending import LendingPools
from cotenant.services.console.views.measurements import FleetMeasurements
from cotenant.services.console.views.moves import MoveBoard
from cotenant.services.console.views.node_agent import NodeAgents
from cotenant.services.console.views.numa import numa_words
from cotenant.services.console.views.profiles import Profiles
from cotenant.services.console.views.results import Results
from cotenant.services.console.views.timeline import Timelines
from cotenant.services.console.views.zone_monitors import ZoneMonitors
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.watches import ObjectHandler, Watches
from cotenant.services.running import TaskSet
from cotenant.services.zones.overview import Zones

COMPONENT = "cotenant-console"
LISTEN = Address("127.0.0.1", 10266)
SETTLE_S = 1.0
AT_ONCE = 250  # nodes settled without a pause
OUTAGE_S = 3.0  # without an answer of the API server until viewers are told
# A few thousand viewers; heads are small, and a viewer that reads nothing is disconnected.
LIMITS = replace(DEFAULTS, connections=4096, head_bytes=16 << 10, stop_within_s=1.0)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """What may be set of the process."""

    listen: Address = LISTEN
    scheduler: Callable[[], str] = lambda: ""
    scheduler_token_file: Path | None = None
    scheduler_ca: Path | None = None  # authorities of the scheduler's certificate, as PEM
    traces: Callable[[], str] = lambda: ""
    traces_token_file: Path | None = None
    traces_ca: Path | None = None
    credit: str = ""  # URL of the credit process; empty = none
    credit_token_file: Path | None = None
    credit_ca: Path | None = None
    agents: str = ""  # pattern of the addresses of nodes' agents (agents.py); empty = none
    fleet: FleetReader | None = None  # of hosts with the fleet's agents
    terminals: TerminalHost | None = None  # into their containers; None = switched off
    place: ClusterPlace = field(default_factory=ClusterPlace)  # whose releases and virtual machines are shown
    changes: bool = False  # by viewers; False = switched off
    approvals: bool = False  # of what movers suggest, undos and freezes, by viewers
    prices: PriceTable | None = None
    results: Path | None = None  # folder of the lab's experiments
    token: BearerToken | None = None
    login: OneTimeToken | None = None
    kept_sessions: KeptSessions | None = None
    kubernetes_login: bool = False
    proxy: ProxyLogin | None = None
    period_s: float = 10.0
    tls: Tls | None = None
    title: str = ""
    seals: Seals = NO_SEALS


class ConsoleProcess:
    """One console."""

    def __init__(
        self,
        access: Access,
        options: ConsoleOptions,
        *,
        listening: ListeningSocket | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        """`listening`: a socket that is bound already."""
        self.now = now or SteadyClock()
        self.client = Client(access, qps=50.0, burst=20, in_flight=8, user_agent=COMPONENT)
        self._seals = options.seals
        self.fleet, self.history = MeasuredFleet(), SnapshotHistory()
        self.moves, self.profiles, self.zones = MoveBoard(self.fleet), Profiles(), Zones()
        self.lending, self.latencies = LendingPools(), Latencies()
        self.sources = ConsoleSources(self.now)
        self.live = Live(self.fleet, self.sources, self.now)
        self.sources.changed = self.live.wake
        self._woken = asyncio.Event()
        self.scheduler = Upstream(
            SCHEDULER, options.scheduler, token_file=options.scheduler_token_file, ca=options.scheduler_ca
        )
        self.traces = Upstream(TRACES, options.traces, token_file=options.traces_token_file, ca=options.traces_ca)
        self.credit = (
            Upstream(CREDIT, lambda: options.credit, token_file=options.credit_token_file, ca=options.credit_ca)
            if options.credit
            else None
        )
        self.agents = Agents(options.agents, lambda node: node in self.fleet.nodes)
        self.hosts = (
            KnownFleet(options.fleet, self.sources, self.now, self.live.hosts_changed)
            if options.fleet is not None
            else None
        )
        self.timelines = Timelines(self.fleet, self.agents, self.traces, self.moves, self.latencies, self.now)
        self.acting = ActingBoard(self.moves, self.lending, self.timelines.acts, self.now, may_change=options.approvals)
        self.measurements = FleetMeasurements(
            self.fleet,
            self.client,
            self.scheduler,
            self.sources,
            self._woken.set,
            options.period_s,
            lambda latencies_ms: self.latencies.seen(self.now(), latencies_ms),
            now=self.now,
        )
        self.watches = self._watches()
        self.login = options.login or OneTimeToken()
        reviewer = TokenReviewer(access)
        self.sessions = Sessions(
            self.now,
            link=self.login,
            token=options.token,
            review=reviewer if options.kubernetes_login else None,
            may_list=reviewer.may_list,
            proxy=options.proxy,
            is_secure=options.tls is not None,
            kept=options.kept_sessions,
        )
        self.book = ChangeBook()
        releases, machines = Releases(options.place, self.book), Machines(options.place, self.book)
        applications = ApplicationAnswers(
            releases, machines, self.book, may_change=options.changes, prices=options.prices
        )
        posts = (
            Changing(releases, machines) if options.changes else Changing(),
            Allowing(self.acting, self.client if options.approvals else None),
        )
        questions = self._questions(options, access.server, applications)
        self.metrics = MetricsRegistry()
        traffic = ServerTraffic(
            "console", lasts=lambda scope: scope["path"] == "/api/events" or scope["path"].startswith(TERMINAL)
        )
        self.metrics.register(traffic)
        self._count()
        health = HealthPages(self.metrics.page, unready=self._unready)
        terminals = Terminals(options.terminals)
        self.app = ConsoleApp(self.sessions, self.live, self.history, questions, health, terminals, posts)
        self.server = HttpServer(self.app, listening or options.listen, limits=LIMITS, tls=options.tls, traffic=traffic)

    def _questions(self, options: ConsoleOptions, server: str, applications: ApplicationAnswers) -> Questions:
        facts = {
            "title": options.title or server,
            "kubernetesLogin": options.kubernetes_login,
            "terminals": options.terminals is not None,
        }
        sections: dict[str, QuestionSection] = {
            "moves": self.moves,
            "lending": self.lending,
            "profiles": self.profiles,
            "zones": self.zones,
            "zone": ZoneMonitors(self.zones.nodes_of, self.agents),
            "credit": Credit(self.credit, self.sources),
            "lab": Results(options.results),
            "hosts": HostAnswers(
                self.hosts, lambda name: name in self.fleet.nodes, has_terminals=options.terminals is not None
            ),
            "releases": Section(applications.releases),
            "vms": Section(applications.vms),
            "changes": Section(applications.changes),
            "logs": LogAnswers(options.fleet),
            "agent": NodeAgents(self.agents, self.now),
            "timeline": self.timelines,
            "autonomy": self.acting,
        }
        return Questions(
            self.fleet,
            self.history,
            self.sources,
            self.client,
            self.scheduler,
            self.traces,
            self.now,
            facts,
            sections,
            self._seals,
        )

    def _count(self) -> None:
        """Add the console's own metrics."""
        self.metrics.read(
            GaugeMetricFamily,
            "cotenant_console_viewers",
            "Open streams of live changes.",
            (),
            lambda: [((), self.live.viewers)],
        )
        self.metrics.read(
            GaugeMetricFamily,
            "cotenant_console_source_up",
            "Whether a source answered last time.",
            ("source",),
            lambda: [((name,), float(bool(entry["ok"]))) for name, entry in self.sources.view().items()],
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of a source never end it."""
        tasks, end = TaskSet(), asyncio.Event()
        try:
            tasks.start("watches", self.watches.run())
            tasks.start("measurements", self._measure())
            tasks.start("settling", self._settle())
            if self.hosts is not None:
                tasks.start("hosts", self.hosts.run())
            serving = tasks.start("http", self.server.run(end))
            await tasks.wait(stop)
        finally:
            end.set()
            await asyncio.wait([serving])
            await tasks.cancel()
            await self.book.close()
            for upstream in (self.scheduler, self.traces, self.credit, self.agents, self.client):
                if upstream is not None:
                    await upstream.close()
            if self.hosts is not None:
                await self.hosts.reader.close()

    def _unready(self) -> str:
        return "" if self.watches.synced else "not everything has been listed yet"

    def _watches(self) -> Watches:
        watches, reader = Watches(self.client, delivered=self._woken.set), PodReader(seals=self._seals)
        fleet = self.fleet
        watches.handle(
            NODES,
            ObjectHandler(
                lambda obj: (read_node(obj), internal_address(obj)), self._node_seen, self._node_gone, lambda key: None
            ),
        )
        watches.handle(
            PODS, ObjectHandler(lambda obj: pod_row(reader.pod(obj)), fleet.pod_seen, fleet.pod_gone, lambda key: None)
        )
        watches.handle(
            NODE_METRICS,
            ObjectHandler(
                read_node_metric, self.measurements.metric_seen, self.measurements.metric_gone, lambda key: None
            ),
            optional=True,
        )
        watches.handle(
            MIGRATION_JOBS, ObjectHandler(read_migration_job, self.moves.seen, self.moves.gone), optional=True
        )
        watches.handle(
            WORKLOAD_PROFILES,
            ObjectHandler(read_workload_profile, self.profiles.seen, self.profiles.gone),
            optional=True,
        )
        watches.handle(
            POOL_LENDINGS, ObjectHandler(read_pool_lending, self.lending.seen, self.lending.gone), optional=True
        )
        watches.handle(
            RIGHT_SIZINGS,
            ObjectHandler(read_right_sizing, self.acting.sizing_seen, self.acting.sizing_gone),
            optional=True,
        )
        watches.handle(
            AUTONOMIES,
            ObjectHandler(read_autonomy, self.acting.autonomy_seen, self.acting.autonomy_gone),
            optional=True,
        )
        watches.handle(
            NODE_TOPOLOGIES,
            ObjectHandler(numa_words, lambda seen: fleet.numa_seen(*seen), lambda node: fleet.numa_seen(node, "")),
            optional=True,
        )
        watches.handle(CONTROL_ZONES, ObjectHandler(lambda obj: obj, self.zones.seen, self.zones.gone), optional=True)
        return watches

    def _node_seen(self, seen: tuple[Node, str]) -> None:
        node, address = seen
        self.fleet.node_seen(node)
        self.agents.address_seen(node.name, address)

    def _node_gone(self, name: str) -> None:
        self.fleet.node_gone(name)
        self.agents.node_gone(name)

    async def _measure(self) -> None:
        await self.watches.wait_synced()
        await self.measurements.run()

    async def _settle(self) -> None:
        await self.watches.wait_synced()
        _log.info("listed %d nodes and %d pods", len(self.fleet.nodes), len(self.fleet.pods))
        while True:
            self._look_at_server()
            changed = False
            while self.fleet.has_changes:
                changed = self.fleet.recompute(AT_ONCE) or changed
                await asyncio.sleep(0)
            if changed:
                self.live.wake()
            now_s = self.now()
            if self.history.wants_sums(now_s):
                self.history.add(now_s, self.fleet.totals())
            if self.history.wants_snapshot(now_s):
                self.history.keep(now_s, self.live.snapshot())
            self._woken.clear()
            await asyncio.sleep(SETTLE_S)
            try:
                async with asyncio.timeout(SETTLE_S):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def _look_at_server(self) -> None:
        lasts_s = self.client.outage.lasts_s
        if lasts_s > OUTAGE_S:
            self.sources.failed(CLUSTER, f"the API server {self.client.access.server} does not answer", lasts_s)
        elif not lasts_s:
            self.sources.ok(CLUSTER)
