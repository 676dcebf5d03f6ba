"""Profiles that programs took of themselves by cProfile, and sent.

    POST /api/v1/profiles?name=GUID    what `Profile.dump_stats` writes; by a sender's token
    GET  /api/v1/profiles              those that are kept, the newest first
    GET  /api/v1/profiles?name=GUID    the last one of that name, as it came

The last one of each name is kept, in memory, the oldest dropped first, and no sender takes all the room. What a sender
gives is read by our own reader only (drivers/stacks/pstats.py), before it is taken.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import msgspec

from cotenant.drivers.http.messages import TEXT, HttpAnswer, Receive, Scope, read_body
from cotenant.drivers.stacks.pstats import read_pstats
from cotenant.model.errors import InvalidInput

PROFILES = "/api/v1/profiles"
MAX_BYTES, MAX_KEPT_BYTES, MAX_HOLDER_BYTES = 2 << 20, 64 << 20, 16 << 20
_MAX_NAME = 200
_BINARY = b"application/octet-stream"


class ProfileRow(msgspec.Struct, frozen=True, rename="camel"):
    """A profile. `namespace`: that its sender has proven to be of."""

    name: str
    namespace: str
    at_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Kept:
    holder: str
    at_s: float
    body: bytes


@dataclass(slots=True)
class ProfilePages:
    """The pages. `clock` gives Unix seconds."""

    clock: Callable[[], float]
    _kept: OrderedDict[tuple[str, str], _Kept] = field(default_factory=OrderedDict)  # by namespace and name

    async def take(self, scope: Scope, receive: Receive, namespace: str, holder: str) -> HttpAnswer:
        """The answer to a POST. Raises `BodyRefused`, `Disconnected`."""
        name = _name(scope)
        if not name or len(name) > _MAX_NAME or not name.isprintable():
            return _error(400, f"name: expected the guid of a container, at most {_MAX_NAME} characters")
        body = await read_body(scope, receive, MAX_BYTES)
        try:
            await asyncio.to_thread(read_pstats, body)
        except InvalidInput as error:
            return _error(400, str(error))
        key = namespace, name
        self._kept.pop(key, None)
        self._kept[key] = _Kept(holder, self.clock(), body)
        self._make_room(MAX_HOLDER_BYTES, holder)
        self._make_room(MAX_KEPT_BYTES, "")
        return HttpAnswer(204)

    def answer(self, scope: Scope) -> HttpAnswer:
        """The answer to a GET."""
        name = _name(scope)
        if not name:
            rows = [
                ProfileRow(known, namespace, kept.at_s, len(kept.body))
                for (namespace, known), kept in reversed(self._kept.items())
            ]
            return HttpAnswer(200, msgspec.json.encode(rows))
        found = next((kept for (_, known), kept in reversed(self._kept.items()) if known == name), None)
        return _error(404, f"no profile of {name} was sent") if found is None else HttpAnswer(200, found.body, _BINARY)

    def _make_room(self, max_bytes: int, holder: str) -> None:
        """`holder`: only its own; empty: all."""
        own = [key for key, kept in self._kept.items() if holder in ("", kept.holder)]
        size = sum(len(self._kept[key].body) for key in own)
        for key in own:
            if size <= max_bytes:
                return
            size -= len(self._kept.pop(key).body)


def not_get_or_post() -> HttpAnswer:
    """The refusal of another method."""
    return HttpAnswer(405, b"only GET and POST\n", TEXT, ((b"allow", b"GET, POST"),))


def _name(scope: Scope) -> str:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("name", "")


def _error(status: int, error: str) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode({"error": error}))
