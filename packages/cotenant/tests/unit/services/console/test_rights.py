"""Whose token it is, what a right is called, and how many sessions there may be."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from tests.unit.services.console.test_access import Time, asking, find

from cotenant.drivers.kube.client.errors import Forbidden, Unavailable
from cotenant.services.console.access import REVIEW_S, RIGHTS, SESSION_S, OneTimeToken, Right, Sessions


@pytest.mark.parametrize(
    ("right", "words", "attributes"),
    [
        (Right("g", "kinds"), "list kinds", {"verb": "list", "resource": "kinds", "group": "g"}),
        (RIGHTS["logs"][0], "get pods/log", {"verb": "get", "resource": "pods", "subresource": "log"}),
        (Right("", "*", "*"), "do everything to all kinds", {"verb": "*", "resource": "*"}),
    ],
)
def test_a_right_in_words_and_as_the_server_is_asked(right: Right, words: str, attributes: dict[str, str]) -> None:
    assert right.words == words
    assert right.attributes == attributes


def token(payload: bytes) -> str:
    return f"h.{urlsafe_b64encode(payload).decode().rstrip('=')}.s"


async def everybody(_: str) -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "viewer"),
    [
        (token(b'{"sub":"kate"}'), "kate"),
        (token(b'{"sub":"ka"}'), "ka"),
        (token(json.dumps({"sub": "k" * 300}).encode()), "k" * 200),
        (token(b'{"sub":7}'), "kubernetes token"),
        (token(b"[]"), "kubernetes token"),
        (token(b"no json"), "kubernetes token"),
        ("two.parts", "kubernetes token"),
        ("plain", "kubernetes token"),
    ],
)
def test_a_viewer_is_known_by_the_tokens_subject(given: str, viewer: str) -> None:
    sessions = Sessions(Time(), link=OneTimeToken(), review=everybody)
    cookie = asyncio.run(sessions.log_in(f"  {given}\n"))
    session = asyncio.run(sessions.find(asking(cookie)))
    assert session is not None
    assert session.viewer == viewer


@pytest.mark.parametrize("given", ["", "  ", "a\x00b", "é"])
def test_what_is_no_token_is_not_asked_about(given: str) -> None:
    async def review(_: str) -> bool:
        raise AssertionError("it was asked about")

    assert asyncio.run(Sessions(Time(), link=OneTimeToken(), review=review).log_in(given)) is None


@pytest.mark.parametrize(
    ("error", "begins", "goes_on"), [(Unavailable("away"), False, True), (Forbidden("no"), False, False)]
)
def test_an_outage_begins_no_session_and_ends_none(error: Exception, begins: bool, goes_on: bool) -> None:
    time, fails = Time(), [False]

    async def review(_: str) -> bool:
        if fails[0]:
            raise error
        return True

    sessions = Sessions(time, link=OneTimeToken(), review=review)
    cookie = asyncio.run(sessions.log_in("kate"))
    fails[0] = True
    assert (asyncio.run(sessions.log_in("eve")) is not None) is begins
    time.now_s += REVIEW_S - 1
    assert find(sessions, asking(cookie))
    time.now_s += 1
    assert find(sessions, asking(cookie)) is goes_on


def test_the_oldest_session_goes_where_there_are_too_many() -> None:
    sessions = Sessions(Time(), link=OneTimeToken(), review=everybody, max_sessions=3)
    cookies = [asyncio.run(sessions.log_in("kate")) for _ in range(3)]
    assert all(find(sessions, asking(cookie)) for cookie in cookies)
    cookies.append(asyncio.run(sessions.log_in("kate")))
    assert [find(sessions, asking(cookie)) for cookie in cookies] == [False, True, True, True]


def test_what_lasts_ends_with_its_session() -> None:
    time = Time()
    sessions = Sessions(time, link=OneTimeToken(), review=everybody)
    cookie = asyncio.run(sessions.log_in("kate"))
    scope: dict[str, Any] = asking(cookie)
    session = asyncio.run(sessions.find(scope))
    assert session is not None
    assert sessions.is_open(session)
    time.now_s += SESSION_S - 1
    assert sessions.is_open(session)
    time.now_s += 1
    assert not sessions.is_open(session)
    time.now_s -= 1
    removed = sessions.log_out(scope)
    assert b"Max-Age=0" in removed
    assert not sessions.is_open(session)


def test_who_may_be_asked_about_is_known() -> None:
    assert Sessions(Time(), link=OneTimeToken(), review=everybody).takes_kubernetes_tokens
    assert not Sessions(Time(), link=OneTimeToken()).takes_kubernetes_tokens
    link = OneTimeToken()
    given = link.token
    link.withdraw()
    assert Sessions(Time(), link=link).follow(given) is None
