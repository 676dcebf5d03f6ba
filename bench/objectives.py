"""Cost of objectives in the trace engine, and how long a replica's figures take to its agent.

    python -m bench.objectives

Prints CPU time a span with and without objectives, at 512 spans a batch, and the time from the acceptance of an export
request to the line in the agent: the real server, stream and client in one process on loopback.
"""

from __future__ import annotations

import asyncio
import time

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.otlp.decoding import decode_protobuf
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.traces.objective import ServiceObjective
from cotenant.services.agent.trace_link import TraceLink
from cotenant.services.reporting.signals import SignalLine
from cotenant.services.traces.app import TracesApp
from cotenant.services.traces.metrics import TraceMetrics

SPANS, BATCHES, HOPS = 512, 100, 60
_random = np.random.default_rng(1)


def body(spans: int, pod: str = "cart-1") -> bytes:
    """An export request."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    described = {"service.name": "cart", "service.namespace": "shop", "k8s.pod.name": pod}
    for key, value in described.items():
        of_resource.resource.attributes.add(key=key).value.string_value = value
    scope, now_ns = of_resource.scope_spans.add(), time.time_ns()
    for _ in range(spans):
        span = scope.spans.add(name="GET /cart", kind=2)
        span.trace_id, span.span_id = _random.bytes(16), _random.bytes(8)
        span.start_time_unix_nano, span.end_time_unix_nano = now_ns - int(_random.exponential(2e7)), now_ns
    return request.SerializeToString()


def cost(objectives: int) -> float:
    """CPU microseconds a span, counted by so many objectives of the service."""
    engine, best = TraceEngine(time.time(), span_tags), float("inf")
    for number in range(objectives):
        engine.objectives.set(
            ServiceObjective(f"shop/{number}", "shop", "cart", threshold_us=20_000 + number), time.time()
        )
    batches = [decode_protobuf(body(SPANS)) for _ in range(BATCHES)]
    for batch in batches[:3]:
        engine.add(batch, time.time())
    for first in range(3, BATCHES, 16):
        some = batches[first : first + 16]
        began = time.process_time()
        for batch in some:
            engine.add(batch, time.time())
        best = min(best, (time.process_time() - began) / (len(some) * SPANS))
    return best * 1e6


async def hops() -> list[float]:
    """Seconds from the acceptance of a request to the agent's line with it."""
    engine = TraceEngine(time.time(), span_tags)
    engine.objectives.set(ServiceObjective("shop/cart", "shop", "cart", threshold_us=20_000), time.time())
    app = TracesApp(engine, TraceMetrics(engine), time.time)
    server = HttpServer(app, Address.parse("--http", "127.0.0.1:0"))
    await server.start()
    link, came = TraceLink(server.url, "n"), dict[str, float]()
    some = asyncio.Event()

    def take(line: SignalLine) -> None:
        for signal in line.signals:
            came.setdefault(signal.pod, time.monotonic())
        some.set()

    tasks = [
        asyncio.create_task(link.run(lambda: [(f"shop/cart-{number}", "") for number in range(HOPS)], take)),
        asyncio.create_task(app.streams.run()),
    ]
    await asyncio.sleep(1.0)
    found: list[float] = []
    for number in range(HOPS):
        await asyncio.sleep(float(_random.uniform(0.02, 0.3)))
        request, began = body(20, f"cart-{number}"), time.monotonic()
        await app.export(request, "bench")
        while f"shop/cart-{number}" not in came:
            some.clear()
            await some.wait()
        found.append(came[f"shop/cart-{number}"] - began)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await link.close()
    app.streams.close()
    await server.stop()
    return found


def main() -> None:
    """Print the figures."""
    for number in (0, 1, 3):
        print(f"{number} objectives: {cost(number):.2f} us of CPU a span, {SPANS} spans a batch, counting only")
    seen = sorted(asyncio.run(hops()))
    print(f"hop: median {1e3 * seen[len(seen) // 2]:.0f} ms, longest of {len(seen)}: {1e3 * seen[-1]:.0f} ms")


if __name__ == "__main__":
    main()
