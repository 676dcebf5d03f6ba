"""Requests and streams to one API server: connections, credentials, limits.

A scheduler's speed is bounded by the cost of a bind, and clients in general use spend more on models than on the wire.
Requests go over a pool of keep-alive connections (connections.py), streams and whatever needs a proxy over aiohttp; the
rate and the number of requests in flight are limited by the arguments of the constructor (limits.py). Every failure is
one of errors.py. Nothing is retried, except once after a 401 with a renewed credential, and a GET whose kept-alive
connection turned out to be closed.
Limits: HTTP/1.1; no compression (it costs more CPU than a local network saves); watches do not count as in flight.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from ssl import SSLContext
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.connections import ConnectionPool
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import StreamTimeout, Unauthorized, Unavailable, failure
from cotenant.drivers.kube.client.limits import RequestLimiter
from cotenant.drivers.kube.client.outage import Outage
from cotenant.model.errors import InvalidInput, Permanent

JSON = "application/json"

Body = bytes | msgspec.Struct | Mapping[str, object]

_log = logging.getLogger(__name__)
_SKIP = frozenset({"Accept-Encoding", "Accept", "User-Agent", "Content-Type"})
_BUFFER = 2**20  # bytes read ahead of a slow consumer of a stream
_CONNECT_S = 10.0


class Transport:
    """Requests to one API server. Use as an async context manager, or `close` it.

    `qps` and `burst` are the client-side rate in requests a second (inf = none), `in_flight` the requests at once,
    `timeout_s` the limit of one request from the first to the last byte. `read_only`: nothing but GET is ever sent.
    """

    def __init__(
        self,
        access: Access,
        *,
        qps: float,
        burst: int,
        in_flight: int,
        timeout_s: float = 30.0,
        user_agent: str = "cotenant",
        read_only: bool = False,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.access = access
        self.limiter = RequestLimiter(qps, burst, in_flight, monotonic)
        self.outage = Outage(access.server, monotonic)
        self._read_only = read_only
        self.requests = 0
        self.failures = 0
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=_CONNECT_S)
        self._now = now
        self._encoder = msgspec.json.Encoder()
        self._headers = [("Accept", JSON), ("User-Agent", user_agent), *access.headers]  # a name may come twice
        self._secure = access.server.startswith("https:")
        self._credential: Credential | None = None
        self._never_renews = isinstance(access.credentials, FixedCredential)
        self._sent: dict[str, list[tuple[str, str]]] = {}  # by content type: headers of the current credential
        self._heads: dict[str, bytes] = {}  # the same, encoded
        self._connections: ConnectionPool | None = None
        parts = urlsplit(access.server)
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._secure else 80)
        self._base, self._netloc = parts.path, parts.netloc.rpartition("@")[2]
        self._ssl: SSLContext | bool = True
        self._session: aiohttp.ClientSession | None = None
        _log.info("client of %s: at most %g requests/s (burst %d), %d in flight", access.server, qps, burst, in_flight)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests and streams in flight fail."""
        if self._connections is not None:
            self._connections.close()
            self._connections = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def request(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """One request; returns the answer's body. Raises one of errors.py, `Permanent` where it would write and this
        client only reads.
        """
        if self._read_only and method != "GET":
            raise Permanent(f"{method} {path}: this process only reads")
        data = None if body is None else body if isinstance(body, bytes) else self._encoder.encode(body)
        target = f"{path}?{urlencode(query)}" if query else path
        exchange = self._by_proxy if self.access.proxy else self._exchange
        await self.limiter.enter()
        try:
            credential = await self._authenticate()
            try:
                return await exchange(method, target, data, content_type)
            except Unauthorized:
                if not await self._reauthenticate(credential):
                    raise
                return await exchange(method, target, data, content_type)
        finally:
            self.limiter.leave()

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, silence_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A GET with an endless answer: yields its chunks, cut anywhere. `StreamTimeout` after `silence_s` without
        data.
        """
        await self.limiter.pace()
        credential = await self._authenticate()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        url = self._url(path, query)
        response = await self._open(url, path, timeout)
        if response.status == 401 and await self._reauthenticate(credential):
            response.release()
            response = await self._open(url, path, timeout)
        async with response:
            if response.status >= 300:
                body = b"".join([chunk async for chunk in self._chunks(response, path, silence_s)])
                raise self._failed(response.status, body, response.headers, "GET", path)
            _keep_alive(response)
            yield self._chunks(response, path, silence_s)

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        text = f"{self.access.server}{path}"
        return URL(f"{text}?{urlencode(query)}" if query else text, encoded=True)

    async def _authenticate(self) -> Credential:
        """The credential to use now, with headers and TLS settings made for it."""
        if self._never_renews and self._credential is not None:
            return self._credential
        source, now_s = self.access.credentials, self._now()
        credential = source.current(now_s) or await source.renew(now_s)
        if credential is not self._credential and credential != self._credential:
            self._sent.clear()
            self._heads.clear()
            if self._secure and (self._credential is None or credential.certificate != self._credential.certificate):
                self._ssl = self.access.ssl_context(credential.certificate) or True
                if self._connections is not None:
                    self._connections.retire()
                    self._connections = None
            self._credential = credential
        return credential

    async def _reauthenticate(self, refused: Credential) -> bool:
        """Whether there is another credential than the one refused."""
        self.access.credentials.reject(refused)
        return await self._authenticate() != refused

    def _headers_for(self, content_type: str) -> list[tuple[str, str]]:
        headers = self._sent.get(content_type)
        if headers is None:
            headers = list(self._headers)
            if self._credential is not None and self._credential.authorization:
                headers.append(("Authorization", self._credential.authorization))
            if content_type:
                headers.append(("Content-Type", content_type))
            self._sent[content_type] = headers
        return headers

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The limiter counts requests in flight; a limit of the connector would also count watches.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0, ttl_dns_cache=60)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_SKIP,
                auto_decompress=False,
                read_bufsize=_BUFFER,
            )
        return self._session

    async def _exchange(self, method: str, target: str, data: bytes | None, content_type: str) -> bytes:
        self.requests += 1
        if self._connections is None:
            tls = self._ssl if isinstance(self._ssl, SSLContext) else None
            self._connections = ConnectionPool(
                self._host, self._port, tls, self.access.server_name, self._timeout.total or inf
            )
        head = self._head_for(content_type if data is not None else "")
        try:
            answer = await self._connections.exchange(method, self._base + target, head, data)
        except Unavailable as error:
            self.failures += 1
            self.outage.failed(error)
            raise
        self.outage.answered()
        if answer.status < 300:
            return answer.body
        headers = {"Retry-After": answer.retry_after} if answer.retry_after else {}
        raise self._failed(answer.status, answer.body, headers, method, target)

    async def _by_proxy(self, method: str, target: str, data: bytes | None, content_type: str) -> bytes:
        self.requests += 1
        try:
            async with self._connected().request(
                method,
                self._url(target, None),
                data=data,
                headers=self._headers_for(content_type if data is not None else ""),
                ssl=self._ssl,
                server_hostname=self.access.server_name or None,
                proxy=self.access.proxy,
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                body = await response.read()
                self.outage.answered()
                if response.status < 300:
                    return body
                raise self._failed(response.status, body, response.headers, method, target)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.failures += 1
            unsent = isinstance(error, aiohttp.ClientConnectorError)
            raise self._cut(f"{method} {target}", error, maybe_done=method != "GET" and not unsent) from error

    def _head_for(self, content_type: str) -> bytes:
        """The encoded headers, made once for each credential and content type."""
        head = self._heads.get(content_type)
        if head is None:
            headers = [("Host", self._netloc), *self._headers_for(content_type)]
            for name, value in headers:
                if not (name + value).isprintable():
                    raise InvalidInput(f"header {name}", "(not shown)", "one line of printable characters")
            head = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
            self._heads[content_type] = head
        return head

    async def _open(self, url: URL, path: str, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        self.requests += 1
        try:
            response = await self._connected().get(
                url,
                headers=self._headers_for(""),
                ssl=self._ssl,
                server_hostname=self.access.server_name or None,
                proxy=self.access.proxy or None,
                timeout=timeout,
                allow_redirects=False,
            )
        except aiohttp.SocketTimeoutError as error:
            raise StreamTimeout(f"GET {path}: no answer within {timeout.sock_read:g} s") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.failures += 1
            raise self._cut(f"GET {path}", error, maybe_done=False) from error
        self.outage.answered()
        return response

    async def _chunks(self, response: aiohttp.ClientResponse, path: str, silence_s: float) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except aiohttp.SocketTimeoutError as error:
            raise StreamTimeout(f"GET {path}: nothing for {silence_s:g} s") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.failures += 1
            raise self._cut(f"GET {path}", error, maybe_done=False) from error

    def _failed(self, code: int, body: bytes, headers: Mapping[str, str], method: str, path: str) -> Exception:
        self.failures += 1
        if code < 400:
            raise InvalidInput("server", f"{self.access.server} ({code})", "an API server that does not redirect")
        return failure(code, body, headers, f"{method} {path}")

    def _cut(self, doing: str, error: Exception, maybe_done: bool) -> Unavailable:
        made = Unavailable(f"{doing}: {str(error) or type(error).__name__}", maybe_done=maybe_done)
        self.outage.failed(made)
        return made


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """Have the kernel notice within about a minute that the other end has vanished: a watch itself may rightly be
    silent.
    """
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        return
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
