"""What viewers may allow, take back, freeze and thaw, where that is switched on.

    POST /api/autonomy   {"verb": "approve", "of": "sizes" | "moves" | "lending", "name", "id"}
                         {"verb": "undo", "of": "sizes" | "lending", "name", "id"}
                         {"verb": "freeze", "why", "actions", "namespaces"}, {"verb": "thaw"}

Only JSON of the page's own origin is taken. The id names what the viewer saw: an approval of what has changed since is
refused. The request is made by the console's kubeconfig, so a viewer with a Kubernetes token needs the right to write
that kind. Each request is a line in the log, with who asked and what came of it; who approved or froze stands in the
object too.
Limits: a freeze is the one object `freeze`, so a narrower one does not take the place of one that stands.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from cotenant.drivers.http.messages import BodyRefused, Disconnected, HttpAnswer, Receive, Scope
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.autonomy.freezing import freeze, thaw
from cotenant.services.autonomy.lending import approve_lending, undo_lending
from cotenant.services.autonomy.moves import approve_move
from cotenant.services.autonomy.sizes import approve_size, undo_size
from cotenant.services.console.access import Right
from cotenant.services.console.acting.board import ActingBoard
from cotenant.services.console.asker import Asker
from cotenant.services.console.posted import posted
from cotenant.services.console.questions import API, wrong

OFF = "approvals are switched off: cotenant console --approvals"
_SIZES = (Right(RIGHT_SIZINGS.group, RIGHT_SIZINGS.plural, "patch"),)
_LENDING = (Right(POOL_LENDINGS.group, POOL_LENDINGS.plural, "patch"),)
_MOVES = (Right(MIGRATION_JOBS.group, MIGRATION_JOBS.plural, "patch"),)
RIGHTS_BY_REQUEST: dict[tuple[str, str], tuple[Right, ...]] = {
    ("approve", "sizes"): _SIZES,
    ("undo", "sizes"): _SIZES,
    ("approve", "lending"): _LENDING,
    ("undo", "lending"): _LENDING,
    ("approve", "moves"): _MOVES,
    ("freeze", ""): tuple(Right(AUTONOMIES.group, AUTONOMIES.plural, verb) for verb in ("create", "patch")),
    ("thaw", ""): (Right(AUTONOMIES.group, AUTONOMIES.plural, "delete"),),
}
_log = logging.getLogger(__name__)


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    verb: str
    of: str = ""
    name: str = ""
    id: str = ""
    why: str = ""
    actions: list[str] = []
    namespaces: list[str] = []


@dataclass(frozen=True, slots=True)
class Allowing:
    """Takes the requests; with no client they are switched off."""

    board: ActingBoard
    client: Client | None = None

    def takes(self, method: str, path: str) -> bool:
        """Whether this is such a request, be it switched on or not."""
        return method == "POST" and path.removeprefix(API).partition("/")[0] == "autonomy"

    async def answer(self, scope: Scope, receive: Receive, asker: Asker) -> HttpAnswer | None:
        """What was written, in words; None where the viewer is gone."""
        if self.client is None:
            return wrong(403, OFF, "console")
        try:
            if str(scope["path"]) != f"{API}autonomy":
                return wrong(404, "there is no such page", "console")
            asked = await posted(scope, receive, _Asked)
            needed = RIGHTS_BY_REQUEST.get((asked.verb, asked.of))
            if needed is None:
                known = ", ".join(" ".join(filter(None, each)) for each in RIGHTS_BY_REQUEST)
                raise InvalidInput("verb", f"{asked.verb} {asked.of}".strip()[:64], f"one of {known}")
            for right in needed:
                if not await asker.has(right):
                    raise Forbidden(f"your token may not {right.words} in all namespaces")
        except BodyRefused as refused:
            return refused.answer
        except Disconnected:
            return None
        except InvalidInput as error:
            return wrong(400, str(error), "console")
        except Forbidden as error:
            return wrong(403, str(error), "cluster")
        return await self._carried_out(self.client, asked, asker.viewer)

    async def _carried_out(self, client: Client, asked: _Asked, by: str) -> HttpAnswer:
        what = " ".join(filter(None, (asked.verb, asked.of, asked.name, asked.id, *asked.actions, *asked.namespaces)))
        try:
            told = await self._do(client, asked, by)
        except CotenantError as error:
            _log.warning("%s by %s: refused: %s", _one_line(what), _one_line(by), _one_line(str(error)))
            status = 400 if isinstance(error, InvalidInput) else 403 if isinstance(error, Forbidden) else 409
            return wrong(status, str(error), "console" if status == 400 else "cluster")
        _log.info("%s by %s: %s", _one_line(what), _one_line(by), _one_line(told))
        return HttpAnswer(200, msgspec.json.encode({"told": told}))

    async def _do(self, client: Client, asked: _Asked, by: str) -> str:
        match asked.verb, asked.of:
            case "freeze", _:
                if self.board.is_frozen and (asked.actions or asked.namespaces):
                    hint = "thaw first: there is one freeze, and this one would let go what it holds"
                    raise InvalidInput("freeze", asked.why[:64], "a freeze of everything while one stands", hint)
                await freeze(client, asked.why, by, asked.namespaces, asked.actions)
                return "frozen"
            case "thaw", _:
                return "thawed" if await thaw(client) else "nothing was frozen"
        if not asked.name or (not asked.id and asked.of == "sizes"):
            raise InvalidInput("name, id", f"{asked.name} {asked.id}".strip()[:64], "what is approved or taken back")
        match asked.verb, asked.of:
            case "approve", "sizes":
                await approve_size(client, asked.name, asked.id, by)
            case "undo", "sizes":
                await undo_size(client, asked.name, asked.id)
            case "approve", "lending":
                return f"{await approve_lending(client, asked.name, asked.id, by)} is approved"
            case "undo", "lending":
                return f"{await undo_lending(client, asked.name, asked.id)} is taken back"
            case _:
                await approve_move(client, asked.name, by)
        return "approved" if asked.verb == "approve" else "taken back"


def _one_line(text: str) -> str:
    """Names are written by others, and a line of the log is one event."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:400]
