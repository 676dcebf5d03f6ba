"""Kept spans sent on: each as it came, with its resource and probability; a collector that is away or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of, request_of
from tests.fakes.waiting import soon

from cotenant.drivers.otlp.kept_encoding import MAX_SPANS, SpanToSend, requests_of
from cotenant.drivers.otlp.resources import span_sampling, span_tags
from cotenant.engine.fleet.backlog import Export
from cotenant.engine.traces.sampling import TraceSampler
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.probability import probability_of, read_randomness, read_threshold, with_threshold
from cotenant.model.traces.spans import SpanKind, SpanSource
from cotenant.services.export_sending import ExportSender
from cotenant.services.running import cancelled
from cotenant.services.traces.kept_forwarding import KeptForwarder
from cotenant.services.traces.traces_arguments import TraceSettings, check


@dataclass
class Receiver:
    """A collector that decodes what it gets. `status`: of its answers."""

    status: int = 200
    asked: int = 0
    spans: list[tuple[dict[str, str], Span]] = field(default_factory=list)  # with their resource's attributes

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        body = await request.read()
        if self.status == 200:
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                attributes = {pair.key: pair.value.string_value for pair in of_resource.resource.attributes}
                for scope in of_resource.scope_spans:
                    self.spans += [(attributes, span) for span in scope.spans]
        return web.Response(status=self.status)


def received(scene: Callable[[Receiver, str], Awaitable[None]]) -> None:
    async def play() -> None:
        receiver, application = Receiver(), web.Application()
        application.add_routes([web.post("/v1/traces", receiver.answer)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            port = runner.addresses[0][1]
            await scene(receiver, f"http://127.0.0.1:{port}")
        finally:
            await runner.cleanup()

    asyncio.run(play())


def engine_of(budget: float) -> TraceEngine:
    sampler = TraceSampler(float(EPOCH_S), budget)
    return TraceEngine(float(EPOCH_S), span_tags, sampler=sampler, carried=span_sampling)


def request(trace: int, failed: bool = False, tracestate: str = "") -> list[Given]:
    low = trace * 0x9E3779B97F4A7C15 % (1 << 64)
    common = {"trace": (trace << 64) + low, "tracestate": tracestate}
    return [
        Given(2 * trace, kind=SpanKind.SERVER, name="GET /", end_ms=5, failed=failed, tags={"user": "u1"}, **common),  # type: ignore[arg-type]
        Given(2 * trace + 1, 2 * trace, service="cart", namespace="shop", pod=f"cart-{trace % 3}", **common),  # type: ignore[arg-type]
    ]


@pytest.mark.slow
def test_what_arrives_downstream_can_be_counted() -> None:
    async def scene(receiver: Receiver, url: str) -> None:
        engine = engine_of(budget=200.0)
        forwarder = KeptForwarder(engine, ExportSender(url, again_s=0.0))
        sending = asyncio.create_task(forwarder.sender.run())
        now_s, made, failed = float(EPOCH_S), 0, 0
        for second in range(40):
            spans: list[Given] = []
            for _ in range(300 if second < 20 else 0):
                made += 1
                is_failed = made % 100 == 0
                failed += is_failed
                spans += request(made, is_failed)
            if spans:
                engine.add(batch_of(*spans), now_s + second)
            engine.tick(now_s + second)
            forwarder.take()
        kept = sum(trace.kept_for != "slowest" for trace in engine.kept)
        await soon("all is there", lambda: forwarder.sender.backlog.size_bytes == 0)
        await cancelled([sending])
        roots = [span for _, span in receiver.spans if span.kind == SpanKind.SERVER]
        assert kept <= len(roots) < made / 2
        assert sum(1 / probability_of(read_threshold(span.trace_state) or 0) for span in roots) == pytest.approx(
            made, rel=0.25
        )
        assert sum(span.status.code == 2 for span in roots) / failed > 2 * len(roots) / made
        assert len(receiver.spans) == 2 * len(roots) == forwarder.sender.sent
        for attributes, span in receiver.spans:
            random = int.from_bytes(span.trace_id[9:], "big")
            assert random >= (read_threshold(span.trace_state) or 0)
            if span.parent_span_id:
                assert attributes["k8s.pod.name"] == f"cart-{int.from_bytes(span.trace_id[:8], 'big') % 3}"
            else:
                assert span.attributes[0].value.string_value == "u1"

    received(scene)


def test_a_collector_that_is_away_gets_all_when_it_is_back_and_one_that_refuses_does_not_block() -> None:
    async def scene(receiver: Receiver, url: str) -> None:
        receiver.status = 503
        engine = engine_of(budget=1000.0)
        forwarder = KeptForwarder(engine, ExportSender(url, again_s=0.01))
        sending = asyncio.create_task(forwarder.sender.run())
        try:
            for number in range(1, 4):
                engine.add(batch_of(*request(number)), float(EPOCH_S))
                engine.finish_all(float(EPOCH_S + number))
                forwarder.take()
            await soon("it is asked again", lambda: receiver.asked >= 3)
            assert "answers 503" in forwarder.sender.fault
            assert (forwarder.sender.sent, len(forwarder.sender.backlog)) == (0, 3)
            receiver.status = 200
            await soon("all is there", lambda: len(receiver.spans) == 6)
            await soon("it is counted", lambda: forwarder.sender.sent == 6)
            assert forwarder.sender.fault == ""
            receiver.status = 400
            engine.add(batch_of(*request(9)), float(EPOCH_S))
            engine.finish_all(float(EPOCH_S + 9))
            forwarder.take()
            await soon("it is given up", lambda: forwarder.sender.refused == 2)
            assert len(forwarder.sender.backlog) == 0
        finally:
            await cancelled([sending])

    received(scene)


def test_while_it_is_away_the_oldest_are_dropped_and_counted() -> None:
    sender = ExportSender("http://127.0.0.1:1", max_bytes=1000)
    for number in range(30):
        sender.put(Export("/v1/traces", bytes([number]) * 100, "", "", 7))
    assert sender.dropped == 20 * 7
    first = sender.backlog.first()
    assert first is not None
    assert first.body[0] == 20


def test_the_slowest_that_are_kept_apart_are_not_sent() -> None:
    engine = engine_of(budget=1.0)
    forwarder = KeptForwarder(engine, ExportSender())
    spans = [span for number in range(1, 400) for span in request(number)]
    engine.add(batch_of(*spans), float(EPOCH_S))
    engine.tick(float(EPOCH_S + 30))
    taken = engine.take_kept()
    assert {trace.kept_for for trace in engine.kept} >= {"slowest"}
    assert "slowest" not in {trace.kept_for for trace in taken}
    forwarder.take()
    assert len(forwarder.sender.backlog) == 0  # they were taken before


def test_requests_are_bounded_and_what_lost_its_bytes_is_left_out() -> None:
    source, other = SpanSource("web", resource=b""), SpanSource("cart", "shop", host="h")
    message = ExportTraceServiceRequest.FromString(request_of([Given(1)])).resource_spans[0].scope_spans[0].spans[0]
    whole = message.SerializeToString()
    spans = [SpanToSend(source if k % 2 else other, whole, 1 << 55) for k in range(MAX_SPANS + 3)]
    spans += [SpanToSend(source, b"", 0), SpanToSend(source, b"\xff\xff", 0)]
    made = list(requests_of(spans))
    assert [count for _, count in made] == [MAX_SPANS, 3]
    decoded = ExportTraceServiceRequest.FromString(made[0][0])
    known = [
        {pair.key: pair.value.string_value for pair in part.resource.attributes} for part in decoded.resource_spans
    ]
    assert known == [
        {"service.name": "cart", "service.namespace": "shop", "host.name": "h"},
        {"service.name": "web"},
    ]
    assert decoded.resource_spans[0].scope_spans[0].spans[0].trace_state == "ot=th:8"


@pytest.mark.parametrize(
    ("before", "threshold", "after"),
    [
        ("", 0, "ot=th:0"),
        ("", 1 << 55, "ot=th:8"),
        ("ot=rv:abcdef01234567;th:4,vendor=x", 0xFF << 48, "ot=th:ff;rv:abcdef01234567,vendor=x"),
        ("vendor=x,ot=other:1", 1, "ot=th:00000000000001;other:1,vendor=x"),
    ],
)
def test_the_threshold_is_written_and_the_rest_stays(before: str, threshold: int, after: str) -> None:
    assert with_threshold(before, threshold) == after
    assert read_threshold(after) == threshold
    assert read_randomness(after) == read_randomness(before)


def test_it_needs_a_budget_and_a_url() -> None:
    with pytest.raises(InvalidInput, match="--keep-spans-per-s"):
        check(TraceSettings(forward="http://127.0.0.1:4318"))
    with pytest.raises(InvalidInput, match="http://HOST:PORT"):
        check(TraceSettings(forward="127.0.0.1:4318", keep_spans_per_s=10))
