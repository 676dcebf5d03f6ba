"""Who may look: links that work once, tokens, Kubernetes tokens, and the end of a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cotenant.drivers.http.tokens import BearerToken
from cotenant.drivers.kube.client.errors import Unavailable
from cotenant.model.errors import InvalidInput
from cotenant.services.console.access import COOKIE, REVIEW_S, RIGHTS, SESSION_S, OneTimeToken, Right, Sessions
from cotenant.services.console.proxy_login import ProxyLogin

TOKEN = "a-token-that-scripts-send"


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def asking(cookie: bytes | None = None, authorization: bytes = b"") -> dict[str, Any]:
    headers = [(b"authorization", authorization)] if authorization else []
    if cookie is not None:
        headers.append((b"cookie", b"theme=dark; " + cookie.split(b";")[0]))
    return {"headers": headers}


def find(sessions: Sessions, scope: dict[str, Any]) -> bool:
    return asyncio.run(sessions.find(scope)) is not None


def test_a_link_works_once_and_its_session_ends() -> None:
    time, link = Time(), OneTimeToken()
    sessions, token = Sessions(time, link=link), link.token
    assert sessions.follow("another") is None
    cookie = sessions.follow(token)
    assert cookie is not None
    assert b"HttpOnly" in cookie
    assert b"SameSite=Strict" in cookie
    assert b"Secure" not in cookie
    assert sessions.follow(token) is None
    assert sessions.follow("") is None
    assert find(sessions, asking(cookie))
    assert not find(sessions, asking(COOKIE + b"=guess"))
    assert not find(sessions, asking())
    time.now_s += SESSION_S
    assert not find(sessions, asking(cookie))


def test_a_link_in_a_file_is_used_up_by_removing_the_file(tmp_path: Path) -> None:
    path = tmp_path / "login"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    sessions = Sessions(Time(), link=OneTimeToken(path), is_secure=True)
    assert sessions.follow("0123456789abcdef") is None
    cookie = sessions.follow("0123456789abcdef0123456789abcdef")
    assert cookie is not None
    assert cookie.endswith(b"Secure")
    assert not path.exists()
    assert sessions.follow("0123456789abcdef0123456789abcdef") is None


def test_a_token_logs_in_as_often_as_wanted_and_is_a_bearer_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    sessions = Sessions(Time(), link=OneTimeToken(), token=BearerToken(path))
    assert find(sessions, asking(authorization=b"Bearer " + TOKEN.encode()))
    assert not find(sessions, asking(authorization=b"Bearer another"))
    for _ in range(2):
        assert asyncio.run(sessions.log_in(f" {TOKEN}\n".replace("\n", " "))) is not None
    assert asyncio.run(sessions.log_in("another")) is None
    assert asyncio.run(sessions.log_in("with\nline")) is None
    assert asyncio.run(sessions.log_in("")) is None


def test_log_out_ends_the_session() -> None:
    link = OneTimeToken()
    sessions = Sessions(Time(), link=link)
    cookie = sessions.follow(link.token)
    assert cookie is not None
    scope = asking(cookie)
    session = asyncio.run(sessions.find(scope))
    assert session is not None
    assert sessions.is_open(session)
    assert b"Max-Age=0" in sessions.log_out(scope)
    assert not sessions.is_open(session)
    assert not find(sessions, scope)


def test_a_kubernetes_token_lasts_as_long_as_its_right() -> None:
    time = Time()
    allowed: dict[str, bool | Exception] = {"kate": True, "mallory": False}

    async def review(token: str) -> bool:
        answer = allowed.get(token, False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    sessions = Sessions(time, link=OneTimeToken(), review=review)
    assert asyncio.run(sessions.log_in("mallory")) is None
    cookie = asyncio.run(sessions.log_in("kate"))
    assert cookie is not None
    allowed["kate"] = Unavailable("the server is away")
    time.now_s += REVIEW_S
    assert find(sessions, asking(cookie))  # an outage ends no session
    allowed["kate"] = False
    assert find(sessions, asking(cookie))  # not asked again yet
    time.now_s += REVIEW_S
    assert not find(sessions, asking(cookie))


@pytest.mark.parametrize("given", ["kate", "a" * 16])
def test_without_review_a_kubernetes_token_is_refused(given: str) -> None:
    assert asyncio.run(Sessions(Time(), link=OneTimeToken()).log_in(given)) is None


def test_a_proxy_is_admitted_from_its_addresses_and_only_with_a_user() -> None:
    proxy = ProxyLogin.parse("X-Forwarded-User", "10.0.0.0/24, ::1")
    sessions = Sessions(Time(), link=OneTimeToken(), proxy=proxy)
    named = [(b"x-forwarded-user", b"kate@example.org")]
    for client, headers, expected in (
        (("10.0.0.9", 1), named, True),
        (("::1", 1), named, True),
        (("::ffff:10.0.0.9", 1), named, True),
        (("10.0.1.9", 1), named, False),
        (("10.0.0.9", 1), [(b"x-forwarded-user", b" ")], False),
        (("10.0.0.9", 1), [(b"x-forwarded-email", b"kate")], False),
        (("a name", 1), named, False),
        (None, named, False),
    ):
        assert find(sessions, {"client": client, "headers": headers}) is expected, (client, headers)
    assert not find(Sessions(Time(), link=OneTimeToken()), {"client": ("10.0.0.9", 1), "headers": named})


@pytest.mark.parametrize(
    ("name", "networks"),
    [("", "::1"), ("a b", "::1"), ("Cookie", "::1"), ("X-User", ""), ("X-User", "10.0.0.1/24"),
    ("X-User", "everywhere")]
)  # fmt: skip
def test_a_proxy_that_cannot_be_told_is_refused(name: str, networks: str) -> None:
    with pytest.raises(InvalidInput, match="--proxy"):
        ProxyLogin.parse(name, networks)


def test_a_viewers_own_token_sees_the_kinds_that_it_may_list() -> None:
    time = Time()
    may: dict[Right, bool | Exception] = {RIGHTS["moves"][0]: True}
    asked: list[Right] = []

    async def review(token: str) -> bool:
        return True

    async def may_list(token: str, right: Right) -> bool:
        asked.append(right)
        answer = may.get(right, False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    sessions = Sessions(time, link=OneTimeToken(), review=review, may_list=may_list)
    cookie = asyncio.run(sessions.log_in("kate"))
    session = asyncio.run(sessions.find(asking(cookie)))
    assert session is not None

    def sees(part: str) -> bool:
        return asyncio.run(sessions.may_list(session, RIGHTS[part][0]))

    assert [sees("moves"), sees("profiles"), sees("moves")] == [True, False, True]
    assert len(asked) == 2  # the answer is kept for a while
    time.now_s += REVIEW_S
    may = {RIGHTS["moves"][0]: Unavailable("away"), RIGHTS["profiles"][0]: Unavailable("away")}
    assert [sees("moves"), sees("profiles")] == [True, False]  # an outage changes nothing
    time.now_s += REVIEW_S
    may = {}
    assert not sees("moves")
    own = sessions.follow(sessions._link.token)
    console = asyncio.run(sessions.find(asking(own)))
    assert console is not None
    assert asyncio.run(sessions.may_list(console, RIGHTS["profiles"][0]))  # a session of the console's own link
