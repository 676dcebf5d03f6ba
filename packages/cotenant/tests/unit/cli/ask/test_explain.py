"""`cotenant explain` in process: tables of a hundred columns, valid JSON, one line for every error."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.fakes.cluster.questions import carry_out, cluster, node, pod

from cotenant.cli.ask import explain_showing
from cotenant.cli.main import main
from cotenant.engine.cluster import Cluster
from cotenant.model.decisions.answers import Concern, PodAnswer, WhatIf
from cotenant.services.clients import scheduler as asking


class Scheduler:
    """Answers like a scheduler's debug API, for a cluster of the test."""

    def __init__(self, c: Cluster) -> None:
        self.cluster = c
        self.refuses = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = outer.answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def answer(self, target: str, authorization: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        if parts.path == "/healthz":
            return 200, b"ok\n"
        if self.refuses and authorization != f"Bearer {self.refuses}":
            return 403, b"only callers on this machine\n"
        if parts.path == "/debug/explain/quotas/team-a":
            concern = Concern("quota", "team-a", False, "may use 10 of 20 cpu", ("start 5", "shared 5"))
            return 200, msgspec.json.encode(concern)
        if not parts.path.startswith("/debug/explain/pods/"):
            return 404, b"there is no such page\n"
        key = parts.path.removeprefix("/debug/explain/pods/")
        answer = self.cluster.why.pod(key, 5.0, WhatIf.parse(parse_qs(parts.query).get("if", [])))
        return (200, msgspec.json.encode(answer)) if answer is not None else (404, f"pod {key} is not known\n".encode())


@pytest.fixture
def served() -> Iterator[Scheduler]:
    c = cluster(
        node("a-node-with-a-rather-long-name.region-1.compute.internal", 3800),
        node("b", 2000),
        node("c", 8000, ready=False),
        profile_name="cotenant-requests",
    )
    c.pod_seen(pod("low", 500, on="b"), 0.0)
    c.pod_seen(pod("small", 500), 0.0)
    c.pod_seen(pod("large", 4000, memory=100), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    scheduler = Scheduler(c)
    yield scheduler
    scheduler.server.shutdown()
    scheduler.server.server_close()


def output(capsys: pytest.CaptureFixture[str]) -> str:
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100, out
    return " ".join(out.split())


def only_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_a_waiting_pod_is_explained_as_text(served: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "large", "--scheduler", served.url]) == 0
    text = output(capsys)
    assert text.startswith("default/large: it waits: 0/3 nodes are available: 1 node(s) were not ready")
    assert "It requests 4 cpu, 100Mi memory; priority 0; state queued." in text
    assert "2 NodeResourcesFit Insufficient cpu" in text
    assert "nearest: 1 node fits but for " in text
    assert "what would help: - wait for nodes to be ready: c fits then - ask for " in text
    assert (
        "next attempt: when a node has room and labels for it, at 00:05:00Z at the latest (state: unschedulable)"
        in text
    )
    assert "history: 00:00:00Z seen" in text


def test_a_placed_pod_has_scores_with_their_terms(served: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "default/small", "--scheduler", served.url]) == 0
    text = output(capsys)
    assert "(current)" in text
    assert "decided at 00:00:00Z by cotenant-requests, 3 nodes considered" in text
    assert "now, without the pod itself, best first: node score services own batch strand packing spread" in text
    assert "is ahead of" in text or "have equal scores" in text


def test_what_if_and_a_question_about_a_node(served: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--if", "cpu=100m", "--if", "node=c"]
    assert main(["explain", "pod", "large", "--scheduler", served.url, *words]) == 0
    text = output(capsys)
    assert text.startswith("default/large: with cpu 100m, 2 of 3 nodes would take it, ")
    assert "c rejects it: refused by because lacking" in text
    assert "NodeReady node(s) were not ready or unschedulable" in text


def test_json_is_one_object(served: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "large", "--scheduler", served.url, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["pod"], answer["waiting"]["passing"]) == ("default/large", 0)
    assert main(["explain", "quota", "team-a", "--scheduler", served.url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == ["start 5", "shared 5"]


def test_a_quota_is_explained_term_by_term(served: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "quota", "team-a", "--scheduler", served.url]) == 0
    assert output(capsys) == "quota team-a: may use 10 of 20 cpu start 5 shared 5"


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("pod", "nobody"), 1, "pod default/nobody is not known"),
        (("pod", "a/b/c"), 2, "name: a/b/c: expected NAMESPACE/NAME"),
        (("pod", "large", "--if", "cpu"), 2, "--if: cpu: expected NAME=VALUE"),
        (("pod", "large", "--if", "node=z"), 1, ""),
        (
            ("pod", "large", "--kubeconfig", "/nowhere", "--if", "cpu=1"),
            2,
            "--if: cpu=1: expected not together with --kubeconfig",
        ),
        (("pod", "large", "--kubeconfig", "/nowhere"), 2, "--scheduler: "),
        (("gang", "x"), 1, "there is no such page"),
        (("pod", "large", "--token-file", "/nowhere"), 2, "--token-file: /nowhere: expected a readable file"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], status: int, text: str, served: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    if "node=z" in arguments:
        served.answer = lambda *_: (400, b"--if node: z: expected a node that this scheduler knows\n")  # type: ignore[method-assign]
        status, text = 2, "--if node: z: expected a node that this scheduler knows"
    url = () if "--if" in arguments and "--kubeconfig" in arguments else ("--scheduler", served.url)
    assert main(["explain", *arguments, *url]) == status
    assert text in only_line(capsys)


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://", "http://127.0.0.1:port"])
def test_a_scheduler_is_a_url(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "x", "--scheduler", url]) == 2
    assert "--scheduler: " in only_line(capsys)


def test_no_scheduler_gives_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(asking, "DEFAULT_URL", "http://127.0.0.1:1")
    assert main(["explain", "pod", "x"]) == 1
    text = only_line(capsys)
    assert "no scheduler answers at http://127.0.0.1:1" in text
    assert "--scheduler" in text
    assert "--kubeconfig" in text


def test_the_scheduler_is_found(
    served: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(asking, "DEFAULT_URL", served.url)
    assert main(["explain", "pod", "large"]) == 0  # the default port
    other = Scheduler(cluster(node("a")))
    up = tmp_path / "cotenant" / "up"
    up.mkdir(parents=True)
    (up / asking.URL_FILE).write_text(f"{other.url}\n")
    capsys.readouterr()
    assert main(["explain", "pod", "large"]) == 2
    assert f"--scheduler: {other.url} and {served.url}: expected one of them; several schedulers answer" in only_line(
        capsys
    )
    monkeypatch.setenv("KUBECONFIG", str(up / "kubeconfig"))
    assert main(["explain", "pod", "large"]) == 1  # the one beside the kubeconfig has no such pod
    assert "pod default/large is not known" in only_line(capsys)
    other.server.shutdown()
    other.server.server_close()


def test_a_token_is_sent(served: Scheduler, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served.refuses = "a-secret-of-the-operators"
    assert main(["explain", "pod", "large", "--scheduler", served.url]) == 1
    assert "only callers on this machine; --token-file names a file" in only_line(capsys)
    (tmp_path / "token").write_text(served.refuses)
    assert main(["explain", "pod", "large", "--scheduler", served.url, "--token-file", str(tmp_path / "token")]) == 0


def test_of_a_pod_that_is_gone_only_why_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    headline = "it is gone: evicted from n0 for default/high 12 s ago (lower priority)"
    explain_showing._print_answer(PodAnswer("default/low", "", 12.0, "gone", headline, priority=0, requests=()))
    text = output(capsys)
    assert text.startswith(f"default/low: {headline}")
    assert "requests" not in text
