"""The trace process: arguments are checked, parts joined, time given to the engine.

Problem: a used port or an open receiver must be one clear line before anything is served. Choice: loopback by default; on other addresses a token, client certificates
or `--insecure` where the network is trusted. The engine gets the time every second; at the end its open traces are lost. Limits: one process, its state is in memory.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.drivers.http.address import Address, bind
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.http.traffic import Traffic
from cotenant.drivers.jaeger.udp_server import JaegerUdpServer
from cotenant.drivers.otlp.grpc_server import OtlpGrpcServer
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TABLES, TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.objective import ServiceObjective
from cotenant.services.kernels import bring_kernels
from cotenant.services.logs import log_to_stderr
from cotenant.services.objectives.files import read_file
from cotenant.services.running import TaskSet, raise_descriptors, run_until_signal
from cotenant.services.traces.app import LIMITS, Application
from cotenant.services.traces.metrics import MoveMetrics, StreamMetrics, TraceMetrics
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.saved_counts import CountsFile
from cotenant.services.traces.senders import AUDIENCE, NamespaceTokens, namespace_of
from cotenant.services.traces.warming import warm

if TYPE_CHECKING:  # an HTTP client comes with it: only where there is a cluster
    from cotenant.services.traces.cluster import ClusterObjectives

TICK_S = 1.0
SAVE_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The command's arguments. An empty address turns a server off."""

    http: str = "127.0.0.1:4318"
    grpc: str = "127.0.0.1:4317"
    jaeger_udp: str = ""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    token_file: Path | None = None
    send_token_file: Path | None = None  # of senders alone; they share it, and it proves nothing
    sender_tokens: Path | None = None  # a folder with a token for each namespace
    review_senders: bool = False  # senders come with tokens of their service accounts
    collectors: tuple[str, ...] = ()  # NAMESPACE/NAME of service accounts that forward others' spans
    trust_senders: bool = False  # whoever can send is believed, beyond loopback too
    report_account: str = ""  # NAMESPACE/NAME of the agents' service account; "" = no review of tokens
    insecure: bool = False
    most_skew_s: float = 10.0
    objectives: Path | None = None  # a file of ServiceObjectives
    cluster: bool = False  # watch those of a cluster
    kubeconfig: Path | None = None
    context: str = ""
    request_moves: bool = False  # make PodMigrationJobs of what nodes ask for
    state: Path | None = None  # keeps the counts of objectives over a restart
    log_level: str = "info"
    log_format: str = "text"


@dataclass(frozen=True, slots=True)
class Checked:
    """What the settings mean."""

    http: Address
    grpc: Address | None
    tls: Tls | None
    token: BearerToken | None
    jaeger_udp: Address | None = None
    objectives: tuple[ServiceObjective, ...] = ()
    send_token: BearerToken | None = None
    sender_tokens: NamespaceTokens | None = None
    collectors: frozenset[str] = frozenset()  # as user names
    trusts_senders: bool = False


@dataclass(frozen=True, slots=True)
class Listening:
    """Where it listens: the URL of HTTP, the addresses of gRPC and of Jaeger's port, empty where it does not."""

    url: str
    grpc: str
    jaeger_udp: str


def check(settings: TraceSettings) -> Checked:
    """Raises `InvalidInput` for what does not fit together."""
    http = Address.parse("--http", settings.http)
    grpc = Address.parse("--grpc", settings.grpc) if settings.grpc else None
    cert, key = settings.tls_cert, settings.tls_key
    if (cert is None) != (key is None):
        raise InvalidInput("--tls-cert, --tls-key", str(cert or key), "both or neither")
    if settings.client_ca is not None and cert is None:
        raise InvalidInput("--client-ca", str(settings.client_ca), "--tls-cert and --tls-key beside it")
    if grpc is not None and grpc.path:
        raise InvalidInput("--grpc", settings.grpc, "HOST:PORT")
    if settings.request_moves and not (settings.cluster or settings.kubeconfig or settings.context):
        raise InvalidInput("--request-moves", "given", "--cluster or --kubeconfig beside it")
    if settings.report_account:
        from cotenant.services.reporting.identity import parse_account

        parse_account(settings.report_account)
        if not (settings.cluster or settings.kubeconfig or settings.context):
            hint = "the API server says whose a token is"
            raise InvalidInput("--report-account", settings.report_account, "--cluster or --kubeconfig beside it", hint)
    if settings.review_senders and not (settings.cluster or settings.kubeconfig or settings.context):
        hint = "the API server says whose a token is"
        raise InvalidInput("--review-senders", "given", "--cluster or --kubeconfig beside it", hint)
    if not 0 <= settings.most_skew_s <= 3600:
        raise InvalidInput("--most-skew-s", settings.most_skew_s, "0 to 3600 seconds; 0 turns the correction off")
    jaeger_udp = Address.parse("--jaeger-udp", settings.jaeger_udp) if settings.jaeger_udp else None
    if jaeger_udp is not None:
        if jaeger_udp.path:
            raise InvalidInput("--jaeger-udp", settings.jaeger_udp, "HOST:PORT")
        if not jaeger_udp.is_loopback and not settings.insecure:
            hint = "the protocol knows no tokens and no certificates; --insecure says that the network is trusted"
            raise InvalidInput("--jaeger-udp", settings.jaeger_udp, "a loopback address", hint)
    token = None if settings.token_file is None else BearerToken(settings.token_file, "--token-file")
    tls = None if cert is None or key is None else Tls(cert, key, settings.client_ca)
    for option, address in (("--http", http), ("--grpc", grpc)):
        protected = token is not None or settings.client_ca is not None or settings.insecure
        if address is not None and not address.is_loopback and not protected:
            raise InvalidInput(
                option,
                str(address),
                "a loopback address, or --token-file, or --client-ca",
                "anyone who can reach it could send spans; --insecure says that the network is trusted",
            )
    objectives = () if settings.objectives is None else tuple(read_file(settings.objectives))
    send_token = (
        None if settings.send_token_file is None else BearerToken(settings.send_token_file, "--send-token-file")
    )
    by_namespace = None if settings.sender_tokens is None else NamespaceTokens(settings.sender_tokens)
    proves = by_namespace is not None or settings.review_senders
    listens = [each for each in (http, grpc, jaeger_udp) if each is not None]
    return Checked(
        http,
        grpc,
        tls,
        token,
        jaeger_udp,
        objectives,
        send_token,
        by_namespace,
        _collectors(settings),
        settings.trust_senders or (not proves and all(each.is_loopback for each in listens)),
    )


def _collectors(settings: TraceSettings) -> frozenset[str]:
    if not settings.collectors and not settings.review_senders:
        return frozenset()
    from cotenant.services.reporting.identity import parse_account

    if not settings.review_senders:
        raise InvalidInput("--collector", settings.collectors[0], "--review-senders beside it")
    return frozenset(parse_account(each, "--collector") for each in settings.collectors)


async def serve(
    settings: TraceSettings,
    stop: asyncio.Event,
    listening: Callable[[Listening], None],
    clock: Callable[[], float] = time.time,
    limits: ServerLimits = LIMITS,
) -> None:
    """Serve until `stop` is set. Raises `InvalidInput`."""
    checked = check(settings)
    async with AsyncExitStack() as stack:
        bound = bind(checked.http)  # an address in use is reported before anything that takes seconds
        stack.callback(bound.close)
        engine = TraceEngine(clock(), span_tags, most_shift_ns=round(settings.most_skew_s * 1e9))
        board = ObjectiveBoard(engine.objectives, clock)
        metrics, traffic = TraceMetrics(engine, board), Traffic("traces")
        metrics.registry.register(traffic)
        app = Application(engine, metrics, clock, checked.token, board)
        engine.objectives.trusts_all = checked.trusts_senders
        app.senders.shared, app.senders.by_namespace = checked.send_token, checked.sender_tokens
        app.senders.is_open = checked.token is None and checked.send_token is None
        metrics.registry.register(StreamMetrics(app.streams))
        saved = None if settings.state is None else CountsFile(settings.state)
        for objective in checked.objectives:
            engine.objectives.set(objective, clock())
        if saved is not None:
            for tracked in engine.objectives:
                saved.restore(tracked)
        cluster = await _cluster(settings, stack, board, saved)
        if cluster is not None and settings.report_account:
            from cotenant.services.reporting.identity import TokenNodes, parse_account

            app.nodes = TokenNodes(cluster.client, parse_account(settings.report_account), time.monotonic)
        if cluster is not None and settings.review_senders:
            from cotenant.services.reporting.identity import TokenReviews

            app.senders.reviews = TokenReviews(
                cluster.client, AUDIENCE, lambda user: namespace_of(user.username, checked.collectors), time.monotonic
            )
        if cluster is not None and settings.request_moves:
            from cotenant.services.traces.move_requests import MoveRequests

            app.moves = MoveRequests(cluster.client, engine.objectives, app.streams.burns, clock)
            metrics.registry.register(MoveMetrics(app.moves))
        grpc_server = None
        if checked.grpc is not None:
            grpc_server = OtlpGrpcServer(
                app.export,
                checked.grpc,
                tls=checked.tls,
                door=app.exporting,
                answered=lambda code: metrics.answered("grpc", code),
            )
        warm(clock())
        server = HttpServer(app, bound, limits=limits, tls=checked.tls, traffic=traffic)
        if grpc_server is not None:
            await grpc_server.start()
            stack.push_async_callback(grpc_server.stop)
        jaeger = ""
        if checked.jaeger_udp is not None:
            udp_server = JaegerUdpServer(app.export, lambda outcome: metrics.answered("jaeger-udp", outcome))
            jaeger = str(await udp_server.start(checked.jaeger_udp))
            stack.push_async_callback(udp_server.stop)
        tasks, end = TaskSet(), asyncio.Event()
        tasks.start("traces", _tick(engine, clock))
        tasks.start("signals", app.streams.run())
        if cluster is not None:
            cluster.start(tasks)
        if app.moves is not None:
            tasks.start("move requests", app.moves.run())
        if saved is not None:
            tasks.start("saved counts", _save(saved, engine))
        serving = tasks.start("http", server.run(end))
        listening(Listening(server.url, "" if grpc_server is None else str(grpc_server.address), jaeger))
        try:
            await tasks.wait(stop)
        finally:
            app.streams.close()
            if saved is not None:
                _write(saved, engine)
            end.set()
            await asyncio.wait([serving])
            await tasks.cancel()


async def _cluster(
    settings: TraceSettings, stack: AsyncExitStack, board: ObjectiveBoard, saved: CountsFile | None
) -> ClusterObjectives | None:
    """The objectives of the cluster, where one is asked for. Raises `InvalidInput` for invalid access settings; the server may be unavailable."""
    if not (settings.cluster or settings.kubeconfig or settings.context):
        return None
    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.traces.cluster import ClusterObjectives

    access = load_access(settings.kubeconfig, settings.context)
    client = Client(access, qps=50.0, burst=100, in_flight=8, user_agent="cotenant-traces")
    return ClusterObjectives(await stack.enter_async_context(client), board, saved)


async def _save(saved: CountsFile, engine: TraceEngine) -> None:
    while True:
        await asyncio.sleep(SAVE_S)
        _write(saved, engine)


def _write(saved: CountsFile, engine: TraceEngine) -> None:
    try:
        saved.save(engine.objectives)
    except OSError as error:
        _log.error("the counts of objectives cannot be saved: %s", error)


async def _tick(engine: TraceEngine, clock: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(TICK_S / TABLES)
        engine.tick_next(clock())
        engine.objectives.replicas.forget(clock())


def run(settings: TraceSettings) -> int:
    """Run until SIGTERM or SIGINT. Raises `InvalidInput`."""
    check(settings)
    log_to_stderr(settings.log_level, settings.log_format)
    bring_kernels()
    raise_descriptors()

    def listening(at: Listening) -> None:
        print(f"OTLP/HTTP: {at.url}/v1/traces", flush=True)
        if at.grpc:
            print(f"OTLP/gRPC: {at.grpc}", flush=True)
        if at.jaeger_udp:
            print(f"Jaeger/UDP: {at.jaeger_udp}", flush=True)

    async def main(stop: asyncio.Event) -> None:
        await serve(settings, stop, listening)

    run_until_signal(main)
    return 0
