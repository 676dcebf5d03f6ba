"""Channels over HTTP and by the command line: rights, counts, what an objective says meanwhile, a restart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.servers.spans import Given, request_of
from tests.fakes.servers.trace_process import Running

from cotenant.cli.main import main
from cotenant.model.traces.spans import SpanKind
from cotenant.services.traces.traces_arguments import TraceSettings

PAGE = "/api/v1/channels"
AS_JSON = {"Content-Type": "application/json"}
OBJECTIVE = """\
apiVersion: slo.cotenant.io/v1alpha1
kind: ServiceObjective
metadata: {name: cart, namespace: shop}
spec:
  service: {name: cart}
  indicator: {latency: {below: 50ms}}
  target: "99"
  window: 28d
  protect: {maxAction: cap}
"""


def cart(span: int = 1) -> bytes:
    return request_of(
        [Given(span, 0, "POST", SpanKind.SERVER, 0, 9, "cart", "shop", trace=span, pod="cart-0", instance="g1")]
    )


def receiving(one: Running) -> tuple[str, str, str]:
    view = json.loads(one.ask("GET", "/api/v1/objectives/shop/cart")[1])
    (found,) = [condition for condition in view["conditions"] if condition["type"] == "Receiving"]
    return view["maxAction"], found["reason"], found["message"]


def test_a_closed_service_is_counted_explained_and_opens_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objectives = tmp_path / "objectives.yml"
    objectives.write_text(OBJECTIVE)
    with Running(TraceSettings(http="127.0.0.1:0", grpc="", objectives=objectives)) as one:
        ask = ["--url", one.url]
        assert main(["traces", "closed", *ask]) == 0
        assert main(["traces", "close", "shop/cart", "--for", "2m", *ask]) == 0
        assert one.post(cart())[:2] == (200, b"")
        assert main(["traces", "closed", *ask]) == 0
        said = capsys.readouterr().out
        assert "no channel is closed; 0 spans" in said
        assert "a restart of the process opens it" in said
        (row,) = json.loads(one.ask("GET", PAGE)[1])["closed"]
        assert (row["spans"], row["leftS"], row["services"]) == (1, 120.0, ["shop/cart"])
        action, reason, message = receiving(one)
        assert (action, reason) == ("observe", "ChannelClosed")
        assert "1 span left out" in message
        metrics = one.ask("GET", "/metrics")[1].decode()
        assert "cotenant_traces_spans_closed_total 1.0" in metrics
        assert "cotenant_traces_closed_channels 1.0" in metrics
        one.clock.now_s += 121
        assert one.ask("GET", PAGE)[1] == b'{"outlivesRestart":false,"spans":1,"closed":[]}'
        assert receiving(one)[:2] == ("cap", "NothingMatches")


def test_a_closed_instance_is_named_where_it_was_the_only_one(tmp_path: Path) -> None:
    objectives = tmp_path / "objectives.yml"
    objectives.write_text(OBJECTIVE)
    with Running(TraceSettings(http="127.0.0.1:0", grpc="", objectives=objectives)) as one:
        assert main(["traces", "close", "g1", "--url", one.url]) == 0
        one.post(cart())
        action, reason, message = receiving(one)
        assert (action, reason) == ("cap", "ChannelClosed")
        assert "g1 until" in message
        assert main(["traces", "open", "g1", "--url", one.url, "--json"]) == 0
        assert main(["traces", "open", "g1", "--url", one.url]) == 1
        one.post(cart(2))
        assert receiving(one)[1] == "Requests"


def test_closed_channels_outlive_a_restart_with_a_state_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = TraceSettings(http="127.0.0.1:0", grpc="", state=tmp_path / "state")
    with Running(settings) as one:
        assert main(["traces", "close", "cart", "--for", "10m", "--url", one.url]) == 0
        assert "restart" not in capsys.readouterr().out
        kept = (tmp_path / "state").read_bytes()  # at once, not at the next snapshot
    (tmp_path / "state").write_bytes(kept)
    with Running(settings) as one:
        page = json.loads(one.ask("GET", PAGE)[1])
        assert [row["channel"] for row in page["closed"]] == ["cart"]
        assert page["outlivesRestart"] is True
        one.post(cart())
        assert json.loads(one.ask("GET", PAGE)[1])["spans"] == 1


def test_only_whoever_may_ask_closes(tmp_path: Path) -> None:
    asking, sending = tmp_path / "asking", tmp_path / "sending"
    asking.write_text("0123456789abcdef")
    sending.write_text("fedcba9876543210")
    settings = TraceSettings(http="127.0.0.1:0", grpc="", token_file=asking, send_token_file=sending)
    with Running(settings) as one:
        body = b'{"channel":"cart","forS":60}'
        by_sender = {"Authorization": "Bearer fedcba9876543210", **AS_JSON}
        for method, path, sent in (("POST", PAGE, body), ("DELETE", f"{PAGE}?channel=cart", None), ("GET", PAGE, None)):
            assert one.ask(method, path, sent, by_sender)[0] == 401
            assert one.ask(method, path, sent, AS_JSON)[0] == 401
        by_asker = {"Authorization": "Bearer 0123456789abcdef", **AS_JSON}
        assert one.ask("POST", PAGE, body, by_asker)[0] == 200
        assert one.ask("DELETE", f"{PAGE}?channel=cart", None, by_asker)[0] == 200


@pytest.mark.parametrize(
    ("method", "body", "headers", "status"),
    [
        ("POST", b'{"channel":"cart","forS":60}', {"Content-Type": "text/plain"}, 415),
        ("POST", b"{", AS_JSON, 400),
        ("POST", b'{"channel":"","forS":60}', AS_JSON, 400),
        ("POST", b'{"channel":"cart","forS":0}', AS_JSON, 400),
        ("POST", b'{"channel":"cart","forS":60,"more":1}', AS_JSON, 400),
        ("POST", b" " * 5000, AS_JSON, 413),
        ("DELETE", None, {}, 404),
        ("PUT", b"", AS_JSON, 405),
    ],
)
def test_what_is_refused(method: str, body: bytes | None, headers: dict[str, str], status: int) -> None:
    with Running(TraceSettings(http="127.0.0.1:0", grpc="")) as one:
        assert one.ask(method, PAGE, body, headers)[0] == status
        assert json.loads(one.ask("GET", PAGE)[1])["closed"] == []
