"""Posts reports to their receivers: the same for a node's agent and for simulated nodes.

A receiver may be away, slow, hanging or may refuse, and the sender must know which, because only some of that passes.
One POST for each report over kept-alive connections, a bound on the time of each, and two errors: `Transient` for what
may pass and `Permanent` for a refusal of this report.
Limits: nothing is retried here; the next report is newer.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import aiohttp

from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.http.trust import TlsTrust
from cotenant.model.errors import Permanent, Transient

WITHIN_S = 5.0
_JSON = {"Content-Type": "application/json"}
_SHOWN = 300  # characters of a refusal


class ReportSender:
    """Posts to any number of URLs. `close` it, or use it as an async context manager."""

    def __init__(self, token_file: Path | None = None, within_s: float = WITHIN_S, ca_file: Path | None = None) -> None:
        """`token_file` and `ca_file` (authorities of the receivers, PEM) are read again when they change."""
        self._trust = TlsTrust(ca_file, "report ca file")
        self._token_file = token_file
        self._within_s = within_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ReportSender:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def post(self, url: str, body: bytes) -> None:
        """Deliver one report. Raises `Transient`, `Permanent`, or `InvalidInput` for the token's or the
        authorities' file.
        """
        trusted = self._trust.context()
        headers = _JSON
        if self._token_file is not None:
            token = read_token(self._token_file, "report token file").decode()
            headers = {**_JSON, "Authorization": f"Bearer {token}"}
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._within_s), cookie_jar=aiohttp.DummyCookieJar()
            )
        try:
            async with self._session.post(
                url, data=body, headers=headers, ssl=trusted, allow_redirects=False
            ) as answer:
                if answer.status < 300:
                    return
                said = (await answer.content.read(_SHOWN)).decode("utf-8", "replace")
                words = f"{url}: {answer.status} {' '.join(said.split())}"
                if answer.status in (408, 429) or answer.status >= 500:
                    raise Transient(words, _retry_after_s(answer.headers.get("Retry-After", "")))
                raise Permanent(words)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Transient(f"{url}: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _retry_after_s(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) <= 5 else 1.0
