"""Lines of a container's or pod's log, as the host's agent keeps them.

    /api/logs/GUID?grep=&tail=                 a container of the fleet
    /api/logs/NAMESPACE/NAME?grep=&tail=       a pod, where its node's agent follows the logs of pods

A line is cut to `MAX_SHOWN` characters: a page with a thousand lines of a megabyte each would hang the browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.logs import MAX_PATTERN, ReadLogs, ShownLine
from cotenant.model.fleet.refusal import NobodyAnswers, NoSuchGuid
from cotenant.model.whole_number import whole_number
from cotenant.services.console.hosts.answers import NOT_CONFIGURED
from cotenant.services.console.hosts.contract import FleetReader
from cotenant.services.console.sources import FLEET
from cotenant.services.console.upstream import Unanswered

MAX_LINES = 1000
MAX_SHOWN = 4000  # characters of one line
MAX_PAGES = 8  # of the agent for one answer
USUAL = "200"


class LogAnswers:
    """The section "logs"; None: no fleet is configured."""

    def __init__(self, reader: FleetReader | None) -> None:
        self._reader = reader

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The last lines, oldest first. Raises `NotFound`, `InvalidInput`, `Unanswered`."""
        if self._reader is None:
            raise Unanswered(FLEET, NOT_CONFIGURED, 404)
        if not 1 <= len(names) <= 2 or not all(names):
            raise NotFound("there is no such page")
        tail = whole_number(query.get("tail", USUAL))
        if tail is None or not 1 <= tail <= MAX_LINES:
            raise InvalidInput("tail", query["tail"][:64], f"1 to {MAX_LINES}")
        grep = query.get("grep", "")
        if len(grep) > MAX_PATTERN:
            raise InvalidInput("grep", grep[:64], f"at most {MAX_PATTERN} characters")
        return await self._read(self._reader, ReadLogs("/".join(names), grep=grep, tail=tail), tail)

    async def _read(self, reader: FleetReader, request: ReadLogs, tail: int) -> dict[str, object]:
        lines: list[ShownLine] = []
        missed = lost = 0
        is_end = False
        for _ in range(MAX_PAGES):
            try:
                page = await reader.lines(request)
            except InvalidInput:
                raise
            except CotenantError as error:
                is_unknown = isinstance(error, NoSuchGuid) and not isinstance(error, NobodyAnswers)
                raise Unanswered(FLEET, str(error), 404 if is_unknown else 502) from None
            lines += page.lines
            missed, lost, is_end = missed + page.missed, max(lost, page.lost), page.is_end
            if is_end or page.cursor is None:
                break
            request = replace(request, cursor=page.cursor)
        return {
            "lines": [_line(line) for line in lines[-tail:]],
            "missed": missed,
            "lost": lost,
            "isEnd": is_end,
        }


def _line(line: ShownLine) -> dict[str, object]:
    return {
        "atMs": line.at_ns // 1_000_000,
        "stream": line.stream[:16],
        "text": line.text[:MAX_SHOWN],
        "cut": line.cut + max(0, len(line.text) - MAX_SHOWN),
        "trace": line.trace_id if len(line.trace_id) <= 32 else "",
    }
