"""The console over HTTP: nothing without a session, the same security headers everywhere, and answers of others
passed on.
"""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.fakes.processes.console_world import TOKEN, ConsoleWorld, explained
from tests.fakes.waiting import patience

from cotenant.cli.main import main
from cotenant.services.console.access import Right
from cotenant.services.console.app import POLICY

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    path = tmp_path_factory.mktemp("console") / "token"
    path.write_text(TOKEN)
    pages = {
        "/debug/explain/pods/default/p": explained("default/p"),
        "/debug/reports": {"node-a": {"ageS": 1.0, "cpuUsed": 0.5, "memoryUsed": 0.25, "violation": 0.5}},
        "/api/v1/graph": [],
        "/credit/v1/tenants/a b": {"tenant": "a b", "balance_milli": 5, "standing": 0, "entries": []},
    }
    with ConsoleWorld(pages=pages, token_file=path) as running:
        running.do(lambda: running.api.node("node-a"))
        running.do(lambda: running.api.pod("p", on="node-a"))
        running.do(lambda: running.api.pod("q", cpu="64"))
        running.wait(lambda: len(running.process.fleet.pods) == 2 and not running.process.fleet.has_changes)
        running.wait(lambda: running.process.fleet.totals().burning == 1)
        yield running


def ask(
    world: ConsoleWorld, path: str, method: str = "GET", body: bytes = b"", **headers: str
) -> tuple[int, http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=patience(20))
    try:
        connection.request(method, path, body or None, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer, answer.read()
    finally:
        connection.close()


def read(world: ConsoleWorld, path: str) -> Any:
    status, _, body = ask(world, path, **BEARER)
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize(
    "path", ["/", "/assets/console.js", "/api/machines", "/api/events", "/api/state", "/api/pods", "/nothing"]
)
def test_without_a_session_there_is_only_the_log_in(world: ConsoleWorld, path: str) -> None:
    status, answer, body = ask(world, path)
    assert status == (401 if path.startswith("/api/") else 303)
    assert b"node-a" not in body
    assert answer.headers["Content-Security-Policy"] == POLICY.decode()


@pytest.mark.parametrize("path", ["/login", "/", "/assets/console.css", "/api/state", "/nothing", "/healthz"])
def test_every_answer_has_the_security_headers(world: ConsoleWorld, path: str) -> None:
    _, answer, _ = ask(world, path, **BEARER)
    assert "'unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(world: ConsoleWorld, method: str) -> None:
    assert ask(world, "/api/pods", method, **BEARER)[0] == 405


def test_the_link_logs_in_once_and_the_form_with_the_token(world: ConsoleWorld) -> None:
    token = world.process.login.token
    status, answer, _ = ask(world, f"/login?token={token}")
    assert (status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert ask(world, "/api/state", Cookie=cookie)[0] == 200
    assert ask(world, f"/login?token={token}")[1].headers["Location"] == "/login?used"
    again = ask(world, f"/login?token={token}", Cookie=cookie)[1]  # in the browser that is logged in
    assert (again.headers["Location"], again.headers["Set-Cookie"]) == ("/", None)
    status, answer, _ = ask(world, "/login", "POST", b"token=wrong")
    assert answer.headers["Location"] == "/login?refused"
    status, answer, _ = ask(world, "/login", "POST", f"token={TOKEN}".encode())
    assert answer.headers["Location"] == "/"
    assert ask(world, "/login", "POST", f"token={TOKEN}".encode(), Sec_Fetch_Site="cross-site")[0] == 403
    status, answer, _ = ask(world, "/logout", "POST", Cookie=cookie)
    assert status == 303
    assert ask(world, "/api/state", Cookie=cookie)[0] == 401


def test_a_viewers_own_token_gets_the_parts_that_it_may_list(world: ConsoleWorld) -> None:
    sessions = world.process.sessions

    async def may_list(token: str, right: Right) -> bool:
        return (token, right.resource) == ("kate", "podmigrationjobs")

    before, sessions._may_list = sessions._may_list, may_list
    cookie = world.do(lambda: sessions._begin("kate")).decode().partition(";")[0]
    assert ask(world, "/api/moves", Cookie=cookie)[0] == 200
    status, _, body = ask(world, "/api/profiles", Cookie=cookie)
    assert (status, b"may not list workloadprofiles" in body) == (403, True)
    assert ask(world, "/api/profiles", **BEARER)[0] == 200
    sessions._may_list = before


def test_the_snapshot_is_sent_once(world: ConsoleWorld) -> None:
    status, answer, body = ask(world, "/api/machines", **BEARER)
    assert (status, body[:4]) == (200, b"CTM1")
    assert ask(world, "/api/machines", If_None_Match=answer.headers["ETag"], **BEARER)[0] == 304
    status, packed, data = ask(world, "/api/machines", Accept_Encoding="gzip", **BEARER)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(data)[:4] == b"CTM1"
    status, _, page = ask(world, "/", **BEARER)
    assert b"<script" in page


def test_pods_are_found_and_pending_ones_come_first(world: ConsoleWorld) -> None:
    assert [entry["pod"] for entry in read(world, "/api/pods")["pods"]] == ["default/q", "default/p"]
    assert read(world, "/api/pods?state=pending")["count"] == 1
    assert read(world, "/api/pods?q=node-a")["pods"][0]["pod"] == "default/p"
    assert ask(world, "/api/pods?state=mad", **BEARER)[0] == 400
    for limit in ("0", "9" * 5000):
        assert ask(world, f"/api/pods?limit={limit}", **BEARER)[0] == 400
    assert read(world, "/api/pods/default/p")["cpu"] == 1000
    assert ask(world, "/api/pods/default/none", **BEARER)[0] == 404


def test_a_node_has_its_pods_and_what_was_reported(world: ConsoleWorld) -> None:
    page = read(world, "/api/nodes/node-a")
    assert [entry["pod"] for entry in page["pods"]] == ["default/p"]
    assert page["columns"][2] == 2000  # half of 4 CPUs, by the scheduler's report
    assert page["columns"][8] == 500
    assert ask(world, "/api/nodes/none", **BEARER)[0] == 404
    assert read(world, "/api/nodes/node-a/lent")["node"] == "node-a"
    assert ask(world, "/api/nodes/none/lent", **BEARER)[0] == 404


def test_questions_reach_the_scheduler_unchanged_and_only_those_of_the_list(world: ConsoleWorld) -> None:
    assert read(world, "/api/scheduler/pod/default/p")["headline"] == "it is on node-a"
    read(world, "/api/scheduler/pod/default/p?if=cpu%3D2%2Cnode%3Da")
    assert "/debug/explain/pods/default/p?if=cpu%3D2%2Cnode%3Da" in [
        name.replace("=cpu=", "=cpu%3D").replace(",", "%2C").replace("node=a", "node%3Da") for name in world.asked
    ]
    status, _, body = ask(world, "/api/scheduler/pod/default/none", **BEARER)
    assert (status, json.loads(body)["source"]) == (404, "scheduler")
    assert read(world, "/api/scheduler/cpus/node-a") is None  # the node reports no topology
    assert read(world, "/api/traces/graph") == []
    for path in (
        "scheduler/flags",
        "scheduler/pod/a",
        "scheduler/pod/a/b/c",
        "traces/secrets",
        "scheduler/node/..%2F..%2Fdebug",
    ):
        before = len(world.asked)
        status = ask(world, f"/api/{path}", **BEARER)[0]
        assert status == 404
        assert all("/debug/flags" not in name for name in world.asked[before:])


def test_the_account_book_is_passed_on(world: ConsoleWorld) -> None:
    assert read(world, "/api/credit/tenants/a%20b?limit=7")["balance_milli"] == 5
    assert "/credit/v1/tenants/a b?limit=7" in world.asked
    assert ask(world, "/api/credit/entries", **BEARER)[0] == 404  # this one has no such page
    assert world.asked[-1] == "/credit/v1/entries?newest=1&limit=100"
    for path, status in (("tenants?limit=0", 400), ("incidents", 404), ("tenants/a/b", 404)):
        before = len(world.asked)
        assert ask(world, f"/api/credit/{path}", **BEARER)[0] == status
        assert all("/credit" not in name for name in world.asked[before:])


def test_curves_and_snapshots_of_the_last_hour(world: ConsoleWorld) -> None:
    found = read(world, "/api/history")
    assert len(found["snapshots"]) >= 1
    assert len(found["curves"]["at"]) == len(found["curves"]["used"]) >= 1
    status, _, body = ask(world, f"/api/machines/at/{found['snapshots'][0]}", **BEARER)
    assert (status, body[:4]) == (200, b"CTM1")
    assert ask(world, "/api/machines/at/noon", **BEARER)[0] == 400


def test_metrics_count_viewers_and_sources(world: ConsoleWorld) -> None:
    text = ask(world, "/metrics")[2].decode()
    assert "cotenant_console_viewers 0.0" in text
    assert 'cotenant_console_source_up{source="cluster"} 1.0' in text


def test_a_cluster_without_a_scheduler_or_measurements_is_shown_and_said() -> None:
    with ConsoleWorld(has_sources=False) as world:
        world.do(lambda: world.api.node("a"))
        world.wait(lambda: "use" in world.process.sources.view() and "scheduler" in world.process.sources.view())
        view = world.do(world.process.sources.view)
        assert (view["cluster"]["ok"], view["scheduler"]["ok"], view["use"]["ok"]) == (True, False, False)
        assert "metrics-server" in str(view["use"]["why"])
        connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=patience(20))
        connection.request("GET", f"/login?token={world.process.login.token}")
        cookie = str(connection.getresponse().headers["Set-Cookie"]).partition(";")[0]
        status, _, body = ask(world, "/api/credit/tenants", Cookie=cookie)
        assert (status, "--credit URL" in body.decode()) == (404, True)
        connection.close()


def test_a_used_port_is_one_line(world: ConsoleWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config"
    config.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "a"}}],
                "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
            }
        )
    )
    listen = urlsplit(world.url).netloc
    assert main(["console", "--kubeconfig", str(config), "--listen", listen]) == 2
    error = capsys.readouterr().err
    assert "--listen" in error or "listen address" in error
    assert "Address already in use" in error
    assert main(["console", "--kubeconfig", str(config), "--listen", "0.0.0.0:0"]) == 2
    assert "--tls-cert" in capsys.readouterr().err


def test_a_file_of_the_page_is_sent_once_and_packed_where_it_may_be(world: ConsoleWorld) -> None:
    status, plain, body = ask(world, "/assets/console.js", **BEARER)
    assert (status, plain.headers["Content-Encoding"]) == (200, None)
    assert plain.headers["Content-Type"] == "text/javascript; charset=utf-8"
    status, packed, data = ask(world, "/assets/console.js", Accept_Encoding="gzip, br", **BEARER)
    assert (packed.headers["Content-Encoding"], gzip.decompress(data)) == ("gzip", body)
    tag = plain.headers["ETag"]
    assert ask(world, "/assets/console.js", If_None_Match=tag, **BEARER)[::2] == (304, b"")
    assert ask(world, "/assets/console.js", If_None_Match='"old"', **BEARER)[0] == 200
    assert tag != ask(world, "/", **BEARER)[1].headers["ETag"]
    assert ask(world, "/assets/none.js", **BEARER)[0] == 404


def test_the_head_of_a_page_is_that_of_the_page(world: ConsoleWorld) -> None:
    for path in ("/", "/api/machines", "/api/state"):
        status, answer, body = ask(world, path, "HEAD", **BEARER)
        assert (status, body) == (200, b"")
        assert answer.headers["Content-Security-Policy"]


def test_without_a_session_the_log_in_has_its_files_and_nothing_more(world: ConsoleWorld) -> None:
    for path in ("/login", "/assets/login.css", "/assets/login.js", "/assets/icon.svg"):
        assert ask(world, path)[0] == 200
    status, answer, _ = ask(world, "/assets/console.css")
    assert (status, answer.headers["Location"], answer.headers["Cache-Control"]) == (303, "/login", "no-store")
    assert ask(world, "/login", "DELETE")[0] == 405
    assert ask(world, "/login", "DELETE")[1].headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_form_of_this_site_is_taken(world: ConsoleWorld, site: str) -> None:
    status, answer, _ = ask(world, "/login", "POST", f"token={TOKEN}".encode(), Sec_Fetch_Site=site)
    assert (status, answer.headers["Location"]) == (303, "/")
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("body", [b"", b"\xff", b"token=&a=1&b=2&c=3&d=4&e=5", b"other=1"])
def test_a_form_without_a_token_is_refused(world: ConsoleWorld, body: bytes) -> None:
    assert ask(world, "/login", "POST", body)[1].headers["Location"] == "/login?refused"


def test_a_form_that_is_too_large_is_not_read(world: ConsoleWorld) -> None:
    assert ask(world, "/login", "POST", b"token=" + b"a" * (16 << 10))[0] == 413
    assert ask(world, "/login", "POST", b"token=" + b"a" * ((16 << 10) - 6))[0] == 303


def test_a_past_snapshot_is_packed_where_it_may_be(world: ConsoleWorld) -> None:
    path = f"/api/machines/at/{read(world, '/api/history')['snapshots'][0]}"
    _, plain, body = ask(world, path, **BEARER)
    assert (plain.headers["Content-Encoding"], plain.headers["Cache-Control"]) == (None, "no-store")
    _, packed, data = ask(world, path, Accept_Encoding="gzip", **BEARER)
    assert (packed.headers["Content-Encoding"], gzip.decompress(data)) == ("gzip", body)
    assert packed.headers["Cache-Control"] == "no-store"
    assert ask(world, "/api/state", **BEARER)[1].headers["Cache-Control"] == "no-store"
