"""Questions to the other processes over HTTP: the scheduler and the trace process.

A viewer must be told which process does not answer, not "error 500". One client with a few connections; a failure is an
`Unanswered` with the name of the source and a sentence. The scheduler that `cotenant up` starts has another port after
each start, so its address is read from the file beside the kubeconfig at each question.
Limits: nothing is retried and nothing kept; at most `AT_ONCE` questions at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import aiohttp
from yarl import URL

from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.http.trust import TlsTrust
from cotenant.model.errors import CotenantError

AT_ONCE = 8
ANSWER_S = 20.0
MAX_BYTES = 32 << 20


class Unanswered(CotenantError):
    """A source did not answer, or refused; `status` is what the viewer gets."""

    def __init__(self, source: str, why: str, status: int = 502) -> None:
        self.source, self.why, self.status = source, why, status
        super().__init__(f"{source}: {why}")


class Upstream:
    """One process. `url` returns its address, empty where it is not known."""

    def __init__(
        self,
        name: str,
        url: Callable[[], str],
        *,
        token_file: Path | None = None,
        ca: Path | None = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.name = name
        self._answer_s = answer_s
        self._url, self._token_file = url, token_file
        self._trust = TlsTrust(ca)
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, query: Sequence[tuple[str, str]] = (), *, base: str = "") -> bytes:
        """A page, as JSON. `path` is encoded; `base`: another address than the usual one. Raises `Unanswered`."""
        base = (base or self._url()).rstrip("/")
        if not base:
            raise Unanswered(self.name, "its address is not known", 503)
        url = URL(base + path, encoded=True).with_query(list(query)) if query else URL(base + path, encoded=True)
        try:
            async with self._limit:
                if self._session is None:
                    self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._answer_s))
                headers = {"Accept": "application/json"}
                if self._token_file is not None:
                    headers["Authorization"] = f"Bearer {read_token(self._token_file).decode()}"
                async with self._session.get(
                    url, headers=headers, ssl=self._trust.context(), allow_redirects=False
                ) as answer:
                    body = await answer.content.read(MAX_BYTES + 1)
                    while len(body) <= MAX_BYTES and (more := await answer.content.read(MAX_BYTES)):
                        body += more
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = "no answer in time" if isinstance(error, TimeoutError) else _plain(error)
            raise Unanswered(self.name, f"does not answer at {base}: {why}", 503) from None
        if len(body) > MAX_BYTES:
            raise Unanswered(self.name, "its answer is too long")
        if answer.status != 200:
            text = " ".join(body[:600].decode(errors="replace").split())
            raise Unanswered(
                self.name,
                text or f"answered {answer.status}",
                404 if answer.status == 404 else 400 if answer.status == 400 else 502,
            )
        return body

    async def close(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()


def address_in(file: Path, otherwise: str) -> Callable[[], str]:
    """The address in a file, read at each call; `otherwise` where there is none."""

    def read() -> str:
        try:
            return file.read_text().strip() or otherwise
        except (OSError, UnicodeError):
            return otherwise

    return read


def _plain(error: Exception) -> str:
    inner = getattr(error, "os_error", None) or error
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
