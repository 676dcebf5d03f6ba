"""A service that sends its spans with its own token: `burn/` in examples/README.md. Only the standard library.

Requests come at random times, RATE a second; each computes WORK_MS. Latency counts from the instant at which a request
was due. The kubelet renews the token: it is read again for each message, the authority for each connection.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from random import expovariate
from secrets import token_hex
from time import monotonic, sleep, thread_time, time_ns
from urllib.parse import urlsplit

RATE, WORK_MS = float(os.environ.get("RATE", "20")), float(os.environ.get("WORK_MS", "8"))
FLUSH_S = 0.5
RESOURCE = {
    "service.name": "cart",
    "k8s.namespace.name": os.environ["NAMESPACE"],
    "k8s.pod.name": os.environ["POD"],
}


def main() -> None:
    """Until it is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the first process of a container has no default for it
    due = flushed = monotonic()
    spans: list[dict[str, object]] = []
    said = ""
    traces = Traces()
    while True:
        due += expovariate(RATE)
        sleep(max(0.0, due - monotonic()))
        stop = thread_time() + WORK_MS / 1000
        while thread_time() < stop:
            pass
        now, end_ns = monotonic(), time_ns()
        spans.append(
            {
                "traceId": token_hex(16),  # no two processes the same: a span that is known already is not counted
                "spanId": token_hex(8),
                "name": "GET /cart",
                "kind": 2,  # SERVER
                "startTimeUnixNano": str(end_ns - round((now - due) * 1e9)),
                "endTimeUnixNano": str(end_ns),
            }
        )
        if now - flushed >= FLUSH_S:
            answer = traces.send(spans)
            if answer != said:
                print(answer, file=sys.stderr, flush=True)
            said, spans, flushed = answer, [], now


class Traces:
    """The trace process."""

    def __init__(self) -> None:
        self._connection: HTTPConnection | None = None

    def send(self, spans: list[dict[str, object]]) -> str:
        """What it answered, or why it did not: a service goes on without it."""
        attributes = [{"key": key, "value": {"stringValue": value}} for key, value in RESOURCE.items()]
        body = {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]}]}
        try:
            with open(os.environ["TOKEN_FILE"]) as file:
                headers = {"content-type": "application/json", "authorization": f"Bearer {file.read().strip()}"}
            self._connection = self._connection or self._opened()
            self._connection.request("POST", "/v1/traces", json.dumps(body), headers)
            response = self._connection.getresponse()
            response.read()
        except (OSError, HTTPException) as error:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return f"spans not sent: {error}"
        return f"spans: {response.status} {response.reason}"

    def _opened(self) -> HTTPConnection:
        place = urlsplit(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"])
        if place.scheme == "http":
            return HTTPConnection(place.hostname or "", place.port or 4318, timeout=2)
        trust = ssl.create_default_context(cafile=os.environ["OTEL_EXPORTER_OTLP_CERTIFICATE"])
        return HTTPSConnection(place.hostname or "", place.port or 4318, timeout=2, context=trust)


if __name__ == "__main__":
    main()
