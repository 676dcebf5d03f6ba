"""The extender process: arguments are checked, parts joined, signals set up.

Problem: an open extender lets anyone steer pods, and a wrong argument must be one clear line before anything is served. Choice: loopback by
default; on other addresses it listens only with client certificates, or with `--insecure` where the network is trusted. A profile that uses residents
needs a cluster; the founding one works with or without. Limits: one process; two replicas each have their own reports, so agents must
send to both or the replicas answer differently.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken, read_token
from cotenant.drivers.http.traffic import Traffic
from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.engine.plugins.quotas.credit import SURCHARGE_LEVELS
from cotenant.engine.state.reports import Reports
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile
from cotenant.services.extender.app import LIMITS, Application, Pages
from cotenant.services.extender.founding_judge import FoundingJudge
from cotenant.services.extender.judge import Judge
from cotenant.services.extender.metrics import ExtenderMetrics
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.profile_judge import ProfileJudge, warm
from cotenant.services.extender.protocol import FOUNDING_MAX, Extender
from cotenant.services.extender.standings import QuotaStandings
from cotenant.services.extender.watches import MirrorWatches
from cotenant.services.heap import keep_trimmed
from cotenant.services.kernels import bring_kernels
from cotenant.services.logs import log_to_stderr
from cotenant.services.reporting.endpoint import ReportEndpoint
from cotenant.services.reporting.identity import TokenNodes, report_user
from cotenant.services.running import TaskSet, raise_descriptors, run_until_signal

FOUNDING, FOUNDING_LEDGER = "founding", "founding-ledger"
MOST_NODES = 20_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """The command's arguments. `cluster`: whether to look for access to an API server at all."""

    listen: str = "127.0.0.1:8888"
    health_listen: str = ""
    profile: str = FOUNDING
    score_max: int = 10
    cluster: bool = False
    kubeconfig: Path | None = None
    context: str = ""
    bind: bool = False
    credit: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    report_token_file: Path | None = None
    report_account: str = ""  # NAMESPACE/NAME; "" = no review of tokens
    health_tls: bool = False  # the health listener has the same certificate, and requires none of clients
    insecure: bool = False
    log_level: str = "info"
    log_format: str = "text"


class ExtenderComponents:
    """The parts of the process, joined but not running. Raises `InvalidInput`."""

    def __init__(
        self, settings: ExtenderSettings, clock: Callable[[], float] = time.time, client: Client | None = None
    ) -> None:
        profile = _profile(settings.profile)
        token = (
            None
            if settings.report_token_file is None
            else BearerToken(settings.report_token_file, "--report-token-file")
        )
        user = report_user(settings.report_account, settings.report_token_file)
        self.client = client
        self.mirror = Mirror(MOST_NODES, pressure_factor=profile.knobs.pressure_factor)
        self.standings = QuotaStandings() if settings.credit else None
        self.judge = _judge(profile, self.mirror, SURCHARGE_LEVELS if settings.credit else 0)
        self.reports = Reports(MOST_NODES)
        endpoint = ReportEndpoint(
            self.reports,
            clock,
            token,
            self.mirror.report_received,
            None if client is None else self.mirror.knows,
            None if client is None or not user else TokenNodes(client, user, time.monotonic),
        )
        extender = Extender(self.mirror, self.judge, settings.score_max, self.standings)
        self.traffic = Traffic("extender")
        metrics = ExtenderMetrics(extender.tally, self.mirror, endpoint.counts, lambda: self._fresh(clock()))
        metrics.registry.register(self.traffic)
        self.watches = None if client is None else MirrorWatches(client, self.mirror, self.standings)
        self.app = Application(
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


def check(settings: ExtenderSettings) -> tuple[Address, Address | None, Tls | None]:
    """Addresses and TLS of the settings. Raises `InvalidInput` for what does not fit together."""
    address = Address.parse("--listen", settings.listen)
    health = Address.parse("--health-listen", settings.health_listen) if settings.health_listen else None
    cert, key = settings.tls_cert, settings.tls_key
    if (cert is None) != (key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(cert or key), "both or neither")
    if settings.client_ca is not None and cert is None:
        raise InvalidInput("--client-ca", str(settings.client_ca), "--tls-cert and --tls-key beside it")
    if settings.health_tls and (cert is None or health is None):
        raise InvalidInput("--health-tls", "alone", "--tls-cert, --tls-key and --health-listen beside it")
    tls = None if cert is None or key is None else Tls(cert, key, settings.client_ca)
    if not address.is_loopback and settings.client_ca is None and not settings.insecure:
        raise InvalidInput(
            "--listen",
            settings.listen,
            "a loopback address, or --tls-cert, --tls-key and --client-ca",
            "anyone who can reach the extender can use it; --insecure says that the network is trusted",
        )
    profile = _profile(settings.profile).name
    if not 1 <= settings.score_max <= FOUNDING_MAX:
        raise InvalidInput("--score-max", settings.score_max, f"1 to {FOUNDING_MAX}")
    if settings.report_token_file is not None:
        read_token(settings.report_token_file, "--report-token-file")
    needs_cluster = [f"--profile {profile}"] if profile not in (FOUNDING, FOUNDING_LEDGER) else []
    needs_cluster += ["--bind"] if settings.bind else []
    needs_cluster += ["--credit"] if settings.credit else []
    if settings.credit and profile not in (FOUNDING, FOUNDING_LEDGER):
        raise InvalidInput(
            "--credit",
            f"with --profile {profile}",
            f"--profile {FOUNDING} or {FOUNDING_LEDGER}",
            "credit acts on their violation term",
        )
    needs_cluster += ["--report-account"] if report_user(settings.report_account, settings.report_token_file) else []
    if needs_cluster and not settings.cluster:
        raise InvalidInput(needs_cluster[0], "alone", "--cluster or --kubeconfig", "it needs access to the API server")
    return address, health, tls


async def serve(
    settings: ExtenderSettings, stop: asyncio.Event, listening: Callable[[Address], None], limits: ServerLimits = LIMITS
) -> None:
    """Serve until `stop` is set. `listening` is called with the address. Raises `InvalidInput`."""
    address, health, tls = check(settings)
    async with AsyncExitStack() as stack:
        bound = bind(address)  # an address in use is reported before anything that takes seconds
        stack.callback(bound.close)
        client = None
        if settings.cluster:
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
            [HttpServer(Pages(parts.app, by_token), health, limits=limits, tls=open_tls)] if health is not None else []
        )
        if not address.is_loopback and settings.client_ca is None:
            _log.warning("%s can be reached from other machines, and requires no client certificate", server.address)
        if settings.report_token_file is None and settings.client_ca is None and not settings.report_account:
            _log.warning(
                "reports are accepted from anyone who can connect: no --report-token-file, --report-account or --client-ca"
            )
        gc.collect()
        gc.freeze()
        tasks, end = TaskSet(), asyncio.Event()
        if parts.watches is not None:
            tasks.start("watches", parts.watches.run())
        tasks.start("heap", keep_trimmed())
        listening(server.address)
        _log.info("profile %s on %s", settings.profile, server.address)
        serving = [tasks.start("http", each.run(end)) for each in (server, *others)]
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


def _profile(name: str) -> PlacementProfile:
    for candidate in PROFILES:
        if candidate.name == name:
            return candidate
    raise InvalidInput("--profile", name, f"one of {', '.join(profile.name for profile in PROFILES)}")
