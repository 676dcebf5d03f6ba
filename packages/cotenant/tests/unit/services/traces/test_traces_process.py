"""The trace process: both protocols, its pages and the command line against it, and arguments that do not fit
together.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket
from urllib.parse import urlsplit

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from tests.fakes.servers.jaeger_datagrams import SERVER_SPAN
from tests.fakes.servers.spans import Given, request_of
from tests.fakes.servers.trace_process import PROTOBUF, Running
from tests.fakes.waiting import eventually, patience

from cotenant.cli.main import main
from cotenant.drivers.otlp.grpc_server import METHOD
from cotenant.engine.node.recovery.story import ServiceStory
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.spans import SpanKind
from cotenant.services.reporting.stories import STORIES, StoryReport
from cotenant.services.reporting.stories import encode as encode_story
from cotenant.services.traces import app as app_module
from cotenant.services.traces import traces_process
from cotenant.services.traces.traces_arguments import TraceSettings, check

JSON = "application/json"
SERVER, CLIENT = SpanKind.SERVER, SpanKind.CLIENT


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(traces_process, "TICK_S", 0.01)
    with Running(TraceSettings(http="127.0.0.1:0", grpc="127.0.0.1:0")) as one:
        yield one


def shop(trace: int = 1) -> bytes:
    return request_of(
        [
            Given(1, 0, "GET /", SERVER, 0, 100, "web", "shop", "a", trace),
            Given(2, 1, "call", CLIENT, 5, 95, "web", "shop", "a", trace),
            Given(3, 2, "POST", SERVER, 10, 90, "cart", "shop", "b", trace, failed=True, tags={"user": "u1"}),
        ]
    )


def test_http_takes_protobuf_json_and_gzip(running: Running) -> None:
    assert running.post(shop())[:2] == (200, b"")
    assert running.post(gzip.compress(shop(2)), **{"Content-Encoding": "gzip"})[0] == 200
    status, body, headers = running.post(b'{"resourceSpans":[]}', JSON)
    assert (status, body, headers["content-type"]) == (200, b"{}", JSON)


def test_http_answers_say_whether_to_send_again(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    status, body, headers = running.post(b"\x0a\xff")
    assert (status, headers["content-type"], body[:2]) == (400, PROTOBUF, b"\x08\x03")
    assert json.loads(running.post(b"[]", JSON)[1])["code"] == 3
    assert running.post(b"", "text/plain")[0] == 415
    assert running.post(b"", **{"Content-Encoding": "br"})[0] == 415
    assert running.post(gzip.compress(bytes(21 << 20)), **{"Content-Encoding": "gzip"})[0] == 413
    assert running.ask("GET", "/v1/traces")[0] == 405
    status, body, _ = running.post(request_of([Given(1), Given(0)]))
    partial = ExportTraceServiceResponse.FromString(body).partial_success
    assert (status, partial.rejected_spans, "span_id" in partial.error_message) == (200, 1, True)
    monkeypatch.setattr("cotenant.engine.traces.trace_engine.TraceEngine.open_spans", 10**9)
    status, body, headers = running.post(shop())
    assert (status, headers["retry-after"], body[:2]) == (429, "2", b"\x08\x0e")


def test_grpc_takes_spans_and_answers_with_its_own_codes(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with grpc.insecure_channel(running.grpc_address) as channel:
        export = channel.unary_unary(METHOD)
        assert export(shop(), timeout=patience(20)) == b""
        with pytest.raises(grpc.RpcError) as raised:
            export(b"\x0a\xff", timeout=patience(20))
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        monkeypatch.setattr("cotenant.engine.traces.trace_engine.TraceEngine.open_spans", 10**9)
        with pytest.raises(grpc.RpcError) as raised:
            export(shop(), timeout=patience(20))
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    metrics = running.ask("GET", "/metrics")[1].decode()
    assert 'cotenant_traces_answers_total{status="OK",transport="grpc"} 1.0' in metrics
    assert "cotenant_traces_spans_total 3.0" in metrics


def test_the_command_line_shows_what_was_received(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*arguments: str) -> str:
        assert main(["traces", *arguments, "--url", running.url]) == 0
        return capsys.readouterr().out

    assert shown("services") == "no service has sent spans yet\n"
    assert shown("list") == "no trace is finished yet\n"
    assert shown("graph") == "no call is finished yet\n"
    running.post(shop())
    running.finish()
    services = shown("services").splitlines()
    assert services[2].split()[:3] == ["shop/cart", "POST", "1"]
    assert "100.00" in services[2]
    assert "1 of 1 kept traces" in shown("list", "--service", "cart", "--tag", "user=u1", "--failed")
    assert shown("list", "--service", "mail") == "none of the 1 kept traces matches\n"
    trace = shown("show", f"{1:032x}")
    assert [line.split("  ")[0].strip() for line in trace.splitlines()[3:6]] == ["GET /", "", ""]
    assert "    POST" in trace
    assert "web" in shown("graph")
    critical = shown("critical", "shop/web")
    assert "80.0" in critical
    assert "1 request of shop/web, 100.00 ms each" in critical
    assert "no kept trace has a request of mail" in shown("critical", "mail")
    assert json.loads(shown("list", "--json"))["traces"][0]["spans"] == 3
    page = json.loads(shown("show", f"{1:032x}", "--json"))
    assert sum(span["selfMs"] for span in page["spans"]) == pytest.approx(page["durationMs"])
    assert page["spans"][2]["tags"] == {"user": "u1"}


def test_jaeger_clients_datagrams_are_counted_by_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    with Running(TraceSettings(http="127.0.0.1:0", grpc="", jaeger_udp="127.0.0.1:0")) as one:
        with socket(AF_INET, SOCK_DGRAM) as client:
            host, _, port = one.jaeger_udp.rpartition(":")
            for datagram in (b"garbage", SERVER_SPAN):
                client.sendto(datagram, (host, int(port)))
        eventually("both are counted", lambda: 'transport="jaeger-udp"} 1.0' in one.ask("GET", "/metrics")[1].decode())
        metrics = one.ask("GET", "/metrics")[1].decode()
    assert 'cotenant_traces_answers_total{status="INVALID_ARGUMENT",transport="jaeger-udp"} 1.0' in metrics
    assert "cotenant_traces_spans_total 1.0" in metrics


def test_incidents_that_agents_report_are_explained_by_service(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    story = ServiceStory("shop/web", "n1", 1, True, ("shop/web-0",), (), ("service shop/web: replicas shop/web-0",))
    body = encode_story(StoryReport("n1", running.clock(), story))
    assert running.ask("POST", STORIES, body)[0] == 204
    assert running.ask("POST", STORIES, b"{}")[0] == 400
    assert running.ask("PUT", STORIES, body)[0] == 405
    ask = ["explain", "service", "shop/web", "--traces", running.url]
    assert main(ask) == 0
    assert capsys.readouterr().out == "node n1\nservice shop/web: replicas shop/web-0\n"
    assert main([*ask, "--json"]) == 0
    (node,) = json.loads(capsys.readouterr().out)["nodes"]
    assert (node["node"], node["replicas"]) == ("n1", ["shop/web-0"])
    assert main(["explain", "service", "cart", "--traces", running.url]) == 1
    assert "no node has reported an incident of default/cart" in capsys.readouterr().err
    for wrong, words in ((["--agent", "x:1"], "not together with --traces"), (["--traces", "x"], "--traces: x:")):
        assert main(["explain", "service", "cart", *(ask[3:] if "--agent" in wrong else ()), *wrong]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["list", "--limit", "0"], 2, "--limit: 0: expected a number from 1 to 1000"),
        (["list", "--min-ms", "nan"], 2, "--min-ms: nan: expected a number from 0 to 1e+09"),
        (["critical", "x", "--slowest", "2"], 2, "--slowest: 2.0: expected a number from 1e-06 to 1"),
        (["show", "abc"], 1, "no trace abc, or more than one begins so"),
        (["list", "--tag", "=x"], 2, "--tag: =x: expected KEY=VALUE, or KEY"),
        (["list", "--url", "localhost:4318"], 2, "expected http://HOST:PORT"),
        (["list", "--url", "http://127.0.0.1:1"], 1, "no trace process answers at http://127.0.0.1:1"),
    ],
)
def test_errors_of_the_command_line_are_one_line(
    running: Running, arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = [] if "--url" in arguments else ["--url", running.url]
    assert main(["traces", *arguments, *url]) == status
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_metrics_have_the_names_of_tempos_service_graph(running: Running) -> None:
    running.post(shop())
    running.finish()
    metrics = running.ask("GET", "/metrics")[1].decode()
    labels = '{client="shop/web",connection_type="",server="shop/cart"}'
    assert f"traces_service_graph_request_total{labels} 1.0" in metrics
    assert f"traces_service_graph_request_failed_total{labels} 1.0" in metrics
    assert f"traces_service_graph_request_server_seconds_count{labels} 1.0" in metrics
    assert f"traces_service_graph_request_client_seconds_sum{labels} 0.09" in metrics
    assert 'connection_type="",le="0.1",server="shop/cart"} 1.0' in metrics


def test_a_token_is_needed_for_everything_but_health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_process, "TICK_S", 0.01)
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    bearer = {"Authorization": "Bearer 0123456789abcdef"}
    with Running(TraceSettings(http="127.0.0.1:0", grpc="127.0.0.1:0", token_file=token)) as one:
        assert one.post(shop())[0] == 401
        assert one.ask("GET", "/api/v1/services")[0] == 401
        assert one.ask("GET", "/healthz")[0] == 200
        assert one.post(shop(), **bearer)[0] == 200
        assert main(["traces", "services", "--url", one.url, "--token-file", str(token)]) == 0
        assert main(["traces", "services", "--url", one.url]) == 1
        with grpc.insecure_channel(one.grpc_address) as channel:
            export = channel.unary_unary(METHOD)
            with pytest.raises(grpc.RpcError) as raised:
                export(shop(), timeout=patience(20))
            assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert export(shop(2), timeout=patience(20), metadata=(("authorization", bearer["Authorization"]),)) == b""


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (TraceSettings(http="0.0.0.0:4318"), "--http"),
        (TraceSettings(jaeger_udp="0.0.0.0:6831"), "--jaeger-udp"),
        (TraceSettings(jaeger_udp="unix:/run/x"), "--jaeger-udp"),
        (TraceSettings(request_moves=True), "--request-moves"),
        (TraceSettings(grpc=":4317"), "--grpc"),
        (TraceSettings(grpc="unix:/run/x"), "--grpc"),
        (TraceSettings(http="x"), "--http"),
        (TraceSettings(tls_cert=Path("x")), "--tls-cert, --tls-key"),
        (TraceSettings(client_ca=Path("x")), "--client-ca"),
        (TraceSettings(token_file=Path("/nonexistent/token")), "--token-file"),
        (TraceSettings(max_skew_s=-1), "--max-skew-s"),
        (TraceSettings(max_skew_s=float("nan")), "--max-skew-s"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: TraceSettings, field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        check(settings)
    assert raised.value.field == field


def test_a_used_port_is_one_line(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    used = urlsplit(running.url).netloc
    for arguments in (["--http", used, "--grpc", ""], ["--http", "127.0.0.1:0", "--grpc", used]):
        assert main(["traces", *arguments]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert used in error
        assert "free" in error


def test_limits_follow_the_protocol() -> None:
    assert app_module.LIMITS.body_bytes == 20 << 20


def test_a_service_of_which_no_request_comes_is_named_with_what_came(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["traces", "services", "--url", running.url]) == 0
    assert capsys.readouterr().out == "no service has sent spans yet\n"
    running.post(request_of([Given(1, kind=CLIENT, namespace="shop"), Given(2, namespace="shop")]))
    assert main(["traces", "services", "--url", running.url]) == 0
    words = capsys.readouterr().out
    assert "spans without a request: shop/web (1 client, 1 internal)" in words
    assert "a span of kind SERVER or CONSUMER" in words


def test_spans_that_came_late_are_why_a_service_has_no_requests(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    late = Given(1, kind=SERVER, start_ms=-120_000.0, end_ms=-119_000.0)
    running.post(request_of([late]))
    assert main(["traces", "services", "--url", running.url]) == 0
    assert "spans that came more than a minute after their end: 1 since the start" in " ".join(
        capsys.readouterr().out.split()
    )
    running.post(request_of([Given(2, kind=SERVER, trace=2)]))
    assert main(["traces", "services", "--url", running.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["old"] == 1


def test_ids_of_64_bits_are_shown_and_found_as_their_clients_write_them(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    running.post(request_of([Given(1, kind=SERVER, trace=0xABCDEF0123456789)]))
    running.finish()
    assert main(["traces", "list", "--url", running.url]) == 0
    assert "abcdef0123456789" in capsys.readouterr().out
    for asked in ("abcdef0123456789", "abcdef01", f"{0xABCDEF0123456789:032x}"):
        assert json.loads(running.ask("GET", f"/api/v1/traces/{asked}")[1])["traceId"] == "abcdef0123456789"
    (asked_by_code,) = json.loads(running.ask("GET", "/api/v1/requests?of=web")[1])["requests"]
    assert asked_by_code["traceId"] == "abcdef0123456789"


def test_ids_that_begin_with_the_time_are_told_apart_in_the_list(
    running: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    second = 0x6789ABCD << 96
    running.post(request_of([Given(1, kind=SERVER, trace=second | number << 56) for number in (0xA1, 0xB1)]))
    running.finish()
    assert main(["traces", "list", "--url", running.url]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("6789abcd")]
    assert sorted(shown) == ["6789abcd00000000a", "6789abcd00000000b"]
    for beginning in shown:
        assert json.loads(running.ask("GET", f"/api/v1/traces/{beginning}")[1])["traceId"].startswith(beginning)


def test_a_body_of_too_many_messages_is_refused_by_both_protocols(running: Running) -> None:
    body = b"\x0a\x00" * 10_000_000
    status, answer, _ = running.post(gzip.compress(body, 1), **{"Content-Encoding": "gzip"})
    assert (status, answer[:2]) == (413, b"\x08\x08")
    assert b"5001 resources: expected at most 5000; send smaller batches" in answer
    with grpc.insecure_channel(running.grpc_address) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(METHOD)(body, timeout=patience(20))
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    with grpc.insecure_channel(running.grpc_address) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(METHOD)(bytes(40 << 20), timeout=patience(20), compression=grpc.Compression.Gzip)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (
        'cotenant_traces_answers_total{status="413",transport="http"} 1.0' in running.ask("GET", "/metrics")[1].decode()
    )


def test_a_repeated_export_counts_once_and_names_are_cut_on_the_page(running: Running) -> None:
    body = request_of([Given(1, name="op" + "n" * 500_000, kind=SERVER, service="cart")])
    assert [running.post(body)[0] for _ in range(2)] == [200, 200]
    page = running.ask("GET", "/metrics")[1].decode()
    assert len(page) < 50_000
    (line,) = (line for line in page.splitlines() if line.startswith("cotenant_service_requests_total"))
    assert line.endswith(" 1.0")
    assert "cotenant_traces_spans_repeated_total 1.0" in page


def test_a_batch_in_parts_is_taken_whole(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "PART_SPANS", 7)
    spans = [Given(number + 1, name=f"op {number}", kind=SERVER) for number in range(50)]
    status, answer, _ = running.post(request_of([*spans, Given(0)]))
    assert (status, ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans) == (200, 1)
    page = running.ask("GET", "/metrics")[1].decode()
    assert "cotenant_traces_spans_total 50.0" in page
    assert "cotenant_traces_requests_total 1.0" in page
