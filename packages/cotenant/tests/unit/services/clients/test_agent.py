"""The client's results: an answer, a refusal, and no running agent."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.services.clients.agent import AgentClient


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {
            "/v1/state": (200, b'{"mode": "act"}'),
            "/v1/explain?group=a%2Fb%20c": (200, b'{"asked": "a/b c"}'),
            "/healthz": (200, b"ok\n"),
            "/v1/list": (200, b"[1]"),
        }
        self._say(*answers.get(self.path, (404, b'{"error": "unknown workload x"}')))

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._say(204, b"") if told == {"requests": 1} else self._say(422, b'{"error": "requests: refused"}')

    def _say(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def client(tmp_path: Path) -> Iterator[AgentClient]:
    path = tmp_path / "agent.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield AgentClient(f"unix:{path}")
        server.shutdown()
        thread.join()


def test_answers_are_objects_and_queries_are_quoted(client: AgentClient) -> None:
    assert client.get("/v1/state") == {"mode": "act"}
    assert client.get("/v1/explain", group="a/b c") == {"asked": "a/b c"}
    assert client.is_healthy()


def test_a_refusal_has_the_agents_message(client: AgentClient) -> None:
    with pytest.raises(Permanent, match="404: unknown workload x"):
        client.get("/v1/explain", group="x")
    client.post("/v1/latency", {"requests": 1})
    with pytest.raises(Permanent, match="422: requests: refused"):
        client.post("/v1/latency", {"requests": -1})


def test_an_answer_that_is_not_an_object_is_refused(client: AgentClient) -> None:
    with pytest.raises(Permanent, match="not a JSON object"):
        client.get("/v1/list")


def test_a_missing_agent_is_transient(tmp_path: Path) -> None:
    nobody = AgentClient(f"unix:{tmp_path / 'none.sock'}")
    with pytest.raises(Transient, match="no agent answers"):
        nobody.get("/v1/state")
    assert not nobody.is_healthy()


@pytest.mark.parametrize("listen", ["", "localhost", "host:port", "a b:80", "localhost:99999", "\u00fc" * 80 + ":80"])
def test_a_malformed_address_is_refused(listen: str) -> None:
    with pytest.raises(InvalidInput, match="--agent"):
        AgentClient(listen).get("/v1/state")
