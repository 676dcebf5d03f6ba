"""The pages of the trace process, each figure of them, for two requests of a shop and what else sends spans."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.fakes.servers.spans import EPOCH_S, SECOND_NS, Given, batch_of

from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.spans import SpanKind
from cotenant.policy.objective.latency_buckets import GROWTH
from cotenant.services.traces.objective_board import ObjectiveBoard
from cotenant.services.traces.pages import BAND, MAX_SILENT, PREFIX, TracePages
from cotenant.services.traces.story_board import StoryBoard

SERVER, CLIENT, INTERNAL = SpanKind.SERVER, SpanKind.CLIENT, SpanKind.INTERNAL


def request(trace: int, begin_ms: float, length_ms: float, failed: bool = False) -> tuple[Given, ...]:
    """web calls cart, which takes all but 20 ms of it."""
    end_ms = begin_ms + length_ms
    first = trace * 10
    return (
        Given(first, 0, "GET /", SERVER, begin_ms, end_ms, "web", "shop", "a", trace, pod="web-1"),
        Given(first + 1, first, "call", CLIENT, begin_ms + 5, end_ms - 5, "web", "shop", "a", trace),
        Given(
            first + 2,
            first + 1,
            "POST",
            SERVER,
            begin_ms + 10,
            end_ms - 10,
            "cart",
            "shop",
            "b",
            trace,
            failed=failed,
            tags={"user": f"u{trace}"},
        ),
    )


class World:
    def __init__(self, *spans: Given) -> None:
        self.now_s = EPOCH_S + 10.0
        self.engine = TraceEngine(float(EPOCH_S), span_tags)
        board = ObjectiveBoard(self.engine.objectives, lambda: self.now_s)
        self.pages = TracePages(self.engine, lambda: self.now_s, board, StoryBoard(lambda: self.now_s))
        if spans:
            self.engine.add(batch_of(*spans), self.now_s)
            self.now_s += 30.0
            self.engine.tick(self.now_s)  # they are complete by now

    def answer(self, path: str, query: str = "") -> tuple[int, Any]:
        answer = self.pages.answer(f"{PREFIX}{path}", query)
        return answer.status, json.loads(answer.body)

    def page(self, path: str, query: str = "") -> Any:
        status, page = self.answer(path, query)
        assert status == 200, page
        return page


@pytest.fixture
def shop() -> World:
    return World(*request(1, 0, 100), *request(2, 1000, 220, failed=True))


def test_operations_are_listed_the_busiest_first() -> None:
    world = World(
        *request(1, 0, 100), *request(2, 0, 200, failed=True), Given(90, 0, "GET", SERVER, 0, 50, "a", trace=9)
    )
    page = world.page("services")
    rows = [
        (row["service"], row["operation"], row["kind"], row["requests"], row["errors"]) for row in page["operations"]
    ]
    assert rows == [
        ("shop/cart", "POST", "server", 2, 1),
        ("shop/web", "GET /", "server", 2, 0),
        ("a", "GET", "server", 1, 0),
    ]
    assert page["windowS"] == pytest.approx(40.0)
    web = page["operations"][1]
    assert web["perSecond"] == pytest.approx(2 / page["windowS"])
    assert 95 < web["p50Ms"] < 105
    assert 190 < web["p99Ms"] < 210
    assert 190 < web["p95Ms"] < 210


def test_services_that_serve_nothing_are_named_with_what_they_sent() -> None:
    kinds = (
        Given(2, 1, "call", CLIENT, 0, 1, "job"),
        Given(3, 1, "call", CLIENT, 0, 1, "job"),
        Given(4, 1, "other", CLIENT, 0, 1, "job"),
        Given(5, 1, "work", INTERNAL, 0, 1, "job"),
    )
    world = World(*request(1, 0, 100), *kinds)
    assert world.page("services")["silent"] == [{"service": "job", "spans": {"client": 3, "internal": 1}}]
    crowd = [Given(n, 0, "w", INTERNAL, 0, 1, f"s{n:03d}", trace=n) for n in range(1, MAX_SILENT + 3)]
    silent = World(*crowd).page("services")["silent"]
    assert (len(silent), silent[0]["service"]) == (MAX_SILENT, "s001")


def test_traces_are_listed_with_what_they_are(shop: World) -> None:
    page = shop.page("traces")
    assert page["kept"] == 2
    rows = {row["operation"] + str(row["failed"]): row for row in page["traces"]}
    row = rows["GET /True"]
    assert (row["service"], row["spans"], row["services"], row["partial"]) == ("shop/web", 3, 2, False)
    assert (row["startNs"], row["durationMs"]) == (EPOCH_S * SECOND_NS + SECOND_NS, 220.0)
    assert rows["GET /False"]["durationMs"] == 100.0


@pytest.mark.parametrize(
    ("query", "durations"),
    [
        ("slowest=1", [220.0, 100.0]),
        ("slowest=1&limit=1", [220.0]),
        ("service=cart&failed=1", [220.0]),
        ("service=shop/web&failed=1", []),
        ("tag=user=u1", [100.0]),
        ("tag=user", [220.0, 100.0]),
        ("tag=user=u1&service=web", []),
        ("operation=POST&min_ms=150", [220.0]),
        ("min_ms=220", [220.0]),
        ("min_ms=220.1", []),
        ("service=mail", []),
    ],
)
def test_traces_are_searched(shop: World, query: str, durations: list[float]) -> None:
    found = [row["durationMs"] for row in shop.page("traces", query)["traces"]]
    assert sorted(found, reverse=True) == durations
    assert found == durations or "slowest" not in query


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("traces", "limit=0", "limit: 0.0: expected a number from 1 to 1000"),
        ("traces", "limit=1001", "from 1 to 1000"),
        ("traces", "limit=many", "limit: many: expected a number"),
        ("traces", "limit=nan", "from 1 to 1000"),
        ("traces", "min_ms=-1", "min_ms"),
        ("traces", "colour=red", "colour: red: expected one of service"),
        ("sketch", "", "service"),
        ("critical", "", "service"),
        ("critical", "service=web&slowest=0", "slowest"),
        ("critical", "service=web&slowest=1.1", "slowest"),
    ],
)
def test_a_wrong_question_is_named(shop: World, path: str, query: str, said: str) -> None:
    status, page = shop.answer(path, query)
    assert status == 400
    assert said in page["error"]


def test_one_trace_is_shown_with_its_spans(shop: World) -> None:
    page = shop.page(f"traces/{1:032x}")
    assert (page["size"], page["partial"], page["durationMs"], page["startNs"]) == (
        3,
        False,
        100.0,
        EPOCH_S * SECOND_NS,
    )
    web, call, cart = page["spans"]
    assert (web["parent"], call["parent"], cart["parent"]) == (-1, 0, 1)
    assert (web["service"], web["operation"], web["kind"], web["pod"], web["host"]) == (
        "shop/web",
        "GET /",
        "server",
        "web-1",
        "a",
    )
    assert (cart["startMs"], cart["durationMs"], cart["selfMs"], cart["shiftMs"]) == (10.0, 80.0, 80.0, 0.0)
    assert (web["selfMs"], call["selfMs"], web["startMs"], call["kind"]) == (10.0, 10.0, 0.0, "client")
    assert (cart["spanId"], cart["tags"], cart["failed"], cart["orphan"]) == (
        f"{12:016x}",
        {"user": "u1"},
        False,
        False,
    )
    assert shop.page(f"traces/{2:032X}")["spans"][2]["failed"] is True


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (f"traces/{7:032x}", "no trace 00000000000000000000000000000007, or more than one begins so"),
        ("sketch?service=mail", "no such page"),
        ("objectives/shop/none", "no objective shop/none"),
        ("nothing", "no such page"),
        ("", "no such page"),
    ],
)
def test_what_is_not_there_is_said(shop: World, path: str, said: str) -> None:
    status, page = shop.answer(path)
    assert (status, page["error"]) == (404, said)


def test_who_calls_whom(shop: World) -> None:
    edges = {(row["client"], row["server"]): row for row in shop.page("graph")}
    row = edges["shop/web", "shop/cart"]
    assert (row["calls"], row["failed"]) == (2, 1)
    assert row["clientMeanMs"] == pytest.approx((90 + 210) / 2)
    assert row["serverMeanMs"] == pytest.approx((80 + 200) / 2)
    counts = [row["calls"] for row in shop.page("graph")]
    assert counts == sorted(counts, reverse=True)


def test_where_the_time_of_a_services_requests_goes(shop: World) -> None:
    page = shop.page("critical", "service=shop/web")
    assert (page["service"], page["requests"], page["represented"], page["meanMs"]) == ("shop/web", 2, 2.0, 160.0)
    first = page["path"][0]
    assert (first["service"], first["operation"], first["kind"], first["requests"]) == (
        "shop/cart",
        "POST",
        "server",
        2,
    )
    assert (first["meanMs"], first["share"]) == (140.0, pytest.approx(140 / 160))
    assert sum(row["share"] for row in page["path"]) == pytest.approx(1.0)
    slow = shop.page("critical", "service=shop/web&slowest=0.5")
    assert (slow["requests"], slow["meanMs"]) == (1, 220.0)
    nobody = shop.page("critical", "service=mail")
    assert (nobody["requests"], nobody["meanMs"], nobody["path"]) == (0, 0.0, [])


def test_a_services_requests_by_half_minute_and_latency(shop: World) -> None:
    page = shop.page("sketch", "service=shop/web")
    assert page["service"] == "shop/web"
    assert page["factor"] == pytest.approx(GROWTH**BAND)
    (slot,) = page["slots"]
    assert (slot["requests"], slot["errors"], sum(count for _, count in slot["bands"])) == (2, 0, 2)
    assert 0 < slot["agoS"] <= 40.0
    assert slot["lengthS"] > 0
    for band, length_ms in zip((band for band, _ in slot["bands"]), (100.0, 220.0), strict=True):
        low = page["lowMs"] * page["factor"] ** band
        assert low * 0.99 <= length_ms <= low * page["factor"] * 1.01
    assert 95 < slot["p50Ms"] < 105
    assert 210 < slot["p99Ms"] < 232
    assert 210 < slot["p95Ms"] < 232
    assert shop.answer("sketch", "service=mail") == (404, {"error": "the service has sent no request yet"})


def test_pages_of_a_process_that_has_heard_nothing() -> None:
    world = World()
    assert world.page("services")["operations"] == []
    assert world.page("traces") == {"kept": 0, "traces": []}
    assert (world.page("graph"), world.page("objectives"), world.page("stories")) == ([], [], [])
