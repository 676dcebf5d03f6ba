"""Approvals and undos against a server of the test, which keeps one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.autonomy.sizes import SizingClient

SIZE = {"cpuRequestM": 1000}
SUGGESTION = {"id": "abcdef12", "before": SIZE, "after": SIZE}
PATH = "/apis/slo.cotenant.io/v1alpha1/namespaces/shop/rightsizings/cart"


class Server(ThreadingHTTPServer):
    obj: dict[str, Any] | None = None
    more: Sequence[Any] = ()
    patches: list[Any]


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        obj = self.server.obj
        if obj is None or self.path not in (PATH, "/apis/slo.cotenant.io/v1alpha1/rightsizings"):
            self._answer(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"})
            return
        self._answer(200, obj if self.path == PATH else {"items": [*self.server.more, obj]})

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.patches.append((self.path, body))
        self._answer(200, self.server.obj or {})

    def _answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), _Handler) as found:
        found.patches = []
        thread = Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server, tmp_path: Path) -> SizingClient:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    return SizingClient(path)


def put(server: Server, mode: str = "approve", **status: Any) -> None:
    server.obj = {
        "metadata": {"name": "cart", "namespace": "shop", "uid": "u"},
        "spec": {"workload": {"name": "cart"}, "mode": mode},
        "status": status,
    }


@pytest.mark.parametrize("mode", ["approve", "earned"])
def test_an_approval_names_the_suggestion_that_stands(server: Server, client: SizingClient, mode: str) -> None:
    put(server, mode, suggestion=SUGGESTION)
    client.approve("shop/cart", "", "ada")
    assert server.patches == [(PATH, {"spec": {"approved": "abcdef12", "approvedBy": "ada"}})]


@pytest.mark.parametrize(
    ("mode", "status", "asked", "said"),
    [
        ("approve", {"suggestion": SUGGESTION}, "00000000", "it has abcdef12"),
        ("approve", {"state": "learning"}, "", "it has none"),
        ("suggest", {"suggestion": SUGGESTION}, "", "mode approve"),
    ],
)
def test_what_cannot_be_approved_is_refused(
    server: Server, client: SizingClient, mode: str, status: dict[str, Any], asked: str, said: str
) -> None:
    put(server, mode, **status)
    with pytest.raises(InvalidInput, match=said):
        client.approve("shop/cart", asked, "ada")
    assert server.patches == []


def test_the_last_change_is_taken_back_and_no_other(server: Server, client: SizingClient) -> None:
    put(server, applied=SUGGESTION)
    client.undo("shop/cart", "abcdef12")
    assert server.patches == [(PATH, {"spec": {"undo": "abcdef12"}})]
    with pytest.raises(InvalidInput, match="abcdef12 can be"):
        client.undo("shop/cart", "00000000")
    put(server)
    with pytest.raises(InvalidInput, match="nothing stands"):
        client.undo("shop/cart", "abcdef12")


def test_what_is_not_there_is_named(server: Server, client: SizingClient) -> None:
    with pytest.raises(Permanent, match="no kind RightSizing"):
        client.all()
    with pytest.raises(InvalidInput, match="a RightSizing"):
        client.undo("shop/cart", "abcdef12")
    with pytest.raises(InvalidInput, match="NAMESPACE/NAME"):
        client.undo("cart", "abcdef12")
    put(server)
    assert [sizing.key for sizing in client.all()] == ["shop/cart"]


def test_one_whose_status_is_not_ours_hides_no_other(server: Server, client: SizingClient) -> None:
    put(server)
    assert server.obj is not None
    server.more = [{"metadata": {"name": "lost", "namespace": "shop", "uid": "l"}, "status": {"receipts": "none"}}]
    assert [sizing.key for sizing in client.all()] == ["shop/cart"]
