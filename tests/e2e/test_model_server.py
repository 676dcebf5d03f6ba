"""The stand-in of examples/llm, as it is, under the trace process: each request counts once, from /metrics and from
spans alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.fakes.servers.ports import free_port
from tests.fakes.servers.trace_process import Running
from tests.fakes.waiting import becomes, eventually, patience

from cotenant.services.traces.model_servers import reading_servers
from cotenant.services.traces.traces_arguments import TraceSettings

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.slow


@pytest.fixture
def stand_in() -> Iterator[Callable[[str], str]]:
    started: list[subprocess.Popen[bytes]] = []
    address = f"127.0.0.1:{free_port()}"

    def start(traces: str) -> str:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": traces}
        command = [sys.executable, str(EXAMPLES / "llm" / "server.py"), address]
        started.append(subprocess.Popen(command, env=environment))
        url = f"http://{address}"
        eventually("the stand-in", lambda: answer(f"{url}/ready"), tolerated=(OSError,))
        return url

    start.address = address  # type: ignore[attr-defined]
    yield start
    for process in started:
        process.terminate()
        process.wait(patience(20))


def answer(url: str) -> bytes:
    with urlopen(url, timeout=patience(20)) as found:
        body: bytes = found.read()
        return body


def test_requests_count_once_from_metrics_and_from_spans(
    stand_in: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_servers, "PERIOD_S", 0.1)
    servers = tmp_path / "servers.yaml"
    address = stand_in.address  # type: ignore[attr-defined]
    servers.write_text(f"servers: [{{service: shop/llm, url: 'http://{address}/metrics', pod: llm-0}}]")
    settings = TraceSettings(
        http="127.0.0.1:0", grpc="", objectives=EXAMPLES / "17-model-server.yaml", model_servers=servers
    )
    with Running(settings) as running:
        running.clock.now_s = time.time()  # the stand-in's spans are of now
        url = stand_in(running.url)

        def page() -> str:
            return running.ask("GET", "/metrics")[1].decode()

        eventually("a reading", lambda: 'cotenant_model_server_running{pod="llm-0"' in page())
        running.clock.now_s = time.time()  # to start it may have taken long
        for number in range(5):
            told = json.loads(answer(f"{url}/v1/completions?prompt_tokens=20&max_tokens={3 + number}"))
            assert told["tokens"] == 3 + number

        def requests() -> dict[str, int]:
            running.clock.now_s = time.time()  # which may have been late
            views = [running.ask("GET", f"/api/v1/objectives/shop/{name}")[1] for name in names]
            return {name: json.loads(view)["requests"] for name, view in zip(names, views, strict=True)}

        names = ("llm-first-token", "llm-queue", "llm-goodput")
        becomes("every objective", requests, dict.fromkeys(names, 5))
