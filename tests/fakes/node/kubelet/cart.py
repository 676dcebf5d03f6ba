"""A small service for cases beside the kubelet: one thread, requests at random times, a span for each, sent by itself.

    python cart.py TRACES POD NAMESPACE SERVICE RATE WORK_MS STEPS

Only the standard library: it starts within the group of its container, where each import is paid for by the service.
The latency counts from the instant at which a request was due. A request waits for others between its steps, as most
do: after each wait it wants its CPU back at once.
"""

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection, HTTPException
from random import Random
from time import monotonic, sleep, thread_time, time_ns
from urllib.parse import urlsplit

FLUSH_S = 0.25
AWAY_S = 0.0002


def serve(traces: str, pod: str, namespace: str, service: str, rate: float, work_ms: float, steps: float) -> None:
    """Until it is killed."""
    random = Random(7)
    due = monotonic()
    spans: list[dict[str, object]] = []
    flushed = due
    while True:
        due += random.expovariate(rate)
        sleep(max(0.0, due - monotonic()))
        for _ in range(int(steps)):
            sleep(AWAY_S)
            stop = thread_time() + work_ms / steps / 1000
            while thread_time() < stop:
                pass
        now, end_ns = monotonic(), time_ns()
        spans.append(
            {
                "traceId": f"{random.getrandbits(128):032x}",
                "spanId": f"{random.getrandbits(64) | 1:016x}",
                "name": "GET /cart",
                "kind": 2,
                "startTimeUnixNano": str(end_ns - round((now - due) * 1e9)),
                "endTimeUnixNano": str(end_ns),
            }
        )
        if now - flushed >= FLUSH_S:
            flushed = now
            send(traces, {"service.name": service, "k8s.pod.name": pod, "k8s.namespace.name": namespace}, spans)
            spans = []


def send(traces: str, resource: dict[str, str], spans: list[dict[str, object]]) -> None:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in resource.items()]
    body = {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]}]}
    connection = HTTPConnection(urlsplit(traces).netloc, timeout=2)
    try:
        connection.request("POST", "/v1/traces", json.dumps(body), {"content-type": "application/json"})
        connection.getresponse().read()
    except (OSError, HTTPException):
        return  # a service goes on without them
    finally:
        connection.close()


if __name__ == "__main__":
    serve(*sys.argv[1:5], *map(float, sys.argv[5:8]))  # type: ignore[arg-type]
