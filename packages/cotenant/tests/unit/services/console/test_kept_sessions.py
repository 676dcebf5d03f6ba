"""Sessions that outlive a restart of the console, by a file that makes nobody a session."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from cotenant.drivers.http.tokens import BearerToken
from cotenant.services.console.access import SESSION_S, OneTimeToken, Sessions
from cotenant.services.console.kept_sessions import KeptSessions

from .test_access import TOKEN, Time, asking, find


@pytest.fixture
def kept(tmp_path: Path) -> KeptSessions:
    (tmp_path / "token").write_text(TOKEN)
    return KeptSessions(tmp_path / "sessions")


def started(kept: KeptSessions, time: Time, tmp_path: Path) -> Sessions:
    async def review(token: str) -> bool:
        return True

    token = BearerToken(tmp_path / "token")
    return Sessions(time, link=OneTimeToken(), token=token, review=review, kept=kept)


def test_a_session_goes_on_after_a_restart_until_its_end(kept: KeptSessions, tmp_path: Path) -> None:
    time = Time()
    cookie = asyncio.run(started(kept, time, tmp_path).log_in(TOKEN))
    assert cookie is not None
    again = started(kept, time, tmp_path)
    assert find(again, asking(cookie))
    time.now_s += SESSION_S
    assert not find(again, asking(cookie))
    assert not find(started(kept, time, tmp_path), asking(cookie))


def test_a_session_that_was_ended_stays_so(kept: KeptSessions, tmp_path: Path) -> None:
    time = Time()
    first = started(kept, time, tmp_path)
    cookie = asyncio.run(first.log_in(TOKEN))
    first.log_out(asking(cookie))
    assert not find(started(kept, time, tmp_path), asking(cookie))


def test_a_kubernetes_token_is_not_kept_and_neither_is_a_cookie(kept: KeptSessions, tmp_path: Path) -> None:
    time = Time()
    first = started(kept, time, tmp_path)
    cookies = [asyncio.run(first.log_in(name)) for name in (TOKEN, "a-kubernetes-token")]
    text = (tmp_path / "sessions").read_text()
    assert all(cookie is not None for cookie in cookies)
    for cookie in cookies:
        assert (cookie or b"").partition(b"=")[2].partition(b";")[0].decode() not in text
    assert "a-kubernetes-token" not in text
    assert stat.S_IMODE((tmp_path / "sessions").stat().st_mode) == 0o600
    again = started(kept, time, tmp_path)
    assert [find(again, asking(cookie)) for cookie in cookies] == [True, False]


@pytest.mark.parametrize("text", ["", "[]", '{"a": "b"}'])
def test_a_damaged_file_costs_the_sessions_only(kept: KeptSessions, tmp_path: Path, text: str) -> None:
    (tmp_path / "sessions").write_text(text)
    time = Time()
    again = started(kept, time, tmp_path)
    cookie = asyncio.run(again.log_in(TOKEN))
    assert find(started(kept, time, tmp_path), asking(cookie))


def test_a_file_that_cannot_be_written_costs_the_sessions_only(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    time = Time()
    sessions = started(KeptSessions(tmp_path / "none" / "sessions"), time, tmp_path)
    assert find(sessions, asking(asyncio.run(sessions.log_in(TOKEN))))
