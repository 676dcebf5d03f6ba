"""A question to a scheduler's debug API: which scheduler it goes to, and what each answer means."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.services.clients import scheduler
from cotenant.services.clients.scheduler import PodNotKnown, Scheduler, find, quoted
from cotenant.services.clients.scheduler_address import DEFAULT_URL, URL_FILE

SHADOW = b'{"status": 1}'
TOKEN = "0123456789abcdef0123456789abcdef"


class Answering(BaseHTTPRequestHandler):
    """Answers by the path, and keeps what was asked."""

    asked: list[tuple[str, str]]
    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        status, body = self.answers.get(self.path.partition("?")[0], (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[tuple[str, type[Answering]]]:
    handler = type("Handler", (Answering,), {"asked": [], "answers": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}", handler
        found.shutdown()
        thread.join()


def test_a_pods_name_and_suppositions_are_quoted_and_the_token_is_sent(server: Any) -> None:
    url, handler = server
    handler.answers["/at/debug/explain/pods/a%2Fb/c%20d"] = (200, b"{}")
    with pytest.raises(Permanent, match="answered what this version cannot read"):
        Scheduler(f"{url}/at/", "secret").pod("a/b", "c d", ["cpu=1 2", "node=n"])
    assert handler.asked == [("/at/debug/explain/pods/a%2Fb/c%20d?if=cpu%3D1+2&if=node%3Dn", "Bearer secret")]
    handler.answers["/x"] = (200, b"body")
    assert Scheduler(url).get("/x") == b"body"
    assert handler.asked[-1] == ("/x", "")
    assert quoted("a/b") == "a%2Fb"


def test_a_concern_is_read(server: Any) -> None:
    url, handler = server
    handler.answers["/debug/gang"] = (
        200,
        b'{"kind": "gang", "name": "g", "holds": true, "words": "w", "lines": ["l"]}',
    )
    found = Scheduler(url).concern("/debug/gang")
    assert (found.kind, found.name, found.holds) == ("gang", "g", True)


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (404, b"no pod a/b", PodNotKnown, "no pod a/b"),
        (404, b"", PodNotKnown, "has no such page"),
        (403, b"wrong token", Permanent, "wrong token; --token-file names a file with the token"),
        (400, b"if: x: expected y", InvalidInput, "if: x: expected y"),
        (400, b"strange", InvalidInput, "strange"),
        (500, b"x" * 400, Permanent, "answered 500: " + "x" * 300),
    ],
)
def test_what_an_answer_means(server: Any, status: int, body: bytes, error: type[Exception], said: str) -> None:
    url, handler = server
    handler.answers["/x"] = (status, body)
    with pytest.raises(error) as found:
        Scheduler(url).get("/x")
    assert type(found.value) is error
    assert said in str(found.value)
    assert "x" * 301 not in str(found.value)


def test_one_that_is_no_shadow_says_how_to_start_one(server: Any) -> None:
    url, handler = server
    with pytest.raises(PodNotKnown, match="is no shadow: `cotenant scheduler --shadow` starts one"):
        Scheduler(url).shadow(5)
    assert handler.asked == [("/debug/shadow?last=5", "")]


@pytest.mark.parametrize(("status", "is_there"), [(200, True), (503, True), (404, False), (500, False)])
def test_a_scheduler_is_there_where_it_tells_its_health(server: Any, status: int, is_there: bool) -> None:
    url, handler = server
    handler.answers["/healthz"] = (status, b"")
    assert Scheduler(url).is_there() is is_there


def test_nobody_and_no_url_are_told_apart(server: Any) -> None:
    nobody = Scheduler("http://127.0.0.1:1")
    assert not nobody.is_there()
    with pytest.raises(Transient, match=r"no scheduler answers at http://127\.0\.0\.1:1 \(Connection refused\)"):
        nobody.get("/x")
    for wrong in ("ftp://a", "127.0.0.1:80", "http://"):
        assert not Scheduler(wrong).is_there()
        with pytest.raises(InvalidInput, match="--scheduler"):
            Scheduler(wrong).get("/x")


# ---- which one


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The URLs at which a scheduler answers."""
    found: set[str] = set()
    monkeypatch.setattr(scheduler.Scheduler, "is_there", lambda self: self.url in found)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return found


def test_the_one_that_is_named_is_asked_with_the_token(there: set[str], tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    there.add(DEFAULT_URL)
    assert find("http://a:1/", tmp_path / "token", tmp_path) == Scheduler("http://a:1", TOKEN)
    assert find("http://a:1", None, tmp_path) == Scheduler("http://a:1")


def test_else_the_one_beside_the_kubeconfig_in_use(
    there: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside, up = tmp_path / "beside", tmp_path / "up"
    for folder, url in ((beside, "http://beside:1"), (up, "http://up:1")):
        folder.mkdir()
        (folder / URL_FILE).write_text(f"{url}\n")
    there |= {DEFAULT_URL, "http://up:1"}
    monkeypatch.setenv("KUBECONFIG", f":{tmp_path / 'none' / 'config'}:{beside / 'config'}")
    assert find("", None, up).url == "http://beside:1"


def test_else_the_one_that_answers_and_of_two_neither(there: set[str], tmp_path: Path) -> None:
    assert find("", None, tmp_path).url == DEFAULT_URL  # nobody answers: the error will name it
    (tmp_path / URL_FILE).write_text("http://up:1")
    assert find("", None, tmp_path).url == "http://up:1"
    there.add(DEFAULT_URL)
    assert find("", None, tmp_path).url == DEFAULT_URL
    there.add("http://up:1")
    with pytest.raises(InvalidInput, match="several schedulers answer") as found:
        find("", None, tmp_path)
    assert f"http://up:1 and {DEFAULT_URL}" in str(found.value)
    (tmp_path / URL_FILE).write_text(DEFAULT_URL)
    assert find("", None, tmp_path).url == DEFAULT_URL  # one and the same
    (tmp_path / URL_FILE).write_bytes(b"\xff")
    assert find("", None, tmp_path).url == DEFAULT_URL
