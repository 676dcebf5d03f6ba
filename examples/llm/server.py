"""A stand-in for a model server: vLLM's names in /metrics, a span of each request with GenAI attributes.

python examples/llm/server.py 127.0.0.1:8000
curl '127.0.0.1:8000/v1/completions?prompt_tokens=200&max_tokens=40'
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
import time
from urllib.parse import parse_qs, urlsplit

from engine import Costs, Engine, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from spans import Spans

MODEL = "stand-in"
_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_WHOLE = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0)
_MOST_TOKENS = 10_000


class Metrics:
    """What a vLLM shows, as far as the stand-in has it."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        labels = {"model_name": MODEL, "engine": "0"}

        def histogram(name: str, edges: tuple[float, ...]) -> Histogram:
            return Histogram(name, name, list(labels), buckets=edges, registry=self.registry).labels(**labels)

        self._first = histogram("vllm:time_to_first_token_seconds", _FIRST)
        self._per_token = histogram("vllm:request_time_per_output_token_seconds", _TOKEN)
        self._gap = histogram("vllm:inter_token_latency_seconds", _TOKEN)
        self._queue = histogram("vllm:request_queue_time_seconds", _WHOLE)
        self._whole = histogram("vllm:e2e_request_latency_seconds", _WHOLE)
        self._tokens = Counter("vllm:generation_tokens", "Tokens.", list(labels), registry=self.registry).labels(
            **labels
        )
        for name, queue in (("running", engine.running), ("waiting", engine.waiting)):
            gauge = Gauge(f"vllm:num_requests_{name}", f"Requests {name}.", list(labels), registry=self.registry)
            gauge.labels(**labels).set_function(lambda queue=queue: len(queue))

    def first(self, request: Request) -> None:
        """A request has its first token: it counts then, as a vLLM's does, and not when the last is made."""
        self._first.observe(request.first_token_s)

    def observe(self, request: Request) -> None:
        """A finished request."""
        self._queue.observe(request.begun_s - request.arrived_s)
        self._whole.observe(request.token_s[-1] - request.arrived_s)
        if len(request.token_s) > 1:
            self._per_token.observe(request.per_token_s)
        for earlier, later in itertools.pairwise(request.token_s):
            self._gap.observe(later - earlier)
        self._tokens.inc(len(request.token_s))


async def serve(address: str) -> None:
    """For ever."""
    engine, spans = Engine(Costs()), Spans(MODEL)
    metrics = Metrics(engine)
    engine.first_token = metrics.first

    async def answer(path: str, query: dict[str, list[str]]) -> tuple[int, bytes]:
        if path == "/ready":
            return 200, b"ready\n"
        if path == "/metrics":
            return 200, generate_latest(metrics.registry)
        if path != "/v1/completions":
            return 404, b"not found\n"
        try:
            prompt, most = (int(query.get(name, ["100"])[0]) for name in ("prompt_tokens", "max_tokens"))
        except ValueError:
            prompt = most = 0
        if not (0 < prompt <= _MOST_TOKENS and 0 < most <= _MOST_TOKENS):
            return 400, b"prompt_tokens and max_tokens: 1 to 10000\n"
        began_ns = time.time_ns()
        request = await engine.answer(prompt, most)
        metrics.observe(request)
        spans.add(request, began_ns)
        made = {"model": MODEL, "first_token_ms": round(1000 * request.first_token_s, 1), "tokens": most}
        return 200, json.dumps(made).encode() + b"\n"

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                parts = urlsplit(head.split(" ")[1])
                status, body = await answer(parts.path, parse_qs(parts.query))
                writer.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, IndexError):
            pass
        finally:
            writer.close()

    host, _, port = address.rpartition(":")
    server = await asyncio.start_server(connected, host, int(port))
    print(f"llm: http://{host}:{server.sockets[0].getsockname()[1]}", flush=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run())
        group.create_task(spans.run())
        group.create_task(server.serve_forever())


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8000"))
