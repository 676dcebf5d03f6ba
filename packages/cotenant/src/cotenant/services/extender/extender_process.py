"""The extender process: arguments are checked, parts joined, signals set up.

An open extender lets anyone steer pods, and a wrong argument must be one clear line before anything is served. Loopback
by default; on other addresses it listens only with client certificates, or with `--insecure` where the network is
trusted. A profile that uses residents needs a cluster; the founding one works with or without.
Limits: one process; two replicas each have their own reports, so agents must send to both or the replicas answer
differently.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.seals.seals import read_seals
from cotenant.engine.plugins.quotas.credit import SURCHARGE_LEVELS
from cotenant.engine.state.reports import NodeReports
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.extender.app import LIMITS, ExtenderApp, ProbePages
from cotenant.services.extender.extender_arguments import FOUNDING, FOUNDING_LEDGER, ExtenderSettings, check, profile_of
from cotenant.services.extender.founding_judge import FoundingJudge
from cotenant.services.extender.judge import Judge
from cotenant.services.extender.metrics import ExtenderMetrics
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.profile_judge import ProfileJudge, warm
from cotenant.services.extender.protocol import ExtenderProtocol
from cotenant.services.extender.standings import QuotaStandings
from cotenant.services.extender.watches import MirrorWatches
from cotenant.services.heap import freeze_heap, keep_trimmed
from cotenant.services.kernels import bring_kernels
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.accounts import report_user
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant.services.reporting.identity import TokenNodes
from cotenant.services.running import TaskSet, raise_descriptors, run_until_signal

MAX_NODES = 20_000

_log = logging.getLogger(__name__)


class ExtenderComponents:
    """The parts of the process, joined but not running. Raises `InvalidInput`."""

    def __init__(
        self, settings: ExtenderSettings, clock: Callable[[], float] = time.time, client: Client | None = None
    ) -> None:
        profile = profile_of(settings.profile)
        token = (
            None
            if settings.report_token_file is None
            else BearerToken(settings.report_token_file, "--report-token-file")
        )
        user = report_user(settings.report_account, settings.report_token_file)
        self.client = client
        self.mirror = Mirror(MAX_NODES, pressure_factor=profile.knobs.pressure_factor)
        self.standings = QuotaStandings() if settings.credit else None
        self.judge = _judge(profile, self.mirror, SURCHARGE_LEVELS if settings.credit else 0)
        self.reports = NodeReports(MAX_NODES)
        endpoint = ReportEndpoint(
            self.reports,
            clock,
            token,
            self.mirror.report_received,
            None if client is None else self.mirror.knows,
            None if client is None or not user else TokenNodes(client, user, time.monotonic),
        )
        extender = ExtenderProtocol(self.mirror, self.judge, settings.score_max, self.standings)
        self.traffic = ServerTraffic("extender")
        metrics = ExtenderMetrics(extender.tally, self.mirror, endpoint.counts, lambda: self._fresh(clock()))
        metrics.registry.register(self.traffic)
        seals = read_seals(settings.seal_certificate)
        self.watches = None if client is None else MirrorWatches(client, self.mirror, self.standings, seals)
        self.app = ExtenderApp(
            extender,
            endpoint,
            metrics,
            clock,
            bind=client.bind if client is not None and settings.bind else None,
            unready=self._unready,
        )

    def _fresh(self, now_s: float) -> int:
        return sum(now_s - report.at_s <= self.reports.ttl_s for report in self.reports)

    def _unready(self) -> str:
        return (
            "the cluster's nodes and pods have not all been listed" if self.watches and not self.mirror.synced else ""
        )


async def serve(
    settings: ExtenderSettings, stop: asyncio.Event, listening: Callable[[Address], None], limits: ServerLimits = LIMITS
) -> None:
    """Serve until `stop` is set. `listening` is called with the address. Raises `InvalidInput`."""
    address, health, tls = check(settings)
    async with AsyncExitStack() as stack:
        bound = bind(address)  # an address in use is reported before anything that takes seconds
        stack.callback(bound.close)
        client = None
        if settings.has_cluster:
            access: Access = load_access(settings.kubeconfig, settings.context)
            client = Client(access, qps=float("inf"), burst=1000, in_flight=64, user_agent="cotenant-extender")
            await stack.enter_async_context(client)
        parts = ExtenderComponents(settings, client=client)
        if isinstance(parts.judge, ProfileJudge):
            warm(parts.judge)
        server = HttpServer(parts.app, bound, limits=limits, tls=tls, traffic=parts.traffic)
        open_tls = replace(tls, client_ca=None) if tls is not None and settings.health_tls else None
        by_token = bool(settings.report_account) or settings.report_token_file is not None
        others = (
            [HttpServer(ProbePages(parts.app, by_token), health, limits=limits, tls=open_tls)]
            if health is not None
            else []
        )
        if not address.is_loopback and settings.client_ca is None:
            _log.warning("%s can be reached from other machines, and requires no client certificate", server.address)
        if settings.report_token_file is None and settings.client_ca is None and not settings.report_account:
            _log.warning(
                "reports are accepted from anyone who can connect: no --report-token-file, --report-account or "
                "--client-ca"
            )
        freeze_heap()
        tasks, end = TaskSet(), asyncio.Event()
        if parts.watches is not None:
            tasks.start("watches", parts.watches.run())
        tasks.start("heap", keep_trimmed())
        listening(server.address)
        _log.info("profile %s on %s", settings.profile, server.address)
        serving = [tasks.start("http", http_server.run(end)) for http_server in (server, *others)]
        try:
            await tasks.wait(stop)
        finally:
            end.set()
            await asyncio.wait(serving)
            await tasks.cancel()


def run(settings: ExtenderSettings) -> int:
    """Run until SIGTERM or SIGINT. Raises `InvalidInput`."""
    check(settings)
    log_to_stderr(settings.log_level, settings.log_format)
    bring_kernels()
    raise_descriptors()

    async def main(stop: asyncio.Event) -> None:
        await serve(settings, stop, lambda address: print(f"listening on {address}", flush=True))

    run_until_signal(main)
    return 0


def _judge(profile: PlacementProfile, mirror: Mirror, levels: int) -> Judge:
    if profile.name in (FOUNDING, FOUNDING_LEDGER):
        return FoundingJudge(mirror, from_ledger=profile.name == FOUNDING_LEDGER, levels=levels)
    return ProfileJudge(mirror, profile)
