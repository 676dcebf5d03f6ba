"""What `cotenant traces close`, `open` and `closed` print."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from cotenant.cli import tables
from cotenant.model.counted import counted
from cotenant.services.traces.channel_pages import ChannelsPage
from cotenant.services.traces.client import TraceClient

_FORGOTTEN = "a restart of the process opens it: it runs without --state"


def close(asked: TraceClient, channel: str, for_s: float, as_json: bool) -> int:
    """Close one, and say until when."""
    page = asked.close(channel, for_s)
    if as_json:
        return _json(page)
    row = next(row for row in page.closed if row.channel == channel)
    print(f"{channel} is closed until {_time(row.until_s)} UTC; cotenant traces open {channel}")
    if not page.outlives_restart:
        print(_FORGOTTEN)
    return 0


def open_(asked: TraceClient, channel: str, as_json: bool) -> int:
    """Open one."""
    page = asked.open(channel)
    if as_json:
        return _json(page)
    print(f"{channel} is open")
    return 0


def closed(asked: TraceClient, as_json: bool) -> int:
    """Those that are closed."""
    page = asked.closed()
    if as_json:
        return _json(page)
    if not page.closed:
        print(f"no channel is closed; {counted(page.spans, 'span was', 'spans were')} left out since the start")
        return 0
    rows = [
        (row.channel, _time(row.since_s), _time(row.until_s), str(row.spans), ", ".join(row.services) or "–")
        for row in page.closed
    ]
    tables.print_words(("channel", "since", "until", "spans left out", "of"), rows, right=("spans left out",))
    print("times are UTC" + ("" if page.outlives_restart else "; a restart opens all: the process has no --state"))
    return 0


def _time(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S}"


def _json(page: ChannelsPage) -> int:
    print(msgspec.json.encode(page).decode())
    return 0
