"""Sending to a collector by OTLP/HTTP.

Source: opentelemetry-proto, docs/specification.md, "OTLP/HTTP Response": 429, 502, 503 and 504 are tried again.
"""

from __future__ import annotations

import aiohttp

from cotenant.model.errors import Permanent, Transient

JSON = "application/json"
_AGAIN = (429, 502, 503, 504)
_TIMEOUT_S = 10.0
_MAX_SAID = 300


class OtlpCollector:
    """One collector by its base URL. Close it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S))

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def send(self, path: str, body: bytes, content_type: str = JSON, content_encoding: str = "") -> None:
        """One request. Raises `Transient` where it is to be sent again, `Permanent` where the collector refuses it."""
        headers = {"Content-Type": content_type}
        if content_encoding:
            headers["Content-Encoding"] = content_encoding
        try:
            async with self._session.post(self.url + path, data=body, headers=headers) as answer:
                if answer.status < 300:
                    return
                said = " ".join((await answer.content.read(_MAX_SAID)).decode("utf-8", "replace").split())
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Transient(f"the collector at {self.url} does not answer: {error or type(error).__name__}") from error
        kind = Transient if answer.status in _AGAIN else Permanent
        raise kind(f"the collector at {self.url} answers {answer.status}: {said}")
