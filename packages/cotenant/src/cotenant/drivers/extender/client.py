"""HTTP to one extender: connections of its own, a limit of time and of size.

An answer has at most what was asked and a reason for each node, so more than that is not read.
"""

from __future__ import annotations

import os
import ssl
from tempfile import TemporaryDirectory

import aiohttp

from cotenant.drivers.http.trust import trusting
from cotenant.model.cluster.extender import Extender, ExtenderTls
from cotenant.model.errors import InvalidInput, Permanent, Transient

_CONNECTIONS = 16  # at a time; a slow extender holds up questions to itself only
_BEYOND_BYTES = 1 << 20


class ExtenderClient:
    """Calls one extender. Close it."""

    def __init__(self, extender: Extender) -> None:
        """Raises `InvalidInput` for certificates that cannot be used."""
        self.extender = extender
        self._tls = _context(extender.tls, extender.url)
        self._server_name = (extender.tls.server_name or None) if extender.tls is not None else None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, verb: str, body: bytes) -> bytes:
        """The answer to a POST. Raises `Transient` without one in time, `Permanent` for another status than 200, or
        for too long an answer.
        """
        limit = 2 * len(body) + _BEYOND_BYTES
        timeout_s = self.extender.timeout_s
        try:
            async with self._open().post(
                self.extender.address(verb),
                data=body,
                headers={"Content-Type": "application/json"},
                server_hostname=self._server_name,
            ) as answer:
                if answer.status != 200:
                    raise Permanent(f"{verb}: status {answer.status}")
                return await _read(answer.content, limit, verb)
        except TimeoutError:
            raise Transient(f"{verb}: no answer within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Transient(f"{verb}: {error or type(error).__name__}") from None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=True if self._tls is None else self._tls),
                timeout=aiohttp.ClientTimeout(total=self.extender.timeout_s),
            )
        return self._session


async def _read(content: aiohttp.StreamReader, limit: int, verb: str) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        size += len(part)
        if size > limit:
            raise Permanent(f"{verb}: its answer is longer than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _context(tls: ExtenderTls | None, url: str) -> ssl.SSLContext | None:
    if tls is None:
        return None
    try:
        context = trusting(tls.authorities.decode() if tls.authorities else None)
        if tls.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if tls.certificate:
            with TemporaryDirectory() as folder:  # the standard library reads them from files only
                _load(context, tls, folder)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise InvalidInput(f"extender {url}: tlsConfig", "its certificates", "PEM", str(error)) from None
    return context


def _load(context: ssl.SSLContext, tls: ExtenderTls, folder: str) -> None:
    certificate, key = f"{folder}/tls.crt", f"{folder}/tls.key"
    for path, content in ((certificate, tls.certificate), (key, tls.key)):
        with open(path, "xb", opener=_private) as file:
            file.write(content)
    context.load_cert_chain(certificate, key)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
