"""Terminals into a fleet's containers, and into those of its nodes' pods: as GUID, or NAMESPACE~NAME[~CONTAINER].

    POST /api/terminal/GUID            {"columns", "rows", "command"}: open one; {"session"}
    GET  /api/terminal/GUID/SESSION    what it shows, as server-sent events; ids are positions, so that a browser that
                                       connects again goes on where it was. `page`: base64; `end`: why, exit code
    POST /api/terminal/GUID/SESSION    {"text", "columns", "rows", "ends"}: keys, the window's size, hang up

Only JSON of the page's own origin is taken: no form of another site can send it. A session's name is random, and the
fleet's controller checks the console's own right each time.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import msgspec

from cotenant.drivers.http.messages import BodyRefused, Disconnected, HttpAnswer, Receive, Scope, Send, header
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.fleet.refusal import FleetForbidden, NobodyAnswers, NoSuchGuid
from cotenant.model.fleet.terminals import USUAL_COMMAND, OpenTerminal, ReadTerminal, WindowSize, WriteTerminal
from cotenant.services.console.hosts.contract import TerminalHost
from cotenant.services.console.posted import posted
from cotenant.services.console.questions import wrong
from cotenant.services.console.sources import FLEET

TERMINAL = "/api/terminal/"
_WAIT_S = 5.0  # of one question for output; then a comment keeps the stream alive
_AWAY_S = 20.0  # without an answer of the fleet
_AGAIN_S = 0.5
_SLASH = "~"  # in the page's addresses; neither a guid nor a name of Kubernetes has one
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_DONE = HttpAnswer(204, b"", more=((b"cache-control", b"no-store"),))


@dataclass(frozen=True, slots=True)
class Seat:
    """Who is at the screen, and whether they may still be."""

    viewer: str
    may_stay: Callable[[], Awaitable[bool]]


class _Opening(msgspec.Struct, forbid_unknown_fields=True):
    columns: int
    rows: int
    command: tuple[str, ...] = USUAL_COMMAND


class _Typed(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""
    columns: int = 0
    rows: int = 0
    ends: bool = False


class Terminals:
    """`host` None: they are switched off."""

    def __init__(self, host: TerminalHost | None) -> None:
        self._host = host

    async def answer(self, scope: Scope, receive: Receive, send: Send, seat: Seat) -> HttpAnswer | None:
        """The answer; None where it was sent."""
        names = str(scope["path"]).removeprefix(TERMINAL).split("/")
        if self._host is None:
            return wrong(404, "terminals are switched off: cotenant console --fleet ... --terminals", FLEET)
        try:
            match scope["method"], [names[0].replace(_SLASH, "/"), *names[1:]]:
                case "GET", [guid, session]:
                    at = header(scope, b"last-event-id").decode("latin-1")
                    position = int(at) if at.isdecimal() and len(at) < 19 else 0
                    request = ReadTerminal(guid, session, position, _WAIT_S)
                    return await self._stream(self._host, request, receive, send, seat)
                case "POST", [guid] if guid:
                    asked = await posted(scope, receive, _Opening)
                    size = WindowSize(asked.columns, asked.rows)
                    opened = await self._host.open_terminal(OpenTerminal(guid, asked.command, size, seat.viewer))
                    return HttpAnswer(200, msgspec.json.encode(opened))
                case "POST", [guid, session]:
                    typed = await posted(scope, receive, _Typed)
                    new = WindowSize(typed.columns, typed.rows) if typed.columns or typed.rows else None
                    data = typed.text.encode(errors="replace")
                    await self._host.write_terminal(WriteTerminal(guid, session, data, new, typed.ends))
                    return _DONE
        except BodyRefused as refused:
            return refused.answer
        except Disconnected:
            return None
        except InvalidInput as error:
            return wrong(400, str(error), FLEET)
        except FleetForbidden as error:
            return wrong(403, str(error), FLEET)
        except NoSuchGuid as error:
            return wrong(404, str(error), FLEET)
        except CotenantError as error:
            return wrong(502, str(error), FLEET)
        return wrong(404, "there is no such page", FLEET)

    async def _stream(
        self, host: TerminalHost, request: ReadTerminal, receive: Receive, send: Send, seat: Seat
    ) -> HttpAnswer | None:
        """Until the end, or until the viewer leaves or may not stay."""
        gone = asyncio.create_task(_until_gone(receive), name="viewer of a terminal")
        loop = asyncio.get_running_loop()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await _say(send, b"retry: 500\n\n")
            answered_s, why, exit_code = loop.time(), "", None
            while not why:
                if not await seat.may_stay():
                    why = "the session has ended"
                    break
                reading = asyncio.ensure_future(host.read_terminal(request))
                await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    reading.cancel()
                    return None
                try:
                    page = reading.result()
                except (Transient, NobodyAnswers) as error:
                    why = str(error) if loop.time() - answered_s > _AWAY_S else ""
                    await asyncio.sleep(_AGAIN_S)
                    continue
                except CotenantError as error:
                    why = str(error)
                    break
                answered_s, position = loop.time(), page.position + len(page.data)
                request = replace(request, position=position)
                data = b"event: page\nid: %d\ndata: %s\n\n" % (position, b64encode(page.data))
                await _say(send, data if page.data else b": it is quiet\n\n")
                if page.is_over:
                    why, exit_code = page.why or "it has ended", page.exit_code
            said = msgspec.json.encode({"why": why, "exitCode": exit_code})
            await _say(send, b"event: end\ndata: %s\n\n" % said, more=False)
        finally:
            gone.cancel()
        return None


async def _say(send: Send, data: bytes, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
