"""Spans of scheduling attempts: what they say, and that a trace process receives them from a running scheduler."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import eventually, patience

from cotenant.cli.traces import showing
from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.otlp.decoding import decode_json
from cotenant.drivers.otlp.encoding import OwnSpan, encode
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import SpanKind
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.kube_process.span_export import MAX_WAITING, SpanExporter
from cotenant.services.kube_process.span_target import SpanTarget, span_target
from cotenant.services.scheduler.attempt_spans import BIND, JUDGE, QUEUE, RESERVE, ROOT, AttemptSpans, TracedOutcomes
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options
from cotenant.services.traces import traces_process as traces
from cotenant.services.traces.client import TraceClient

RECORD = DecisionRecord(pod="shop/web", at_s=100.0, nodes=2, node="a", policy="p")
WEB = Bind("uid-web", "shop/web", "a", RECORD, waited_s=3.0, attempts=2, number=7)


class Sink:
    def __init__(self) -> None:
        self.spans: list[OwnSpan] = []

    def add(self, spans: list[OwnSpan]) -> None:  # type: ignore[override]
        self.spans += spans

    def times(self) -> dict[str, tuple[float, float]]:
        return {span.name: (span.start_s, span.end_s) for span in self.spans}


class Engine:
    def __init__(self, sends: bool = True) -> None:
        self.sends = sends
        self.told: list[str] = []

    def sending(self, uid: str, now_s: float, number: int) -> bool:
        return self.sends

    def bound(self, uid: str, now_s: float, number: int) -> None:
        self.told.append("bound")

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        self.told.append(f"{why} {retry}")

    def bound_elsewhere(self, seen: ObservedPod, now_s: float, number: int) -> None:
        self.told.append(f"seen {seen.uid} on {seen.node}")


def test_a_bound_pod_has_a_trace_of_its_phases() -> None:
    sink, engine = Sink(), Engine()
    spans = AttemptSpans(sink)  # type: ignore[arg-type]
    outcomes = TracedOutcomes(engine, spans)  # type: ignore[arg-type]
    spans.decided((WEB,), 100.0, 100.5)
    assert outcomes.sending("uid-web", 101.0, 7)
    outcomes.bound("uid-web", 101.25, 7)
    assert engine.told == ["bound"]
    assert sink.times() == {
        "schedule pod": (97.0, 101.25),
        "queue wait": (97.0, 100.0),
        "filter and score": (100.0, 100.5),
        "reserve": (100.5, 101.0),
        "bind": (101.0, 101.25),
    }
    root, *children = sink.spans
    assert {child.parent_id for child in children} == {root.span_id}
    assert len({span.span_id for span in sink.spans}) == 5
    said = {"k8s.pod.name": "web", "k8s.namespace.name": "shop", "k8s.node.name": "a", "cotenant.result": "scheduled"}
    assert said.items() <= root.attributes.items()
    outcomes.bound("uid-web", 102.0, 7)  # unknown by now
    assert len(sink.spans) == 5


@pytest.mark.parametrize(("sends", "why"), [(False, "withdrawn before it was sent"), (True, "Conflict")])
def test_a_failed_bind_is_an_error_with_its_reason(sends: bool, why: str) -> None:
    sink, engine = Sink(), Engine(sends)
    spans = AttemptSpans(sink)  # type: ignore[arg-type]
    outcomes = TracedOutcomes(engine, spans)  # type: ignore[arg-type]
    spans.decided((WEB,), 100.0, 100.5)
    if outcomes.sending("uid-web", 101.0, 7):
        outcomes.bind_failed("uid-web", why, 102.0, retry=False, number=7)
        assert engine.told == ["Conflict False"]
    root = sink.spans[0]
    assert (root.error, root.attributes["cotenant.reason"], root.attributes["cotenant.result"]) == (why, why, "error")
    assert ("bind" in sink.times()) is sends


def test_two_binds_of_one_pod_are_two_attempts() -> None:
    """The first was withdrawn while it waited for a slot, after the second was decided."""
    sink, engine = Sink(), Engine()
    spans = AttemptSpans(sink)  # type: ignore[arg-type]
    spans.decided((WEB,), 100.0, 100.5)
    spans.decided((replace(WEB, node="b", number=8),), 101.0, 101.5)
    engine.sends = False
    outcomes = TracedOutcomes(engine, spans)
    assert not outcomes.sending("uid-web", 102.0, 7)
    engine.sends = True
    assert outcomes.sending("uid-web", 103.0, 8)
    outcomes.bound("uid-web", 104.0, 8)
    roots = [span.attributes for span in sink.spans if span.name == "schedule pod"]
    assert [(said["k8s.node.name"], said["cotenant.result"]) for said in roots] == [("a", "error"), ("b", "scheduled")]


def test_a_pod_that_another_scheduler_bound_is_the_engines_to_know() -> None:
    sink, engine = Sink(), Engine()
    spans = AttemptSpans(sink)  # type: ignore[arg-type]
    spans.decided((WEB,), 100.0, 100.5)
    seen = ObservedPod(Pod("web", "shop"), "uid-web", "other", 0.0, node="b")
    TracedOutcomes(engine, spans).bound_elsewhere(seen, 101.0, 7)  # type: ignore[arg-type]
    assert engine.told == ["seen uid-web on b"]
    assert sink.spans[0].attributes["cotenant.reason"] == "bound to b by another scheduler"


def test_a_pod_that_waits_has_its_reason() -> None:
    sink = Sink()
    record = DecisionRecord(pod="shop/web", at_s=100.0, nodes=2, node=None, policy="p")
    refused = Unschedulable("uid-web", "shop/web", "Unschedulable", "0/2 nodes are available", record)
    AttemptSpans(sink).decided((refused,), 100.0, 100.5)  # type: ignore[arg-type]
    assert sink.spans[0].attributes["cotenant.reason"] == "0/2 nodes are available"
    assert set(sink.times()) == {"schedule pod", "filter and score"}


def test_the_request_is_read_by_our_own_decoder() -> None:
    root = OwnSpan("0a" * 16, "0b" * 8, "", "one", 1.5, 2.0, SpanKind.SERVER, {"text": "x", "number": 3})
    child = OwnSpan("0a" * 16, "0c" * 8, "0b" * 8, "two", 1.75, 1.5, error="no")
    batch = decode_json(encode({"service.name": "s", "host.name": "h"}, "scope", [root, child]))
    columns = batch.columns
    assert (batch.rejected, batch.sources[0].service, batch.sources[0].host) == (0, "s", "h")
    assert columns.start_ns.tolist() == [1_500_000_000, 1_750_000_000]
    assert columns.end_ns.tolist() == [2_000_000_000, 1_750_000_000]  # never before its start
    assert columns.parent_id.tolist() == [0, int("0b" * 8, 16)]
    assert columns.failed.tolist() == [False, True]


def test_a_receiver_is_checked_at_the_start(tmp_path: Path) -> None:
    assert span_target("", None, None) is None
    assert span_target("http://h:4318", None, None) == SpanTarget("http://h:4318/v1/traces")
    assert span_target("https://h/otlp/v1/traces", None, None) == SpanTarget("https://h/otlp/v1/traces")
    for wrong in ("h:4318", "http://", "grpc://h:4317", "http://h:99999", "http://h:4318?x=1"):
        with pytest.raises(InvalidInput, match="--otlp-traces"):
            span_target(wrong, None, None)
    with pytest.raises(InvalidInput, match="--otlp-traces-token-file"):
        span_target("", tmp_path / "token", None)
    with pytest.raises(InvalidInput, match="--otlp-traces-token-file"):
        span_target("http://h:4318", tmp_path / "token", None)


def test_spans_beyond_the_queue_and_of_no_receiver_are_counted_as_dropped() -> None:
    async def scenario() -> None:
        slept: list[float] = []
        enough = asyncio.Event()

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 4:
                enough.set()
            await asyncio.sleep(0)

        exporter = SpanExporter(SpanTarget("http://127.0.0.1:1/v1/traces"), "s", "one", sleep)
        span = OwnSpan("0a" * 16, "0b" * 8, "", "one", 1.0, 2.0)
        exporter.add([span] * MAX_WAITING)
        exporter.add([span])
        running = asyncio.create_task(exporter.run())
        await asyncio.wait_for(enough.wait(), patience(30.0))
        running.cancel()
        await asyncio.wait((running,))
        assert slept[:4] == [1.0, 1.0, 2.0, 4.0]
        assert exporter.counts == {"exported": 0, "refused": 0, "dropped": MAX_WAITING + 1}

    asyncio.run(scenario())


@pytest.mark.slow
def test_the_trace_process_shows_the_attempts_of_a_scheduler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-of-the-tests")

    async def scenario() -> None:
        stop = asyncio.Event()
        heard: asyncio.Future[traces.ListeningAddresses] = asyncio.get_running_loop().create_future()
        settings = traces.TraceSettings(http="127.0.0.1:0", grpc="", token_file=token)
        ahead_s = [0.0]
        receiving = asyncio.create_task(
            traces.serve(settings, stop, heard.set_result, lambda: time.time() + ahead_s[0])
        )
        url = (await heard).url
        client = TraceClient(url, token)
        async with FakeApi() as api:
            api.node("a")
            api.pod("web")
            options = Options(listen=Address("127.0.0.1", 0), span_target=span_target(url, token, None))
            access = Access(api.url, FixedCredential(Credential("")))
            scheduler = SchedulerProcess(access, profile("least-allocated"), options, "one", lambda client: Alone())
            ended = asyncio.Event()
            running = asyncio.create_task(scheduler.run(ended))
            await api.until(lambda: api.bound() == {"web": "a"}, 120.0)  # kernels may have to be compiled
            operations = await asyncio.to_thread(
                eventually, "spans of the attempt", lambda: client.services().operations, 60.0
            )
            ended.set()
            await running
            assert b'cotenant_scheduler_spans_total{outcome="exported"} 5.0' in scheduler.metrics.page()
        assert [(operation.service, operation.operation) for operation in operations] == [
            ("cotenant-scheduler", "schedule pod")
        ]
        ahead_s[0] = 60.0  # traces are shown once no span has arrived for a while
        (shown,) = await asyncio.to_thread(eventually, "a finished trace", lambda: client.traces([]).traces, 60.0)
        assert await asyncio.to_thread(showing.trace, shown.trace_id, url, token, None, False) == 0
        stop.set()
        await receiving
        printed = capsys.readouterr().out
        assert all(name in printed for name in (ROOT, QUEUE, JUDGE, RESERVE, BIND))

    asyncio.run(scenario())
