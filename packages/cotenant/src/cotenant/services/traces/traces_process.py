"""The trace process: arguments are checked, parts joined, time given to the engine.

A used port or an open receiver must be one clear line before anything is served. Loopback by default; on other
addresses a token, client certificates or `--insecure` where the network is trusted. The engine gets the time every
second; at the end its open traces are lost.
Limits: one process, its state is in memory.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cotenant.drivers.http.address import bind
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.http.traffic import ServerTraffic
from cotenant.drivers.jaeger.sampling_messages import METHOD as SAMPLING_METHOD
from cotenant.drivers.jaeger.udp_server import JaegerUdpServer
from cotenant.drivers.otlp.grpc_server import OtlpGrpcServer
from cotenant.drivers.otlp.resources import span_sampling, span_tags
from cotenant.engine.traces.head_rates import HeadRates
from cotenant.engine.traces.sampling import TraceSampler
from cotenant.engine.traces.trace_engine import TABLES, TraceEngine
from cotenant.services.kernels import bring_kernels
from cotenant.services.logs import log_to_stderr
from cotenant.services.running import TaskSet, raise_descriptors, run_until_signal
from cotenant.services.traces.app import LIMITS, TracesApp
from cotenant.services.traces.metric_exports import METHOD as METRICS_METHOD
from cotenant.services.traces.metrics import MoveMetrics, StreamMetrics, TraceMetrics
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.saved_counts import CountsFile
from cotenant.services.traces.senders import AUDIENCE, namespace_of
from cotenant.services.traces.traces_arguments import CheckedTraceSettings, TraceSettings, check
from cotenant.services.traces.warming import warm

if TYPE_CHECKING:  # an HTTP client comes with it: only where there is a cluster
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.kube_process.events import EventRecorder
    from cotenant.services.traces.cluster import ClusterObjectives
    from cotenant.services.traces.kept_forwarding import KeptForwarder
    from cotenant.services.traces.model_servers.reading_servers import ModelServers
    from cotenant.services.traces.model_servers.server_file import ModelServerFile

TICK_S = 1.0
SAVE_S = 60.0
EVENTS_PER_S = 5.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListeningAddresses:
    """Where it listens: the URL of HTTP, the addresses of gRPC and of Jaeger's port, empty where it does not."""

    url: str
    grpc: str
    jaeger_udp: str


async def serve(
    settings: TraceSettings,
    stop: asyncio.Event,
    listening: Callable[[ListeningAddresses], None],
    clock: Callable[[], float] = time.time,
    limits: ServerLimits = LIMITS,
) -> None:
    """Serve until `stop` is set. Raises `InvalidInput`."""
    checked = check(settings)
    async with AsyncExitStack() as stack:
        bound = bind(checked.http)  # an address in use is reported before anything that takes seconds
        stack.callback(bound.close)
        engine = TraceEngine(
            clock(),
            span_tags,
            max_shift_ns=round(settings.max_skew_s * 1e9),
            sampler=TraceSampler(clock(), settings.keep_spans_per_s),
            head=HeadRates(clock(), settings.head_spans_per_s),
            carried=span_sampling,
        )
        board = ObjectiveBoard(engine.objectives, clock)
        metrics, traffic = TraceMetrics(engine, board), ServerTraffic("traces")
        metrics.registry.register(traffic)
        app = TracesApp(engine, metrics, clock, checked.token, board)
        engine.objectives.trusts_all = checked.trusts_senders
        app.senders.shared, app.senders.by_namespace = checked.send_token, checked.sender_tokens
        app.senders.is_open = checked.token is None and checked.send_token is None
        stack.callback(app.intake.close)
        metrics.registry.register(StreamMetrics(app.streams))
        metrics.registry.register(app.metric_exports)
        if checked.model_servers is not None:
            app.metric_exports.read_elsewhere = checked.model_servers.services
        senders_prove = settings.sender_tokens is not None or settings.review_senders
        saved = None if settings.state is None else CountsFile(settings.state, senders_prove=senders_prove)
        for objective in checked.objectives:
            engine.objectives.set(objective, clock())
        if saved is not None:
            _restore(saved, app, engine, clock)
        cluster = await _cluster(settings, stack, board, saved)
        if cluster is not None:
            _identify(app, cluster.client, settings, checked)
        if cluster is not None and settings.request_moves:
            from cotenant.services.traces.move_requests import MoveRequests

            app.moves = MoveRequests(cluster.client, engine.objectives, app.streams.burns, clock)
            metrics.registry.register(MoveMetrics(app.moves))
        events = None if cluster is None else _events(cluster, app, clock)
        grpc_server = None
        if checked.grpc is not None:
            grpc_server = OtlpGrpcServer(
                app.export,
                checked.grpc,
                tls=checked.tls,
                door=app.exporting,
                answered=lambda code: metrics.answered("grpc", code),
                further={SAMPLING_METHOD: app.sampling, METRICS_METHOD: partial(app.metric_exports.grpc, app.senders)},
            )
        warm(clock())
        server = HttpServer(app, bound, limits=limits, tls=checked.tls, traffic=traffic)
        if grpc_server is not None:
            await grpc_server.start()
            stack.push_async_callback(grpc_server.stop)
        jaeger = ""
        if checked.jaeger_udp is not None:
            udp_server = JaegerUdpServer(app.export_datagram, lambda outcome: metrics.answered("jaeger-udp", outcome))
            jaeger = str(await udp_server.start(checked.jaeger_udp))
            stack.push_async_callback(udp_server.stop)
        tasks, end = TaskSet(), asyncio.Event()
        if checked.model_servers is not None:
            reading = _model_servers(checked.model_servers, stack, engine, metrics, clock, cluster)
            tasks.start("model servers", reading.run())
        forwarder = _forwarder(settings, engine, metrics, tasks)
        tasks.start("traces", _tick(engine, clock, forwarder.take if forwarder is not None else _nothing))
        tasks.start("signals", app.streams.run())
        if cluster is not None:
            cluster.start(tasks)
        if events is not None:
            tasks.start("events", events.run())
        if app.moves is not None:
            tasks.start("move requests", app.moves.run())
        if saved is not None:
            tasks.start("saved counts", _save(saved, engine, clock))
        serving = tasks.start("http", server.run(end))
        listening(ListeningAddresses(server.url, "" if grpc_server is None else str(grpc_server.address), jaeger))
        try:
            await tasks.wait(stop)
        finally:
            app.streams.close()
            if saved is not None:
                _write(saved, engine, clock())
            end.set()
            await asyncio.wait([serving])
            await tasks.cancel()


def _restore(saved: CountsFile, app: TracesApp, engine: TraceEngine, clock: Callable[[], float]) -> None:
    """Go on with what an earlier process has counted and closed, and keep what is closed from now on."""
    engine.seen.restore(saved.seen)
    engine.channels.restore(saved.closed, clock())
    app.channels.changed = lambda: _write(saved, engine, clock())
    for tracked in engine.objectives:
        saved.restore(tracked)


def _events(cluster: ClusterObjectives, app: TracesApp, clock: Callable[[], float]) -> EventRecorder:
    """Have incidents told as Events of their objectives."""
    from cotenant.services.kube_process.events import EventRecorder
    from cotenant.services.traces.incident_events import IncidentEvents

    events = EventRecorder(cluster.client, "cotenant-traces", socket.gethostname(), per_s=EVENTS_PER_S)
    app.incident_events = IncidentEvents(events, cluster.uid_of, clock)
    return events


def _identify(app: TracesApp, client: Client, settings: TraceSettings, checked: CheckedTraceSettings) -> None:
    """Have the cluster say whose tokens agents and senders bring."""
    from cotenant.services.reporting.identity import TokenNodes, TokenReviews

    if settings.report_account:
        from cotenant.services.reporting.accounts import parse_account

        app.nodes = TokenNodes(client, parse_account(settings.report_account), time.monotonic)
    if settings.review_senders:
        app.senders.reviews = TokenReviews(
            client, AUDIENCE, lambda user: namespace_of(user.username, checked.collectors), time.monotonic
        )


async def _cluster(
    settings: TraceSettings, stack: AsyncExitStack, board: ObjectiveBoard, saved: CountsFile | None
) -> ClusterObjectives | None:
    """The objectives of the cluster, where one is asked for. Raises `InvalidInput` for invalid access settings; the
    server may be unavailable.
    """
    if not (settings.cluster or settings.kubeconfig or settings.context):
        return None
    from cotenant.drivers.kube.client.access import load_access
    from cotenant.drivers.kube.client.client import Client
    from cotenant.services.traces.cluster import ClusterObjectives

    access = load_access(settings.kubeconfig, settings.context)
    client = Client(access, qps=50.0, burst=100, in_flight=8, user_agent="cotenant-traces")
    return ClusterObjectives(await stack.enter_async_context(client), board, saved)


def _model_servers(
    file: ModelServerFile,
    stack: AsyncExitStack,
    engine: TraceEngine,
    metrics: TraceMetrics,
    clock: Callable[[], float],
    cluster: ClusterObjectives | None,
) -> ModelServers:
    """Reads those that the file names, and the pods that it selects; before the cluster's watches run."""
    from cotenant.drivers.modelserver.client import ModelServerClient
    from cotenant.services.traces.model_servers.reading_servers import ModelServers

    client = ModelServerClient()
    stack.push_async_callback(client.close)
    reading = ModelServers(file.servers, client.read, engine.objectives, clock)
    metrics.registry.register(reading)
    if cluster is not None and file.pods:
        from cotenant.services.traces.model_servers.serving_pods import FoundServers

        found = FoundServers(file, reading.follow)
        found.watch(cluster.watches)
        metrics.registry.register(found)
    return reading


async def _save(saved: CountsFile, engine: TraceEngine, clock: Callable[[], float]) -> None:
    while True:
        await asyncio.sleep(SAVE_S)
        _write(saved, engine, clock())


def _write(saved: CountsFile, engine: TraceEngine, now_s: float) -> None:
    try:
        saved.save(engine.objectives, engine.seen.saved(), engine.channels.closed(now_s))
    except OSError as error:
        _log.error("the counts of objectives cannot be saved: %s", error)


def _forwarder(
    settings: TraceSettings, engine: TraceEngine, metrics: TraceMetrics, tasks: TaskSet
) -> KeptForwarder | None:
    if not settings.forward:
        return None
    from cotenant.services.export_sending import ExportSender
    from cotenant.services.traces.kept_forwarding import KeptForwarder

    forwarder = KeptForwarder(engine, ExportSender(settings.forward))
    metrics.registry.register(forwarder)
    tasks.start("forwarding", forwarder.sender.run())
    tasks.start("faults of forwarding", forwarder.report())
    return forwarder


def _nothing() -> None:
    pass


async def _tick(engine: TraceEngine, clock: Callable[[], float], ticked: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(TICK_S / TABLES)
        engine.tick_next(clock())
        ticked()
        engine.objectives.replicas.forget(clock())


def run(settings: TraceSettings) -> int:
    """Run until SIGTERM or SIGINT. Raises `InvalidInput`."""
    check(settings)
    log_to_stderr(settings.log_level, settings.log_format)
    bring_kernels()
    raise_descriptors()

    def listening(at: ListeningAddresses) -> None:
        print(f"OTLP/HTTP: {at.url}/v1/traces", flush=True)
        if at.grpc:
            print(f"OTLP/gRPC: {at.grpc}", flush=True)
        if at.jaeger_udp:
            print(f"Jaeger/UDP: {at.jaeger_udp}", flush=True)

    async def main(stop: asyncio.Event) -> None:
        await serve(settings, stop, listening)

    run_until_signal(main)
    return 0
