"""A client of a running scheduler's debug API, for `cotenant explain`.

A person does not know the port of the scheduler that `cotenant up` started, and must be able to tell "none runs" from
"it refuses". The scheduler is the one that is named, or the one beside the kubeconfig in use, or in the directory of
`cotenant up`, or at the default port; the standard library's HTTP client, one connection a question, blocking.
Limits: where two schedulers answer and none is named, neither is asked.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.model.decisions.answers import Concern, PodAnswer
from cotenant.model.decisions.shadow import ShadowReport
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.urls import split_url
from cotenant.services.clients.scheduler_address import DEFAULT_URL, URL_FILE

T = TypeVar("T")

_ANSWER_S = 30.0
_PROBE_S = 2.0


class PodNotKnown(Permanent):
    """The scheduler does not know what was asked about."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler at a URL."""

    url: str
    token: str = ""

    def pod(self, namespace: str, name: str, supposed: Sequence[str]) -> PodAnswer:
        """Why a pod is where it is. Raises `PodNotKnown`, `InvalidInput`, `Transient` or `Permanent`."""
        query = [("if", entry) for entry in supposed]
        return self._read(f"/debug/explain/pods/{quoted(namespace)}/{quoted(name)}", PodAnswer, query)

    def concern(self, path: str) -> Concern:
        """The state of a quota or a gang. Raises as `pod` does."""
        return self._read(path, Concern)

    def shadow(self, last: int) -> ShadowReport:
        """What a shadow has found, with so many of the newest differences. Raises as `pod` does."""
        try:
            return self._read("/debug/shadow", ShadowReport, [("last", str(last))])
        except PodNotKnown:
            raise PodNotKnown(f"{self.url} is no shadow: `cotenant scheduler --shadow` starts one") from None

    def _read(self, path: str, form: type[T], query: Sequence[tuple[str, str]] = ()) -> T:
        try:
            return msgspec.json.decode(self.get(path, query), type=form)
        except UNREADABLE as error:
            raise Permanent(f"{self.url} answered what this version cannot read: {error}") from error

    def get(self, path: str, query: Sequence[tuple[str, str]] = (), within_s: float = _ANSWER_S) -> bytes:
        """A page. Raises as `pod` does."""
        status, body = self._ask(f"{path}?{urlencode(query)}" if query else path, within_s)
        text = body.decode(errors="replace").strip()
        if status == 200:
            return body
        if status == 404:
            raise PodNotKnown(text or f"{self.url} has no such page")
        if status == 403:
            raise Permanent(f"{self.url}: {text}; --token-file names a file with the token")
        if status == 400:
            field, _, rest = text.partition(": ")
            value, _, expected = rest.partition(": expected ")
            raise InvalidInput(field, value, expected or text)
        raise Permanent(f"{self.url} answered {status}: {text[:300]}")

    def is_there(self) -> bool:
        """Whether a scheduler answers."""
        try:
            return self._ask("/healthz", _PROBE_S)[0] in (200, 503)
        except (Transient, InvalidInput):
            return False

    def _ask(self, target: str, within_s: float) -> tuple[int, bytes]:
        parts = split_url(self.url)
        if parts is None or parts.hostname is None:
            raise InvalidInput("--scheduler", self.url, "a URL", f"such as {DEFAULT_URL}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=within_s)
        try:
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            connection.request("GET", parts.path.rstrip("/") + target, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Transient(
                f"no scheduler answers at {self.url} ({why}): start one, name it with --scheduler, or use "
                "--kubeconfig for what "
                "the API server has of it"
            ) from error
        finally:
            connection.close()


def find(url: str, token_file: Path | None, up: Path) -> Scheduler:
    """The scheduler to ask; `up` is the default directory of `cotenant up`. Raises `InvalidInput` where several
    answer.
    """
    token = read_token(token_file, "--token-file").decode() if token_file is not None else ""
    if url:
        return Scheduler(url.rstrip("/"), token)
    for beside in os.environ.get("KUBECONFIG", "").split(os.pathsep):
        found = _written(Path(beside).parent) if beside else ""
        if found:
            return Scheduler(found, token)
    answering = [
        fromkey for fromkey in dict.fromkeys((_written(up), DEFAULT_URL)) if fromkey and Scheduler(fromkey).is_there()
    ]
    if len(answering) > 1:
        raise InvalidInput("--scheduler", " and ".join(answering), "one of them", "several schedulers answer")
    return Scheduler(answering[0] if answering else _written(up) or DEFAULT_URL, token)


def _written(directory: Path) -> str:
    try:
        return (directory / URL_FILE).read_text().strip()
    except (OSError, UnicodeError):
        return ""


def quoted(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")
