"""Profiles that programs send, and requests by instance: over HTTP, by the command, by whom, and how many."""

from __future__ import annotations

import asyncio
import cProfile
import json
import marshal
from pathlib import Path

import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, request_of
from tests.fakes.servers.trace_process import Running
from tests.fakes.waiting import eventually

from cotenant.cli.main import main
from cotenant.drivers.http.messages import Scope
from cotenant.model.traces.spans import SpanKind
from cotenant.services.traces import profile_pages
from cotenant.services.traces.profile_pages import ProfilePages
from cotenant.services.traces.traces_arguments import TraceSettings

PAGE = "/api/v1/profiles"
SETTINGS = TraceSettings(http="127.0.0.1:0", grpc="")


def work() -> int:
    return sum(range(50_000))


def profile(path: Path) -> bytes:
    taken = cProfile.Profile()
    taken.runcall(work)
    taken.dump_stats(path)
    return path.read_bytes()


def test_a_program_sends_its_profile_and_the_command_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = profile(tmp_path / "stats")
    with Running(SETTINGS) as one:
        assert one.ask("POST", f"{PAGE}?name=web-1", body)[0] == 204
        assert one.ask("POST", f"{PAGE}?name=web-2", b"\x80cos\nsystem\n")[0] == 400
        assert one.ask("POST", PAGE, body)[0] == 400
        assert one.ask("DELETE", PAGE)[0] == 405
        (row,) = json.loads(one.ask("GET", PAGE)[1])
        assert (row["name"], row["namespace"], row["sizeBytes"]) == ("web-1", "", len(body))
        assert one.ask("GET", f"{PAGE}?name=web-1")[1] == body
        out = tmp_path / "out.otlp"
        assert main(["profile", "code", "web-1", "--sent", "--traces", one.url, "--out", str(out)]) == 0
        said = capsys.readouterr().out
        assert "s of web-1, as it sent them by cProfile" in said
        assert " work " in said
        assert out.stat().st_size > 100
        assert main(["profile", "code", "web-2", "--sent", "--traces", one.url]) == 1
        assert "no profile of web-2 was sent" in capsys.readouterr().err


def test_whoever_may_send_spans_may_send_a_profile_and_not_read_one(tmp_path: Path) -> None:
    (tmp_path / "asking").write_text("question" * 4)
    (tmp_path / "senders").mkdir()
    (tmp_path / "senders" / "shop").write_text("of-shop" * 4)
    settings = TraceSettings(
        http="127.0.0.1:0", grpc="", token_file=tmp_path / "asking", sender_tokens=tmp_path / "senders"
    )
    sender, asking = ({"Authorization": f"Bearer {token}"} for token in ("of-shop" * 4, "question" * 4))
    body = profile(tmp_path / "stats")
    with Running(settings) as one:
        assert one.ask("POST", f"{PAGE}?name=web-1", body)[0] == 401
        assert one.ask("POST", f"{PAGE}?name=web-1", body, sender)[0] == 204
        assert one.ask("GET", PAGE, None, sender)[0] == 401
        (row,) = json.loads(one.ask("GET", PAGE, None, asking)[1])
        assert row["namespace"] == "shop"


def test_the_last_of_each_name_is_kept_and_no_sender_takes_all_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    body = marshal.dumps({("a.py", 1, "f"): (1, 1, 1.0, 1.0, {})})
    monkeypatch.setattr(profile_pages, "MAX_HOLDER_BYTES", 2 * len(body))
    monkeypatch.setattr(profile_pages, "MAX_KEPT_BYTES", 3 * len(body))
    pages = ProfilePages(lambda: 5.0)

    async def send(name: str, holder: str) -> None:
        scope: Scope = {"type": "http", "query_string": f"name={name}".encode(), "headers": []}

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        assert (await pages.take(scope, receive, "", holder)).status == 204  # type: ignore[arg-type]

    async def play() -> None:
        for name, holder in (("a", "x"), ("b", "y"), ("c", "y"), ("d", "y"), ("d", "y")):
            await send(name, holder)

    asyncio.run(play())
    rows = json.loads(pages.answer({"type": "http", "query_string": b"", "headers": []}).body)
    assert [row["name"] for row in rows] == ["d", "c", "a"]


def test_requests_of_an_instance_are_told_apart_from_those_of_its_twin() -> None:
    def given(span: int, instance: str, **tags: str | int) -> Given:
        return Given(
            span, name="GET", kind=SpanKind.SERVER, end_ms=5.0, service="web", trace=span, instance=instance, tags=tags
        )

    with Running(SETTINGS) as one:
        for number, instance in ((1, "web-a"), (2, "web-b"), (3, "web-a")):
            given_tags: dict[str, str | int] = {"thread.id": 77} if number == 3 else {}
            assert one.post(request_of([given(number, instance, **given_tags)]))[0] == 200
        one.clock.now_s += 20
        eventually("all are kept", lambda: json.loads(one.ask("GET", "/api/v1/traces")[1])["kept"] == 3)

        def rows(query: str) -> list[dict[str, object]]:
            status, body, _ = one.ask("GET", f"/api/v1/requests?{query}")
            assert status == 200, body
            found: list[dict[str, object]] = json.loads(body)["requests"]
            return sorted(found, key=lambda row: str(row["spanId"]))

        assert [(row["spanId"], row["thread"]) for row in rows("of=web-a")] == [(f"{1:016x}", 0), (f"{3:016x}", 77)]
        assert len(rows("of=web")) == 3
        assert rows("of=web-b")[0]["endNs"] == EPOCH_S * 10**9 + 5_000_000
        assert rows(f"of=web&from_ns={EPOCH_S * 10**9 + 6_000_000}") == []
        assert one.ask("GET", "/api/v1/requests?of=web&to_ns=x")[0] == 400
        assert one.ask("GET", "/api/v1/requests")[0] == 400
