"""The credit process: watches give facts, the leader books them each period and writes standings.

A replica that is killed, loses its lease or its database must not book a period twice, and must go on by itself. Every
replica watches; the leader samples use, books a period when it ends, and keeps the observed means until they are
stored. Periods are numbered by wall-clock time, so a successor continues with the next number. Standings are
annotations of quota objects, written when they differ from what is there.
Limits: what a killed leader observed since its last booking is not booked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.address import Address, ListeningSocket
from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.pages import HealthPages
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.journal.journal import Journal
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.custom.elastic_quota import (
    ELASTIC_QUOTAS,
    X_ELASTIC_QUOTAS,
    read_quota,
    read_x_quota,
    x_key,
)
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS, read_node_metric
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.engine.credit.observed import ObservedUse
from cotenant.model.errors import CotenantError
from cotenant.policy.credit.bounds import DEFAULTS, CreditRules
from cotenant.services.credit import metrics
from cotenant.services.credit.booking import Booking
from cotenant.services.credit.facts import ClusterFacts
from cotenant.services.credit.incidents import IncidentEndpoint
from cotenant.services.credit.pages import PREFIX, CreditPages
from cotenant.services.credit.writing import WRITERS, WriteStanding
from cotenant.services.kube_process.clock import SteadyClock
from cotenant.services.kube_process.kube_process import KubeProcess
from cotenant.services.kube_process.leadership import Leadership
from cotenant.services.kube_process.watches import ObjectHandler
from cotenant.services.reporting.identity import TokenNodes
from cotenant.services.routes import CallerGuard

LISTEN = Address("127.0.0.1", 10265)
COMPONENT = "cotenant-credit"
SAMPLE_S = 5.0
RETRY_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CreditOptions:
    """What may be set of the process."""

    listen: Address = LISTEN
    period_s: float = 60.0
    rules: CreditRules = DEFAULTS
    token: Path | None = None
    writes_standing: bool = True
    sample_s: float = SAMPLE_S  # between two samples of use, and two looks at standings
    report_user: str = ""  # user name of the agents' service account; "" = no review of tokens
    tls: Tls | None = None
    seals: Seals = NO_SEALS


class CreditProcess:
    """One replica. The journal is owned: `run` closes it."""

    def __init__(
        self,
        access: Access,
        options: CreditOptions,
        journal: Journal,
        identity: str,
        leadership: Callable[[Client], Leadership],
        clock: SteadyClock | None = None,
        wall: Callable[[], float] = time.time,
        listening: ListeningSocket | None = None,
    ) -> None:
        """`wall` gives Unix seconds; `listening`: a socket that is bound already."""
        self.client = Client(access, qps=float("inf"), burst=100, in_flight=8, user_agent=COMPONENT)
        self.kube = kube = KubeProcess(
            COMPONENT, identity, self.client, leadership=leadership(self.client), events_per_s=5.0, clock=clock
        )
        self._options = options
        self._wall = wall
        self.booking = Booking(journal, options.rules, self._wall_ms)
        self.facts = facts = ClusterFacts(kube.now)
        self._observed = ObservedUse()
        self.writer = kube.status_writer("standings", WRITERS, per_s=20.0)
        reader = PodReader(seals=options.seals)
        kube.watches.handle(
            ELASTIC_QUOTAS, ObjectHandler(read_quota, facts.quota_seen, facts.quota_gone), optional=True
        )
        kube.watches.handle(
            X_ELASTIC_QUOTAS,
            ObjectHandler(read_x_quota, facts.quota_seen, lambda key: facts.quota_gone(x_key(key))),
            optional=True,
        )
        kube.watches.handle(PODS, ObjectHandler(reader.pod, facts.pod_seen, facts.pod_gone))
        kube.watches.handle(
            NODE_METRICS, ObjectHandler(read_node_metric, facts.metric_seen, facts.metric_gone), optional=True
        )
        token = BearerToken(options.token, "--token-file") if options.token is not None else None
        self._health = HealthPages(kube.metrics.page, kube.health.unhealthy, kube.health.unready, kube.standing)
        guard = CallerGuard(token, kube.now)
        nodes = TokenNodes(self.client, options.report_user, kube.now) if options.report_user else None
        incidents = IncidentEndpoint(
            self.booking.book, lambda: kube.leads and kube.watches.synced, guard, self._wall_ms, facts.place_of, nodes
        )
        self._pages = CreditPages(journal, lambda: self.booking.accounts, guard, incidents)
        self.server = HttpServer(self._answer, listening or options.listen, tls=options.tls)
        kube.serve("http", self.server)
        kube.on_stop(journal.close)
        metrics.register(kube.metrics, self.booking, incidents.counts, leads=lambda: kube.leads)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors of the API server and the database never end it; a defect of ours does."""
        self.kube.background("accounts", self._follow)
        await self.kube.run(stop, self._work)

    async def _follow(self) -> None:
        """While another replica leads, read what it booked, for the pages and the metrics."""
        while True:
            if not self.kube.leads:
                try:
                    await self.booking.refresh()
                except CotenantError as error:
                    self.booking.failures += 1
                    _log.warning("%s", error)
            await asyncio.sleep(RETRY_S)

    async def _work(self) -> None:
        kube = self.kube
        self.booking.outdate()
        self._observed.forget()
        period = self._period()  # the running one: its part before this replica led is not ours
        retry_s = 0.0
        while True:
            kube.turn()
            self._observed.sample(self.facts.uses(), int(kube.now() * 1000))
            if kube.leads and self._period() > period and kube.now() >= retry_s:
                try:
                    await self._book_period(period)
                    period = self._period()
                except CotenantError as error:
                    retry_s = kube.now() + RETRY_S
                    _log.warning("period %d is not booked yet: %s", period, error)
            if self._options.writes_standing and kube.leads:
                self._write_standings()
            await asyncio.sleep(self._options.sample_s)  # not woken by watches: a sample looks at every pod

    async def _book_period(self, period: int) -> None:
        observed = self._observed
        uses, lasted_ms = observed.means(), observed.observed_ms
        at_ms = self._wall_ms()
        posting = await self.booking.book(lambda accounts: accounts.period_ended(period, at_ms, lasted_ms, uses))
        observed.reset()
        if posting is not None:
            _log.debug("period %d: %d entries", period, len(posting.entries))

    def _write_standings(self) -> None:
        for tenant, written in self.facts.quotas().items():
            standing = self.booking.accounts.standing_of(tenant)
            if standing != written.standing:
                self.writer.put(written.key, WriteStanding(written.key, written.uid, standing))

    def _period(self) -> int:
        return int(self._wall() // self._options.period_s)

    def _wall_ms(self) -> int:
        return int(self._wall() * 1000)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(PREFIX):
            await self._pages(scope, receive, send)
            return
        found = self._health.answer(scope["method"], scope["path"], scope["query_string"])
        await send_answer(send, found or HttpAnswer(404, b"not found\n", TEXT))
