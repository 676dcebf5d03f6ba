"""Closing and opening channels of spans, and which are closed.

    GET    /api/v1/channels                  those that are closed, the next to open first
    POST   /api/v1/channels                  {"channel": "shop/cart", "forS": 600}: close one, or change its time
    DELETE /api/v1/channels?channel=         open one

For whoever may ask questions: the token of a sender, which every workload has, is refused. A web page that a person
happens to see must not close anything either, so the body has to say that it is JSON, which no foreign page may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl

import msgspec

from cotenant.drivers.http.messages import JSON, TEXT, HttpAnswer, Receive, Scope, header, read_body
from cotenant.engine.traces.channels import Channels, ClosedChannel
from cotenant.model.errors import InvalidInput

CHANNELS = "/api/v1/channels"
MAX_BYTES = 4096


class CloseRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A channel to close, and for how many seconds."""

    channel: str
    for_s: float


class ChannelRow(msgspec.Struct, frozen=True, rename="camel"):
    """A channel. Times are Unix seconds; `spans`: left out so far; `services`: whose they are, the first ones."""

    channel: str
    since_s: float
    until_s: float
    left_s: float
    spans: int
    services: list[str]


class ChannelsPage(msgspec.Struct, frozen=True, rename="camel"):
    """`outlives_restart`: closed channels are in the process's state file. `spans`: left out since the start."""

    outlives_restart: bool
    spans: int
    closed: list[ChannelRow]


@dataclass(slots=True)
class ChannelPages:
    """The pages. `clock` gives Unix seconds; `changed` is called after each change, None = nothing is kept."""

    channels: Channels
    clock: Callable[[], float]
    changed: Callable[[], None] | None = None

    async def answer(self, scope: Scope, receive: Receive) -> HttpAnswer:
        """The answer to a request at `CHANNELS`. Raises `BodyRefused`, `Disconnected`."""
        match scope["method"]:
            case "GET" | "HEAD":
                return self._page()
            case "POST":
                return await self._close(scope, receive)
            case "DELETE":
                return self._open(dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("channel", ""))
            case _:
                return HttpAnswer(405, b"only GET, POST, DELETE\n", TEXT, ((b"allow", b"GET, POST, DELETE"),))

    async def _close(self, scope: Scope, receive: Receive) -> HttpAnswer:
        if header(scope, b"content-type").partition(b";")[0].strip().lower() != JSON:
            return HttpAnswer(415, b"Content-Type: expected application/json\n", TEXT)
        try:
            asked = msgspec.json.decode(await read_body(scope, receive, MAX_BYTES), type=CloseRequest)
            self.channels.close(asked.channel, asked.for_s, self.clock())
        except (InvalidInput, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error(400, str(error))
        self._keep()
        return self._page()

    def _open(self, name: str) -> HttpAnswer:
        self.channels.tick(self.clock())
        if self.channels.open(name) is None:
            return _error(404, f"the channel {name!r} is not closed")
        self._keep()
        return self._page()

    def _keep(self) -> None:
        if self.changed is not None:
            self.changed()

    def _page(self) -> HttpAnswer:
        now_s = self.clock()
        rows = [_row(channel, now_s) for channel in self.channels.closed(now_s)]
        return HttpAnswer(200, msgspec.json.encode(ChannelsPage(self.changed is not None, self.channels.spans, rows)))


def _row(channel: ClosedChannel, now_s: float) -> ChannelRow:
    left_s = channel.until_s - now_s
    services = list(channel.services)
    return ChannelRow(channel.name, channel.since_s, channel.until_s, left_s, channel.spans, services)


def _error(status: int, error: str) -> HttpAnswer:
    return HttpAnswer(status, msgspec.json.encode({"error": error}))
