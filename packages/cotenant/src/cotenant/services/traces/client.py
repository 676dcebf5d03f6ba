"""A client of the trace process's pages.

The command line must tell "nothing listens there" from "it refuses". The standard library's HTTP client, one request a
question.
Limits: the system's certificate authorities are trusted, or those of `ca`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import msgspec

from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.http.trust import trusting
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.urls import split_url
from cotenant.services.traces.channel_pages import ChannelsPage, CloseRequest
from cotenant.services.traces.objective_board import ObjectiveView
from cotenant.services.traces.page_forms import CriticalPage, EdgeRow, ServicesPage, TracePage, TracesPage
from cotenant.services.traces.pages import PREFIX
from cotenant.services.traces.request_pages import RequestsPage
from cotenant.services.traces.story_board import StoryRow

_ANSWER_S = 30.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TraceClient:
    """`url` as printed by `cotenant traces`, without a path."""

    url: str
    token_file: Path | None = None
    ca: Path | None = None

    def services(self) -> ServicesPage:
        """Raises `Transient` where nothing answers, `Permanent` with the reason where it refuses; so do the others."""
        return self._get("services", (), ServicesPage)

    def traces(self, query: Sequence[tuple[str, str]]) -> TracesPage:
        """Traces that match."""
        return self._get("traces", query, TracesPage)

    def trace(self, trace_id: str) -> TracePage:
        """One trace."""
        return self._get(f"traces/{quote(trace_id, safe='')}", (), TracePage)

    def graph(self) -> list[EdgeRow]:
        """Who calls whom."""
        return self._get("graph", (), list[EdgeRow])

    def critical(self, service: str, slowest: float) -> CriticalPage:
        """Where a service's requests spend their time."""
        return self._get("critical", (("service", service), ("slowest", repr(slowest))), CriticalPage)

    def objectives(self) -> list[ObjectiveView]:
        """Every objective."""
        return self._get("objectives", (), list[ObjectiveView])

    def objective(self, namespace: str, name: str) -> ObjectiveView:
        """One objective with its replicas."""
        return self._get(f"objectives/{quote(namespace, safe='')}/{quote(name, safe='')}", (), ObjectiveView)

    def stories(self, service: str) -> list[StoryRow]:
        """The incidents of a service, a row a node."""
        return self._get("stories", (("service", service),), list[StoryRow])

    def requests(self, of: str, from_ns: int, to_ns: int) -> RequestsPage:
        """The requests of an instance, a pod or a service that touch this time."""
        query = ("of", of), ("from_ns", str(from_ns)), ("to_ns", str(to_ns))
        return self._get("requests", query, RequestsPage)

    def profile(self, name: str) -> bytes:
        """The last profile that a program of this name sent, as cProfile writes it."""
        return self._body("GET", "profiles", (("name", name),), None)

    def closed(self) -> ChannelsPage:
        """Closed channels."""
        return self._get("channels", (), ChannelsPage)

    def close(self, channel: str, for_s: float) -> ChannelsPage:
        """Close a channel for so many seconds."""
        return self._ask("POST", "channels", (), ChannelsPage, msgspec.json.encode(CloseRequest(channel, for_s)))

    def open(self, channel: str) -> ChannelsPage:
        """Open a closed channel."""
        return self._ask("DELETE", "channels", (("channel", channel),), ChannelsPage)

    def _get(self, page: str, query: Sequence[tuple[str, str]], of: type[T]) -> T:
        return self._ask("GET", page, query, of)

    def _ask(
        self, method: str, page: str, query: Sequence[tuple[str, str]], of: type[T], body: bytes | None = None
    ) -> T:
        found = self._body(method, page, query, body)
        try:
            return msgspec.json.decode(found, type=of)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Transient(f"what answers at {self.url} is no trace process: {error}") from None

    def _body(self, method: str, page: str, query: Sequence[tuple[str, str]], body: bytes | None) -> bytes:
        parts = split_url(self.url)
        if parts is None:
            raise InvalidInput(
                "--url", self.url, "http://HOST:PORT or https://HOST:PORT", "as `cotenant traces` prints it"
            )
        address = f"{parts.scheme}://{parts.netloc}{PREFIX}{page}" + (f"?{urlencode(query)}" if query else "")
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = Request(address, body, headers, method=method)
        if self.token_file is not None:
            request.add_header("Authorization", f"Bearer {read_token(self.token_file, '--token-file').decode()}")
        context = trusting(self.ca) if parts.scheme == "https" else None
        try:
            with urlopen(request, timeout=_ANSWER_S, context=context) as answer:
                found: bytes = answer.read()
                return found
        except HTTPError as error:
            raise Permanent(f"{self.url} answered {error.code}: {_reason(error.read())}") from None
        except (URLError, OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise Transient(f"no trace process answers at {self.url}: {why}; `cotenant traces` starts one") from None


def _reason(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        return body[:200].decode(errors="replace").strip()
