"""Requests to one Prometheus: a limit of rate and of time, tenants by header, and the meaning of refusals.

Stores behind the same API fail differently: a query may be too large for a limit of the store (`TooMuch`: ask for
less), too slow (`Slow`: ask for less, or again), the server may be busy or away (`Transient`: again, later, which this
client does by itself), or refuse for good. A store that answers with a part only says so in a warning, which is
returned with the answer. Limits: a credential is a header that the caller gives; redirects are not followed with it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from cotenant.drivers.http.trust import TlsTrust
from cotenant.drivers.kube.client.limits import RequestLimiter
from cotenant.drivers.prometheus.answers import QueryAnswer, read_answer
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.urls import split_url

_TOO_MUCH = ("too many samples", "exceeded maximum resolution", "limit", "too large", "too long", "exceeds")
_SLOW = ("timed out", "timeout", "context deadline exceeded")
_MAX_BACK_OFF_S = 30.0
_MAX_BURST = 100


class TooMuch(Transient):
    """The store refuses a query of this size: a shorter range may pass."""


class Slow(Transient):
    """No answer in time: a shorter range may pass."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Where it is and how it may be asked. `url` is what stands before `/api/v1`."""

    url: str
    headers: Mapping[str, str] = field(
        default_factory=dict
    )  # such as X-Scope-OrgID (Mimir), THANOS-TENANT, Authorization
    qps: float = 5.0
    in_flight: int = 2
    timeout_s: float = 60.0  # of one request
    max_tries: int = 4
    ca_file: Path | None = None
    is_insecure: bool = False  # certificates are not verified

    def __post_init__(self) -> None:
        parts = split_url(self.url)
        if parts is None:
            raise InvalidInput("--prometheus", self.url, "a URL", "such as http://prometheus.monitoring:9090")
        if parts.query or parts.fragment:
            raise InvalidInput("--prometheus", self.url, "a URL without a query", "name what stands before /api/v1")
        for name, value in self.headers.items():
            if not (name and (name + value).isprintable()):
                raise InvalidInput(f"header {name}", "(not shown)", "one line of printable characters")
        if not self.qps > 0 or self.in_flight < 1:
            raise InvalidInput("--limit-qps", self.qps, "above 0, and at least one request at a time")
        if self.max_tries < 1 or self.timeout_s <= 0:
            raise InvalidInput("tries", self.max_tries, "1 or more, and a time above 0")


class PrometheusClient:
    """Queries. Use as an async context manager, or `close` it."""

    def __init__(
        self,
        prometheus: Prometheus,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.prometheus = prometheus
        self.requests = 0
        burst = max(1, int(min(prometheus.qps, _MAX_BURST)))
        self._limiter = RequestLimiter(prometheus.qps, burst, prometheus.in_flight, monotonic)
        self._sleep = sleep
        self._trust = TlsTrust(prometheus.ca_file, "--prometheus-ca-file")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def query(self, expression: str, at_s: float | None = None) -> QueryAnswer:
        """An instant query, now or at a time. Raises as `query_range` does."""
        when = {} if at_s is None else {"time": f"{at_s:.3f}"}
        return await self._ask("/api/v1/query", {"query": expression, **when})

    async def query_range(self, expression: str, start_s: float, end_s: float, step_s: float) -> QueryAnswer:
        """A range query, both ends included. Raises `TooMuch`, `Slow`, `Transient` after the last try, or
        `Permanent`.
        """
        times = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
        return await self._ask("/api/v1/query_range", {"query": expression, **times})

    async def _ask(self, path: str, query: Mapping[str, str]) -> QueryAnswer:
        """Tries again what may pass later, each time after a longer pause."""
        for tried in range(1, self.prometheus.max_tries + 1):
            await self._limiter.enter()
            try:
                return await self._once(path, query)
            except (TooMuch, Slow):
                raise
            except Transient as error:
                if tried == self.prometheus.max_tries:
                    raise
                pause_s = min(_MAX_BACK_OFF_S, max(error.retry_after_s, 0.5 * 2.0**tried))
            finally:
                self._limiter.leave()
            await self._sleep(pause_s)
        raise AssertionError("unreachable")

    async def _once(self, path: str, query: Mapping[str, str]) -> QueryAnswer:
        self.requests += 1
        url = self.prometheus.url.rstrip("/") + path
        try:
            async with self._opened().get(
                url, params=query, headers=self.prometheus.headers, ssl=self._tls(), allow_redirects=False
            ) as response:
                body = await response.read()
                if response.status != 200:
                    raise _refusal(response.status, body, response.headers.get("Retry-After", ""))
        except TimeoutError:
            raise Slow(f"no answer within {self.prometheus.timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            where = urlsplit(url).netloc.rpartition("@")[2]  # without a password
            raise Transient(f"{where}: {str(error) or type(error).__name__}") from None
        return read_answer(body)

    def _tls(self) -> ssl.SSLContext | bool:
        return False if self.prometheus.is_insecure else self._trust.context()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self.prometheus.timeout_s, sock_connect=10.0)
            self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


class _Refusal(msgspec.Struct):
    error: str = ""
    error_type: str = msgspec.field(name="errorType", default="")
    message: str = ""


def _refusal(status: int, body: bytes, retry_after: str) -> Exception:
    try:
        told = msgspec.json.decode(body, type=_Refusal)
        text = told.error or told.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told, text = _Refusal(), body[:200].decode(errors="replace").strip()
    said = f"status {status}: {text[:300]}" if text else f"status {status}"
    lowered = text.lower()
    if status in (401, 403):
        return Permanent(f"{said}; give the header with the credential or the tenant")
    if told.error_type == "timeout" or any(word in lowered for word in _SLOW):
        return Slow(said)
    if status == 413 or (status in (400, 422, 500) and any(word in lowered for word in _TOO_MUCH)):
        return TooMuch(said)
    if status == 429 or status >= 500:
        return Transient(said, float(retry_after) if retry_after.isdecimal() else 1.0)
    return Permanent(said)
