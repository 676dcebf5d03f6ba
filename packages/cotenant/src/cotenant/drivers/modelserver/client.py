"""Asking a model server for its metrics: one request, a bounded answer, within a bounded time.

A server under test may answer slowly, without end, compressed to a thousandth, or with a redirection to somewhere else.
A token goes nowhere else, since no redirection is followed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from cotenant.drivers.http.trust import TlsTrust
from cotenant.drivers.modelserver.access import PLAIN, ScrapeAccess
from cotenant.drivers.modelserver.exposition import MAX_BYTES, read_exposition
from cotenant.model.errors import InvalidInput, Transient
from cotenant.model.traces.model_server import ModelServerReading

TIMEOUT_S = 2.0
_CHUNK = 64 << 10
_HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}


class ModelServerClient:
    """Asks any number of servers, each by its URL. Close it."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None
        self._trust: dict[Path | None, TlsTrust] = {}

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, url: str, access: ScrapeAccess = PLAIN) -> ModelServerReading:
        """What it says now. Raises `Transient` where it does not answer, `InvalidInput` where its answer cannot be
        used.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                text = await self._text(url, access)
        except TimeoutError:
            raise Transient(f"no whole answer within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Transient(" ".join((str(error) or type(error).__name__).split())[:200]) from None
        # parsing 8 MiB takes long enough to be felt by whatever else the loop does
        return await asyncio.to_thread(read_exposition, text)

    async def _text(self, url: str, access: ScrapeAccess) -> str:
        trust = self._trust.setdefault(access.ca_file, TlsTrust(access.ca_file, "caFile"))
        headers = {**_HEADERS, "Authorization": f"Bearer {token}"} if (token := access.token()) else _HEADERS
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)
        async with self._session.get(
            url,
            headers=headers,
            allow_redirects=False,
            ssl=trust.context(),
            server_hostname=access.server_name or None,
        ) as answer:
            if answer.status != 200:
                raise Transient(f"status {answer.status}")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                encoding = answer.headers["Content-Encoding"][:40]
                raise InvalidInput("/metrics", encoding, "an answer that is not compressed")
            parts, size = [], 0
            while part := await answer.content.read(_CHUNK):
                size += len(part)
                if size > MAX_BYTES:
                    raise InvalidInput("/metrics", f"more than {MAX_BYTES} bytes", f"at most {MAX_BYTES}")
                parts.append(part)
            return b"".join(parts).decode("utf-8", "replace")
