from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.fakes.servers.fake_prometheus import FakePrometheus, Question, Reply, matrix, refusal, vector

from cotenant.drivers.prometheus.answers import QueryAnswer, read_answer
from cotenant.drivers.prometheus.client import Prometheus, PrometheusClient, Slow, TooMuch
from cotenant.model.errors import InvalidInput, Permanent, Transient

ONE = vector(({"a": "b"}, 2.5))


def asked(
    answer: Callable[[Question], Reply], **settings: object
) -> tuple[QueryAnswer | Exception, FakePrometheus, list[float]]:
    """What a query gives, the server, and the pauses made."""
    pauses: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)

    async def ask() -> tuple[QueryAnswer | Exception, FakePrometheus, list[float]]:
        async with FakePrometheus(answer) as server:
            prometheus = Prometheus(server.url, qps=1000.0, **settings)  # type: ignore[arg-type]
            async with PrometheusClient(prometheus, monotonic=lambda: 0.0, sleep=sleep) as client:
                try:
                    return await client.query("up", 7.0), server, pauses
                except (Transient, Permanent) as error:
                    return error, server, pauses

    return asyncio.run(ask())


def test_an_answer_and_the_tenant_by_header() -> None:
    found, server, _ = asked(lambda question: ONE, headers={"X-Scope-OrgID": "team-1"})
    assert isinstance(found, QueryAnswer)
    assert [(dict(one.metric), one.samples()[1].tolist()) for one in found.series] == [({"a": "b"}, [2.5])]
    assert (server.asked[0].path, server.asked[0].query, server.asked[0].at_s) == ("/api/v1/query", "up", 7.0)
    assert server.asked[0].headers["X-Scope-OrgID"] == "team-1"


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(503, "starting"),
        refusal(429, "slow down", Retry_After="9"),
        Reply(b"<html>bad gateway</html>", 502),
        Reply(status=0),
        Reply(ONE.body[:30]),
        Reply(ONE.body[:30], length=len(ONE.body)),
    ],
)
def test_what_may_pass_is_asked_again_after_longer_pauses(trouble: Reply) -> None:
    replies = [trouble, trouble, ONE]
    found, server, pauses = asked(lambda question: replies.pop(0))
    assert isinstance(found, QueryAnswer)
    assert len(server.asked) == 3
    if trouble.status:  # aiohttp itself asks again once where a connection was closed
        assert pauses == ([9.0, 9.0] if trouble.status == 429 else [1.0, 2.0])


def test_it_gives_up_after_the_last_try() -> None:
    found, server, pauses = asked(lambda question: refusal(503, "starting"), max_tries=3)
    assert type(found) is Transient
    assert "starting" in str(found)
    assert (len(server.asked), len(pauses)) == (3, 2)


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (refusal(422, "query processing would load too many samples into memory", "execution"), TooMuch, "too many"),
        (refusal(400, "exceeded maximum resolution of 11,000 points", "bad_data"), TooMuch, "maximum"),
        (refusal(413, ""), TooMuch, "413"),
        (refusal(503, "query timed out in expression evaluation", "timeout"), Slow, "timed out"),
        (refusal(504, "context deadline exceeded"), Slow, "deadline"),
        (refusal(400, "parse error", "bad_data"), Permanent, "parse error"),
        (refusal(401, "no org id"), Permanent, "give the header"),
        (Reply(b'{"status":"success","data":{"result":"x"}}'), Permanent, "no answer of Prometheus"),
        (Reply(b'{"hello": 1}'), Permanent, "no status"),
        (Reply(b"", 302, {"Location": "http://127.0.0.1:1/"}), Permanent, "302"),
    ],
)
def test_refusals_have_their_meaning_and_are_not_repeated(reply: Reply, kind: type[Exception], said: str) -> None:
    found, server, pauses = asked(lambda question: reply)
    assert type(found) is kind
    assert said in str(found)
    assert (len(server.asked), pauses) == (1, [])


def test_a_server_that_is_not_there_is_named() -> None:
    async def ask() -> str:
        prometheus = Prometheus("http://me:secret@127.0.0.1:1", qps=float("inf"), max_tries=1)
        async with PrometheusClient(prometheus, monotonic=lambda: 0.0) as client:
            with pytest.raises(Transient) as failed:
                await client.query("up")
            return str(failed.value)

    said = asyncio.run(ask())
    assert said.startswith("127.0.0.1:1: ")
    assert "secret" not in said


def test_what_is_not_finite_is_unknown_and_a_warning_is_kept() -> None:
    body = matrix(({}, [(1, 1), (2, "NaN"), (3, "+Inf"), (4, "-Inf")]), warnings=["one store is away"], isPartial=True)
    answer = read_answer(body.body)
    times, values = answer.series[0].samples()
    assert times.tolist() == [1, 2, 3, 4]
    assert [value == value for value in values.tolist()] == [True, False, False, False]
    assert answer.faults == ("the store answered with a part only", "one store is away")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "prometheus:9090"}, "a URL"),
        ({"url": "http://a/?x=1"}, "without a query"),
        ({"url": "http://a", "headers": {"A": "b\r\nEvil: 1"}}, "one line"),
        ({"url": "http://a", "max_tries": 0}, "1 or more"),
        ({"url": "http://a", "qps": 0.0}, "--limit-qps"),
        ({"url": "http://a", "in_flight": 0}, "one request at a time"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Prometheus(**settings)  # type: ignore[arg-type]
