"""The console of `cotenant up`: its link logs in once, it shows the cluster, and its port is kept or refused in one
line.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.e2e.running import Up, eventually, run
from tests.fakes.waiting import patience

pytestmark = pytest.mark.slow


def ask(url: str, path: str, **headers: str) -> tuple[int, http.client.HTTPResponse, bytes]:
    """One request."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=patience(20))
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer, answer.read()
    finally:
        connection.close()


def printed(up: Up) -> str:
    """The link in the output."""
    found = re.search(r"console: (\S+)", up.said)
    assert found is not None, up.said
    return found[1]


def test_the_printed_link_shows_the_cluster_and_the_port_is_kept(tmp_path: Path) -> None:
    with Up(tmp_path / "up", "--nodes", 3, "--ephemeral", console=True) as up:
        up.ready()
        link = printed(up)
        status, answer, _ = ask(link, f"{urlsplit(link).path}?{urlsplit(link).query}")
        assert status == 303
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        assert ask(link, f"{urlsplit(link).path}?{urlsplit(link).query}")[1].headers["Location"] == "/login?used"
        token = (up.directory / "console-token").read_text().strip()
        assert ask(link, "/api/state", Authorization=f"Bearer {token}")[0] == 200

        def totals() -> dict[str, float]:
            state = json.loads(ask(link, "/api/state", Cookie=cookie)[2])
            sources = state["sources"]
            is_complete = all(sources.get(name, {}).get("ok") for name in ("cluster", "use", "scheduler"))
            return state["totals"] if is_complete else {}

        assert eventually("every source answers", totals)["nodes"] == 3
        assert ask(link, "/api/machines", Cookie=cookie)[2][:4] == b"CTM1"
        assert b"<script" in ask(link, "/", Cookie=cookie)[2]
        for name in ("console-token", "console-login"):
            assert not (up.directory / name).exists() or (up.directory / name).stat().st_mode & 0o077 == 0
    assert (tmp_path / "up" / "console-port").read_text().strip() == str(urlsplit(link).port)


def test_a_console_port_in_use_is_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("up", "--dir", tmp_path / "up", "--nodes", 1, "--ephemeral", "--console-port", port)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--console-port" in done.stderr
    assert "a free port" in done.stderr
