"""`cotenant explain service`: the agents' answers as text and JSON, and agents that do not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from cotenant.cli.main import main

STORY = {
    "node": "n1",
    "service": "shop/web",
    "text": ["service shop/web: replicas shop/web-0", "  recovery  after 4.0 s"],
}


class _Agent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = parse_qs(urlsplit(self.path).query).get("service")
        body = json.dumps(STORY if asked == ["shop/web"] else {"error": f"unknown service {asked}"}).encode()
        self.send_response(200 if asked == ["shop/web"] else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def agent() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Agent)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_chain_of_every_node_that_knows_the_service_is_printed(
    agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "service", "shop/web", "--agent", agent, "--agent", "127.0.0.1:1"]) == 0
    out = capsys.readouterr().out
    assert "node n1" in out
    assert "recovery  after 4.0 s" in out
    assert "no agent answers at 127.0.0.1:1" in out


def test_the_answers_are_one_json_object(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "service", "shop/web", "--agent", agent, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"service": "shop/web", "nodes": [STORY], "failures": []}


def test_a_service_that_no_agent_knows_is_an_error(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "service", "web", "--agent", agent]) == 1
    assert "unknown service ['default/web']" in capsys.readouterr().err
    assert main(["explain", "service", "/", "--agent", agent]) == 2
