"""The picture of a soak: each process's resident set, and its C heap in use where it was sampled, over the hours of the
run.

A slope with an interval does not show whether growth ends. One panel a process with its own scale from 0, so that
growth is seen beside what is there; SVG written here, in colours that are readable on light and dark pages.
Limits: at most 400 points a line; files and answers are in the table only.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, MARGIN, MAX_POINTS = 360, 150, 40, 400
_LINES = (("rss_mib", "resident", "#2f81f7"), ("heap_mib", "C heap in use", "#d1590a"))


def chart(path: Path) -> str:
    """The file of `bench.soak --samples` as SVG. Raises `SystemExit` for a file without samples."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(dict.fromkeys(row.get("process", "") for row in rows))
    if not rows or "" in names:
        raise SystemExit(f"bench.soak: {path} has no samples; expected the columns hours, process, rss_mib")
    panels = [_panel(name, [row for row in rows if row["process"] == name], k) for k, name in enumerate(names)]
    width, height = 2 * (WIDTH + MARGIN) + 12, -(-len(names) // 2) * (HEIGHT + 2 * MARGIN) + 24
    key = "".join(
        f'<tspan fill="{colour}" dx="14">— {word}</tspan>' for column, word, colour in _LINES if column in rows[0]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="12" fill="#768390">'
        f'{"".join(panels)}<text x="26" y="{height - 8}">MiB over hours{key}</text></svg>\n'
    )


def _panel(name: str, rows: Sequence[dict[str, str]], which: int) -> str:
    """One process."""
    left, top = MARGIN + which % 2 * (WIDTH + MARGIN), MARGIN + which // 2 * (HEIGHT + 2 * MARGIN)
    rows = rows[:: -(-len(rows) // MAX_POINTS)]
    hours = [float(row["hours"]) for row in rows]
    end = max(*hours, 1e-9)
    most = 1.15 * max(float(row["rss_mib"]) for row in rows)
    lines = []
    for column, _, colour in _LINES:
        found = [
            (hour, float(row[column])) for hour, row in zip(hours, rows, strict=True) if row.get(column, "nan") != "nan"
        ]
        points = " ".join(
            f"{left + WIDTH * hour / end:.1f},{top + HEIGHT - HEIGHT * mib / most:.1f}" for hour, mib in found
        )
        if found:
            lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    last = float(rows[-1]["rss_mib"])
    return (
        f'<text x="{left}" y="{top - 10}" font-weight="bold">{escape(name)}: {float(rows[0]["rss_mib"]):.0f} to '
        f"{last:.0f} MiB</text>"
        f'<path d="M{left} {top}V{top + HEIGHT}H{left + WIDTH}" fill="none" stroke="#768390" stroke-opacity=".5"/>'
        f'{"".join(lines)}<text x="{left - 6}" y="{top + HEIGHT}" text-anchor="end">0</text>'
        f'<text x="{left - 6}" y="{top + 10}" text-anchor="end">{most:.0f}</text><text x="{left + WIDTH}" '
        f'y="{top + HEIGHT + 15}" text-anchor="end">{end:.1f} h</text>'
    )
