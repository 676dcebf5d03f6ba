"""Pages of a log, asked one after another and printed."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import msgspec

from cotenant.drivers.nats.contract import Bus
from cotenant.model.counted import counted
from cotenant.model.errors import Transient
from cotenant.model.fleet.durations import duration_s
from cotenant.model.fleet.logs import LogPage, ReadLogs, ShownLine
from cotenant.model.fleet.refusal import NobodyAnswers
from cotenant.model.printable import printable
from cotenant.services.fleet.operator import connected
from cotenant.services.fleet.places import BusOptions
from cotenant.services.fleet.rpc import call

_WAIT_S = 5.0  # for a new line, each time
_PATIENCE_S = 30.0  # for an agent or controller that is away while a log is followed
_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class LogOptions:
    """As the command's."""

    since: str = ""
    grep: str = ""
    tail: int | None = None
    follow: bool = False
    times: bool = False
    as_json: bool = False


def show_logs(bus: BusOptions, name: str, options: LogOptions) -> int:
    """Print. Raises what was answered."""
    asyncio.run(_show(bus, name, options))
    return 0


async def _show(options: BusOptions, name: str, wanted: LogOptions) -> None:
    since_s = time.time() - duration_s("--since", wanted.since) if wanted.since else None
    request = ReadLogs(name, since_s, grep=wanted.grep, tail=wanted.tail)
    said_lost = 0
    async with connected(options) as (bus, operator):
        while True:
            page = await next_page(bus, operator, request, _PATIENCE_S if request.cursor is not None else 0.0)
            for line in page.lines:
                print(_shown(line, wanted))
            if page.missed:
                print(f"cotenant: {counted(page.missed, 'line')} dropped before they could be read", file=sys.stderr)
            if page.lost > said_lost:
                print(f"cotenant: {page.lost} gaps: files were truncated or removed unread", file=sys.stderr)
                said_lost = page.lost
            if page.is_end and not wanted.follow:
                return
            sys.stdout.flush()
            request = replace(request, cursor=page.cursor, wait_s=_WAIT_S if page.is_end else 0.0)


async def next_page(bus: Bus, operator: str, request: ReadLogs, patience_s: float) -> LogPage:
    """A page, asked for again for so long while the bus or who answers is away."""
    until_s = time.monotonic() + patience_s
    while True:
        try:
            return await call(bus, f"fleet.{operator}.rpc.logs", request, LogPage, request.wait_s + 20.0)
        except (NobodyAnswers, Transient):
            if time.monotonic() >= until_s:
                raise
            await asyncio.sleep(_AGAIN_S)


def _shown(line: ShownLine, wanted: LogOptions) -> str:
    if wanted.as_json:
        return msgspec.json.encode(line).decode()
    text = _safe(line.text) if sys.stdout.isatty() else line.text
    cut = f" [{line.cut} characters more]" if line.cut else ""
    if wanted.times:
        at = datetime.fromtimestamp(line.at_ns // 1_000_000_000, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%S}.{line.at_ns // 1_000_000 % 1000:03d}Z {text}{cut}"
    return text + cut


def _safe(text: str) -> str:
    """Nothing in it may drive the terminal."""
    return "\t".join(printable(part) for part in text.split("\t"))
