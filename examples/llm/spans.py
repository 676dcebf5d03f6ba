"""Spans of answered requests by OTLP/HTTP in JSON, without an SDK: a batch every half second.

OTEL_EXPORTER_OTLP_ENDPOINT says where they go; `POD_NAME` and `POD_NAMESPACE` are what Kubernetes' downward API sets.
A receiver that is away costs the batch.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from urllib.error import URLError
from urllib.request import Request as Post
from urllib.request import urlopen

from engine import Request

_EVERY_S = 0.5
_MOST_WAITING = 10_000
_SERVER = 2  # the kind of a span


class Spans:
    """What waits to be sent."""

    def __init__(self, model: str) -> None:
        endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
        self._model, self._url = model, endpoint.rstrip("/") + "/v1/traces"
        self._waiting: list[dict[str, object]] = []
        namespace = os.environ.get("POD_NAMESPACE", "shop")
        described = {
            "service.name": "llm",
            "service.namespace": os.environ.get("SERVICE_NAMESPACE", "shop"),
            "k8s.pod.name": os.environ.get("POD_NAME", "llm-0"),
            "k8s.namespace.name": namespace,
        }
        self._resource = {"attributes": [_attribute(key, value) for key, value in described.items()]}

    def add(self, request: Request, began_ns: int) -> None:
        """A finished request, with the convention's attributes and vLLM's."""
        attributes: dict[str, str | int | float] = {
            "gen_ai.request.model": self._model,
            "gen_ai.response.model": self._model,
            "gen_ai.usage.input_tokens": request.prompt_tokens,
            "gen_ai.usage.output_tokens": len(request.token_s),
            "gen_ai.latency.time_in_queue": request.begun_s - request.arrived_s,
            "gen_ai.latency.time_to_first_token": request.first_token_s,
        }
        ended_ns = began_ns + round((request.token_s[-1] - request.arrived_s) * 1e9)
        span = {
            "traceId": secrets.token_hex(16),
            "spanId": secrets.token_hex(8),
            "name": "llm_request",
            "kind": _SERVER,
            "startTimeUnixNano": str(began_ns),
            "endTimeUnixNano": str(ended_ns),
            "attributes": [_attribute(key, value) for key, value in attributes.items()],
        }
        if len(self._waiting) < _MOST_WAITING:
            self._waiting.append(span)

    async def run(self) -> None:
        """Send what waits, for ever."""
        while True:
            await asyncio.sleep(_EVERY_S)
            if self._waiting:
                spans, self._waiting = self._waiting, []
                await asyncio.to_thread(self._send, spans)

    def _send(self, spans: list[dict[str, object]]) -> None:
        scope = {"scope": {"name": "llm"}, "spans": spans}
        body = json.dumps({"resourceSpans": [{"resource": self._resource, "scopeSpans": [scope]}]}).encode()
        try:
            with urlopen(Post(self._url, body, {"Content-Type": "application/json"}), timeout=5):
                pass
        except (URLError, OSError):
            pass


def _attribute(key: str, value: str | int | float) -> dict[str, object]:
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}}
