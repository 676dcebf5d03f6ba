"""Routes of the scheduler's debug API, and its access control.

    GET  /apis/v1/__services__                       the routes, by method
    GET  /apis/v1/nodes/:nodeName                    the scheduler's view of a node
    GET  /apis/v1/plugins/...                        the views of plugins (pages_plugins.py)
    GET  /debug/state, /debug/pods/:namespace/:name  the process, and the history of a pod
    GET  /debug/reports                              the last report of every node, for the console
    GET  /debug/explain/pods|quotas|gangs/...        answers for `cotenant explain`
    GET  /debug/scores, /debug/filters               what was kept since the flags were set
    PUT  /debug/flags/v                              log every step (4 and more), or as at the start
    PUT  /debug/flags/s, /debug/flags/f              top-N score tables, and failing filters, of every pod that is
                                                     judged

Which pages there are depends on the plugins, and a list of them that is written by hand goes stale. A route is a value
with its pattern; the list is made from the routes, and a request finds its route by segments. These pages show what
runs where and what is evicted, so they answer callers on this machine, or with the bearer token; any other gets 403 and
a sentence. A caller counts as on this machine where the peer's address is loopback, no proxy forwarded the request, and
the Host names no other machine, so that a web page in a browser here cannot send requests on its behalf.
Limits: no TLS.
Source: founding document, v0.7, section 3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from urllib.parse import parse_qs

import msgspec

from cotenant.drivers.http.messages import (
    JSON,
    TEXT,
    BodyRefused,
    Disconnected,
    HttpAnswer,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    send_answer,
)
from cotenant.drivers.http.tokens import BearerToken
from cotenant.model.errors import InvalidInput

SERVICES = "/apis/v1/__services__"
PROTECTED = ("/apis/", "/debug/")
_MAX_BODY_BYTES = 64
_MAX_QUERY_BYTES = 4096
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")
_NO = "only callers on this machine, or with a bearer token that this scheduler knows (--debug-token-file), may ask"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request, as far as a page needs it."""

    names: tuple[str, ...]  # the segments in place of the pattern's `:names`
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: str = ""


Later = Callable[
    [], HttpAnswer
]  # the rest of a page that takes long: run in a thread, so it must not touch what the event loop changes


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern such as `/apis/v1/nodes/:nodeName`, and what answers."""

    method: str
    pattern: str
    page: Callable[[PageRequest], HttpAnswer | Later]

    def names(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """The segments in place of its names; None where the path does not match."""
        own = self.pattern.split("/")
        if len(own) != len(path):
            return None
        found = []
        for segment, given in zip(own, path, strict=True):
            if segment.startswith(":") and given:
                found.append(given)
            elif segment != given:
                return None
        return tuple(found)


class UnknownName(Exception):
    """The name asked about is not known; the message is the answer."""


class Routes:
    """The ASGI application of the pages behind the guard."""

    def __init__(self, routes: Sequence[Route], guard: CallerGuard) -> None:
        self._routes = (*routes, Route("GET", SERVICES, self._services))
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            answer = await self._answer(scope, receive)
        except BodyRefused as refused:
            answer = refused.answer
        except Disconnected:
            return
        await send_answer(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        if not self._guard.admits(scope):
            return said(403, _NO)
        path = scope["path"].split("/")
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        found = [(route, names) for route in self._routes if (names := route.names(path)) is not None]
        if not found:
            return said(404, f"there is no such page; GET {SERVICES} lists them")
        fitting = next(((route, names) for route, names in found if route.method == method), None)
        if fitting is None:
            allowed = ", ".join(sorted({route.method for route, _ in found}))
            return said(405, f"only {allowed}", ((b"allow", allowed.encode()),))
        route, names = fitting
        try:
            body = b"" if method == "GET" else await read_body(scope, receive, _MAX_BODY_BYTES)
            found_answer = route.page(PageRequest(names, _query(scope["query_string"]), body.decode()))
            return found_answer if isinstance(found_answer, HttpAnswer) else await asyncio.to_thread(found_answer)
        except UnicodeDecodeError:
            return said(400, "the body is no text")
        except InvalidInput as error:
            return said(400, str(error))
        except UnknownName as unknown:
            return said(404, str(unknown))

    def _services(self, asked: PageRequest) -> HttpAnswer:
        """The patterns of all routes by method, sorted."""
        by_method: dict[str, list[str]] = {}
        for route in self._routes:
            by_method.setdefault(route.method, []).append(route.pattern)
        value = {method: sorted(set(by_method[method])) for method in sorted(by_method)}
        return HttpAnswer(200, msgspec.json.format(msgspec.json.encode(value), indent=4) + b"\n", JSON)


class CallerGuard:
    """Decides which callers are admitted."""

    def __init__(self, token: BearerToken | None, clock: Callable[[], float]) -> None:
        self._token = token
        self._clock = clock

    def admits(self, scope: Scope) -> bool:
        """Whether the caller has the token, or is on this machine and is not a proxy."""
        authorization = header(scope, b"authorization")
        if authorization and self._token is not None and self._token.accepts(authorization, self._clock()):
            return True
        client = scope.get("client")
        if client is None or not _is_loopback(client[0]) or any(header(scope, name) for name in _FORWARDED):
            return False
        return _is_of_here(header(scope, b"host").decode(errors="replace"))


def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


def _is_of_here(host: str) -> bool:
    """Whether a Host header names no other machine: an address, localhost, or nothing."""
    name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
    if name.lower() in ("", "localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _query(raw: bytes) -> Mapping[str, Sequence[str]]:
    if len(raw) > _MAX_QUERY_BYTES:
        raise InvalidInput("query", f"{len(raw)} bytes", f"at most {_MAX_QUERY_BYTES}")
    try:
        return parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=32, errors="strict")
    except ValueError as error:
        raise InvalidInput("query", str(error), "name=value pairs") from None


def said(status: int, words: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> HttpAnswer:
    """An answer of one line."""
    return HttpAnswer(status, f"{' '.join(words.split())}\n".encode(), TEXT, more)
