"""A trace process that serves in a thread, with a clock that a test sets."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.fakes.servers.spans import EPOCH_S
from tests.fakes.waiting import patience

from cotenant.services.traces import traces_process
from cotenant.services.traces.traces_arguments import TraceSettings
from cotenant.services.traces.traces_process import serve

PROTOBUF = "application/x-protobuf"


@dataclass
class Clock:
    """Unix seconds that a test sets."""

    now_s: float = float(EPOCH_S + 10)

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Running:
    """A process that serves in a thread."""

    settings: TraceSettings
    clock: Clock = field(default_factory=Clock)
    url: str = ""
    grpc_address: str = ""

    def __enter__(self) -> Running:
        usual = TraceSettings()
        taken = {self.settings.http, self.settings.grpc} & {usual.http, usual.grpc}
        assert not taken, f"another worker's process may have {taken}: port 0, or free_port()"
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(patience(120))
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(patience(20))
        assert not self._thread.is_alive()

    def post(self, body: bytes, content_type: str = PROTOBUF, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        return self.ask("POST", "/v1/traces", body, {"Content-Type": content_type, **headers})

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=patience(20))
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        found = answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()}
        connection.close()
        return found

    def finish(self) -> None:
        """Let the time pass in which traces are finished."""
        self.clock.now_s += 20
        while json.loads(self.ask("GET", "/api/v1/traces")[1])["kept"] == 0:
            pass

    def _run(self) -> None:
        async def work() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()

            def listening(at: traces_process.ListeningAddresses) -> None:
                self.url, self.grpc_address, self.jaeger_udp = at.url, at.grpc, at.jaeger_udp
                self._loop.call_soon(self._ready.set)

            await serve(self.settings, self._stop, listening, self.clock)

        try:
            asyncio.run(work())
        except BaseException as failure:
            self._failure = failure
            self._ready.set()
