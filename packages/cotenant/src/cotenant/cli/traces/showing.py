"""What `cotenant traces` prints.

A trace of a hundred spans must be readable in a hundred columns. A tree with a bar for when each span ran, and its part
of the critical path beside it.
Limits: attributes are in the JSON form.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.cli.traces.asking import client
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput
from cotenant.services.traces.page_forms import ServicesPage, SilentRow, SpanRow, TracePage
from cotenant.services.traces.pages import LIMITS, MIN_MS, SHARES, checked_number

_BAR = 24  # columns


@dataclass(frozen=True, slots=True)
class TraceListQuery:
    """The options of `cotenant traces list`."""

    service: str
    operation: str
    min_ms: float
    tags: tuple[str, ...]
    failed: bool
    slowest: bool
    limit: int

    def fields(self) -> list[tuple[str, str]]:
        """As the page takes them. Raises `InvalidInput`."""
        checked_number("--limit", self.limit, LIMITS)
        checked_number("--min-ms", self.min_ms, MIN_MS)
        for tag in self.tags:
            if not tag.partition("=")[0]:
                raise InvalidInput("--tag", tag, "KEY=VALUE, or KEY")
        given = [("service", self.service), ("operation", self.operation)]
        given += [("failed", "1" if self.failed else ""), ("slowest", "1" if self.slowest else "")]
        given += [("tag", tag) for tag in self.tags]
        return [
            ("limit", str(self.limit)),
            ("min_ms", repr(self.min_ms)),
            *((key, value) for key, value in given if value),
        ]


def services(url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """Operations with their latency."""
    page = client(url, token_file, ca).services()
    if as_json:
        return _json(page)
    if not page.operations:
        print(_nothing_served(page))
        return 0
    headings = ("service", "operation", "requests", "per s", "errors %", "p50 ms", "p95 ms", "p99 ms")
    rows = [
        (
            row.service,
            row.operation,
            str(row.requests),
            f"{row.per_second:.1f}",
            f"{100 * row.errors / row.requests:.2f}" if row.requests else "–",
            *(_ms(value) for value in (row.p50_ms, row.p95_ms, row.p99_ms)),
        )
        for row in page.operations
    ]
    tables.print_words(headings, rows, right=headings[2:])
    print(f"of the last {page.window_s:.0f} s")
    if page.silent:
        print(_without_requests(page.silent))
    if page.old:
        print(
            f"spans that came more than a minute after their end: {page.old} since the start; they are in traces, and "
            "no requests of now"
        )
    return 0


def _nothing_served(page: ServicesPage) -> str:
    return _without_requests(page.silent) if page.silent else "no service has sent spans yet"


def _without_requests(silent: list[SilentRow]) -> str:
    """What came of services without requests, and what is expected."""
    rows = [
        f"{silent_row.service} ({', '.join(f'{count} {kind}' for kind, count in silent_row.spans.items())})"
        for silent_row in silent
    ]
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return (
        f"spans without a request: {', '.join(rows[:3])}{more}; a request is a span of kind SERVER or CONSUMER: "
        "the receiving side has to be instrumented, too"
    )


def traces(query: TraceListQuery, url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """A list of traces. Raises `InvalidInput`."""
    page = client(url, token_file, ca).traces(query.fields())
    if as_json:
        return _json(page)
    if not page.traces:
        print(f"none of the {page.kept} kept traces matches" if page.kept else "no trace is finished yet")
        return 0
    headings = ("trace", "began", "service", "operation", "ms", "spans", "services", "")
    rows = [
        (
            row.beginning or row.trace_id,
            _clock(row.start_ns),
            row.service,
            row.operation,
            _ms(row.duration_ms),
            str(row.spans),
            str(row.services),
            " ".join(word for word, is_so in (("failed", row.failed), ("partial", row.partial)) if is_so),
        )
        for row in page.traces
    ]
    tables.print_words(headings, rows, right=("ms", "spans", "services"))
    print(f"{len(page.traces)} of {page.kept} kept traces; times are UTC; cotenant traces show TRACE")
    return 0


def trace(trace_id: str, url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """One trace as a tree."""
    page = client(url, token_file, ca).trace(trace_id)
    if as_json:
        return _json(page)
    tables.print_line(f"{page.trace_id}  {_clock(page.start_ns)} UTC  {page.duration_ms:.2f} ms", strong=True)
    headings = ("span", "service", "when", "ms", "critical ms", "")
    rows = [
        (
            "  " * depth + span.operation,
            span.service,
            _bar(span, page.duration_ms),
            _ms(span.duration_ms),
            _ms(span.self_ms) if span.self_ms else "",
            " ".join(word for word, is_so in (("failed", span.failed), ("no parent", span.orphan)) if is_so),
        )
        for depth, span in _tree(page)
    ]
    tables.print_words(headings, rows, right=("ms", "critical ms"))
    if page.size > len(page.spans):
        print(f"{page.size - len(page.spans)} of {counted(page.size, 'span')} not shown: doubled, or beyond the bound")
    if page.partial:
        print("partial: a parent is missing, or there is more than one root")
    shifted = max((abs(span.shift_ms) for span in page.spans), default=0.0)
    if shifted:
        print(f"clock skew between hosts is taken out, up to {shifted:.2f} ms")
    return 0


def graph(url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """The edges."""
    rows = client(url, token_file, ca).graph()
    if as_json:
        return _json(rows)
    if not rows:
        print("no call is finished yet")
        return 0
    headings = ("client", "server", "kind", "calls", "failed %", "client ms", "server ms")
    cells = [
        (
            row.client,
            row.server,
            row.connection,
            str(row.calls),
            f"{100 * row.failed / row.calls:.2f}",
            _ms(row.client_mean_ms),
            _ms(row.server_mean_ms),
        )
        for row in rows
    ]
    tables.print_words(headings, cells, right=headings[3:])
    return 0


def critical(service: str, slowest: float, url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """Shares of the critical path. Raises `InvalidInput`."""
    checked_number("--slowest", slowest, SHARES)
    page = client(url, token_file, ca).critical(service, slowest)
    if as_json:
        return _json(page)
    if not page.requests:
        print(f"no kept trace has a request of {service}; `cotenant traces services` lists them")
        return 0
    headings = ("service", "operation", "kind", "share %", "mean ms", "requests")
    cells = [
        (row.service, row.operation, row.kind, f"{100 * row.share:.1f}", _ms(row.mean_ms), str(row.requests))
        for row in page.path
    ]
    tables.print_words(headings, cells, right=headings[3:])
    which = "" if slowest >= 1 else f"slowest {100 * slowest:g} %: "
    stand_for = f", which stand for {page.represented:.0f}" if page.represented > page.requests + 0.5 else ""
    requests = counted(page.requests, "request")
    print(f"{which}{requests} of {page.service}{stand_for}, {page.mean_ms:.2f} ms each on average")
    return 0


def _tree(page: TracePage) -> list[tuple[int, SpanRow]]:
    """Depth first, children by their start; the depth of each."""
    children: dict[int, list[int]] = {}
    for number, span in enumerate(page.spans):
        children.setdefault(span.parent, []).append(number)
    found: list[tuple[int, SpanRow]] = []
    waiting = [(0, number) for number in sorted(children.get(-1, ()), key=lambda n: -page.spans[n].start_ms)]
    while waiting:
        depth, number = waiting.pop()
        found.append((depth, page.spans[number]))
        below = sorted(children.get(number, ()), key=lambda n: -page.spans[n].start_ms)
        waiting += [(depth + 1, child) for child in below]
    return found


def _bar(span: SpanRow, duration_ms: float) -> str:
    scale = _BAR / duration_ms if duration_ms > 0 else 0.0
    begin = min(_BAR - 1, max(0, int(span.start_ms * scale)))
    end = min(_BAR, max(begin + 1, round((span.start_ms + span.duration_ms) * scale)))
    return " " * begin + "█" * (end - begin) + " " * (_BAR - end)


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _clock(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%H:%M:%S}"


def _json(page: object) -> int:
    print(msgspec.json.encode(page).decode())
    return 0
