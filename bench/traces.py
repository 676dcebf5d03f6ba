"""The cost of spans: decoding and the trace engine, by the size of a request, in microseconds of one core's time a
span; then memory at a steady rate.

A request has whole traces of ten spans over four services, with ten attributes a span. `--rate` spans a second are put
through decoding and an engine for `--seconds` of its own time, as fast as they can be, with `--series` operations: the
CPU time a span of everything but the transport, the longest tick, the largest resident size. Medians of the repeats;
demand is synthetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from random import Random
from time import process_time
from typing import Any

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from bench.machine import cpu_seconds, peak_memory_mib, show
from cotenant.drivers.otlp import protobuf
from cotenant.drivers.otlp.decoding import decode_protobuf
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TABLES, TraceEngine
from cotenant.model.traces.spans import SpanKind

NOW_S = 1_800_000_000
SERVICES = ("web", "cart", "stock", "mail")
ATTRIBUTES = 10
SIZES = (1, 8, 64, 512)
_SERVER, _CLIENT, _INTERNAL = SpanKind.SERVER, SpanKind.CLIENT, SpanKind.INTERNAL
# service, parent, kind, name, start and end as shares of the request
_TRACE = (
    (0, -1, _SERVER, "GET /", 0.0, 1.0),
    (0, 0, _INTERNAL, "render", 0.9, 1.0),
    (0, 0, _CLIENT, "call cart", 0.1, 0.9),
    (1, 2, _SERVER, "POST /cart", 0.15, 0.85),
    (1, 3, _CLIENT, "query", 0.2, 0.3),
    (1, 3, _CLIENT, "query", 0.3, 0.4),
    (1, 3, _CLIENT, "call stock", 0.4, 0.6),
    (2, 6, _SERVER, "GET /stock", 0.45, 0.55),
    (1, 3, _CLIENT, "call mail", 0.6, 0.8),
    (3, 8, _SERVER, "POST /mail", 0.62, 0.78),
)


def request(spans: int, random: Random, series: int = len(_TRACE)) -> bytes:
    """A request of so many spans. Names are spread over `series` operations."""
    made = ExportTraceServiceRequest()
    scopes: list[ScopeSpans] = []
    shop = random.randrange(max(1, series // 2000))  # a service may have 500 operations
    for service_name in SERVICES:
        of_resource = made.resource_spans.add()
        for key in ("service.name", "k8s.node.name", "k8s.pod.uid"):
            of_resource.resource.attributes.add(key=key).value.string_value = f"{service_name}-{shop}"
        scopes.append(of_resource.scope_spans.add())
    ids: list[bytes] = []
    trace, start, duration = b"", 0, 0
    for number in range(spans):
        place = number % len(_TRACE)
        if place == 0:
            ids = [random.randbytes(8) for _ in _TRACE]
            trace, start = random.randbytes(16), random.randrange(10**9)
            duration = int(random.expovariate(1 / 2e7)) + 10**6
        service, parent, kind, name, begin, end = _TRACE[place]
        span = scopes[service].spans.add(trace_id=trace, span_id=ids[place], kind=int(kind))
        span.name = f"{name} {random.randrange(max(1, min(series, 2000) // len(_TRACE)))}"
        span.parent_span_id = ids[parent] if parent >= 0 else b""
        span.start_time_unix_nano = NOW_S * 10**9 + start + int(duration * begin)
        span.end_time_unix_nano = NOW_S * 10**9 + start + int(duration * end)
        for index in range(ATTRIBUTES):
            span.attributes.add(key=f"attribute.{index}").value.string_value = f"value-{random.randrange(10**8)}"
    return made.SerializeToString()


def decoding(repeats: int) -> list[dict[str, Any]]:
    """One row a size of request: the library, what `decode_protobuf` chooses, and with the engine's part at arrival."""
    rows = []
    for size in SIZES:
        body, rounds = request(size, Random(size)), max(1, 2048 // size)
        engine, another = TraceEngine(NOW_S, span_tags), count(1)

        def library(body: bytes = body, rounds: int = rounds) -> None:
            for _ in range(rounds):
                protobuf.decode(body)

        def chosen(body: bytes = body, rounds: int = rounds) -> None:
            for _ in range(rounds):
                decode_protobuf(body)

        def counted(
            body: bytes = body, rounds: int = rounds, engine: TraceEngine = engine, another: Iterator[int] = another
        ) -> None:
            for _ in range(rounds):
                batch = decode_protobuf(body)
                batch.columns.trace_low[:] += np.uint64(next(another))  # another trace: a repeated one is not counted
                engine.add(batch, NOW_S)

        row: dict[str, Any] = {"part": "arrival", "batch": size, "bytes_a_span": round(len(body) / size)}
        for name, work in (("library_us", library), ("decoded_us", chosen), ("counted_us", counted)):
            work()
            row[name] = round(1e6 * float(np.median([cpu_seconds(work) for _ in range(repeats)])) / rounds / size, 2)
        rows.append(row)
    return rows


def steady(rate: int, seconds: int, series: int) -> dict[str, Any]:
    """Decoding, counting and assembly of a steady stream; ids are made new for each request."""
    bodies = [request(512, Random(number), series) for number in range(40)]
    engine = TraceEngine(NOW_S, span_tags)
    engine.add(decode_protobuf(bodies[0]), NOW_S)
    engine.finish_all(NOW_S)  # compiled
    engine = TraceEngine(NOW_S, span_tags)
    sent, longest_s, requests = 0, 0.0, round(rate / 512)
    began_s = process_time()
    for second in range(seconds):
        now_s = NOW_S + second + 1.0
        for number in range(requests):
            batch = decode_protobuf(bodies[(second * requests + number) % len(bodies)])
            batch.columns.trace_low[:] += np.uint64(second * requests + number)  # another trace
            sent += engine.add(batch, NOW_S + second + number / requests).accepted
        longest_s = max(longest_s, *(cpu_seconds(partial(engine.tick_next, now_s)) for _ in range(TABLES)))
    return {
        "part": "steady",
        "batch": 512,
        "spans": sent,
        "operations": len(engine.operations),
        "whole_us": round(1e6 * (process_time() - began_s) / sent, 2),
        "longest_tick_ms": round(1e3 * longest_s),
        "open_spans": engine.open_spans,
        "peak_mib": round(peak_memory_mib()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rate", type=int, default=50_000, help="spans a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--series", type=int, default=10_000, help="operations")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    show([*decoding(asked.repeats), steady(asked.rate, asked.seconds, asked.series)], asked.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
