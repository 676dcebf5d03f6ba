"""Radar charts of profiles as SVG, in a page of HTML, or as PNG.

Which of two workloads may share a node is seen at once in two shapes and not in a table. One polygon a series over the
eight axes, from 0 in the middle to 1000; an axis that is not known has no corner, a hollow mark in the middle and its
reason as a tooltip. SVG is written here: no plotting library is needed; PNG is rendered from it (png.py).
Limits: PNG has no tooltips, so it does not say why an axis is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import cos, pi, sin
from pathlib import Path

from cotenant.model.cluster.workload_profile import LARGEST, ProfileAxis, ProfileFigure, Reading, WorkloadProfile
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.profiling import png

FORMS = (".svg", ".html", ".png")
_WIDTH, _SIZE, _RADIUS = 760, 640, 210.0
_X, _Y = 380.0, 320.0  # the middle; the words of the axes to the left and right are up to 150 wide
_COLOURS = ("#1f6feb", "#d1590a", "#1a7f37", "#8250df")
WORDS = {
    ProfileAxis.CPU: "CPU",
    ProfileAxis.CACHE: "cache",
    ProfileAxis.MEMORY_BANDWIDTH: "memory bandwidth",
    ProfileAxis.MEMORY: "memory",
    ProfileAxis.DISK: "disk",
    ProfileAxis.NETWORK: "network",
    ProfileAxis.RUN_QUEUE: "run queue",
    ProfileAxis.START_UP: "start-up",
}


@dataclass(frozen=True, slots=True)
class RadarSeries:
    """One polygon."""

    name: str
    readings: tuple[Reading, ...]  # in the order of `ProfileAxis`


def series_of(profiles: Sequence[WorkloadProfile]) -> tuple[RadarSeries, ...]:
    """Sensitivity and tendency of each profile."""
    return tuple(
        RadarSeries(f"{profile.key}: {part}", tuple(getattr(profile.axis(axis), part) for axis in ProfileAxis))
        for profile in profiles
        for part in ("sensitivity", "tendency")
    )


def write(path: Path, profiles: Sequence[WorkloadProfile]) -> None:
    """Write a chart; the name's ending says the form. Raises `InvalidInput`, `Permanent` where the file cannot be
    written, `Unsupported` where PNG cannot be made here.
    """
    check_form(path)
    svg = chart(series_of(profiles))
    if path.suffix == ".html":
        title = escape(" and ".join(profile.key for profile in profiles))
        svg = (
            '<!doctype html>\n<html lang="en"><head><meta '
            f'charset="utf-8"><title>{title}</title></head><body>{svg}</body></html>\n'
        )
    data = png.rendered(svg) if path.suffix == ".png" else svg.encode()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Permanent(f"{path}: {error.strerror}") from error


def check_form(path: Path) -> None:
    """Raises `InvalidInput` where the name's ending is of no form that `write` knows, `Unsupported` where PNG
    cannot be made here.
    """
    if path.suffix not in FORMS:
        raise InvalidInput("--radar", str(path), f"FILE{', FILE'.join(FORMS)}")
    if path.suffix == ".png":
        png.check()


def chart(series: Sequence[RadarSeries]) -> str:
    """The SVG."""
    height = _SIZE + 26 * len(series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="14" role="img">',
        f"<title>{escape('; '.join(entry.name for entry in series))}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for ring in (0.25, 0.5, 0.75, 1.0):
        points = " ".join(_text(_at(number, ring)) for number in range(len(ProfileAxis)))
        parts.append(f'<polygon points="{points}" fill="none" stroke="#d0d7de"/>')
    for number, axis in enumerate(ProfileAxis):
        x, y = _at(number, 1.0)
        parts.append(f'<line x1="{_X}" y1="{_Y}" x2="{x:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>')
        x, y = _at(number, 1.12)
        anchor = "middle" if abs(x - _X) < 20 else "start" if x > _X else "end"
        parts.append(f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="{anchor}" fill="#1f2328">{WORDS[axis]}</text>')
    for index, entry in enumerate(series):
        parts += _drawn(entry, _COLOURS[index % len(_COLOURS)], index)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(series: RadarSeries, colour: str, index: int) -> list[str]:
    parts = []
    known = [(n, r) for n, r in enumerate(series.readings) if isinstance(r, ProfileFigure)]
    if known:
        points = " ".join(_text(_at(number, reading.value / LARGEST)) for number, reading in known)
        dash = ' stroke-dasharray="6 4"' if index % 2 else ""
        parts.append(
            f'<polygon points="{points}" fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="2"{dash}/>'
        )
    for number, reading in enumerate(series.readings):
        words = escape(f"{WORDS[tuple(ProfileAxis)[number]]}: {spoken(reading)}")
        if isinstance(reading, ProfileFigure):
            x, y = _at(number, reading.value / LARGEST)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{words}</title></circle>')
        else:
            x, y = _at(number, 0.04 + 0.03 * index)
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#ffffff" '
                f'stroke="{colour}"><title>{words}</title></circle>'
            )
    y = _SIZE + 26 * index
    missing = len(series.readings) - len(known)
    unknown = f" ({missing} axes not known)" if missing else ""
    parts.append(f'<rect x="40" y="{y - 12}" width="14" height="14" fill="{colour}"/>')
    parts.append(f'<text x="62" y="{y}" fill="#1f2328">{escape(series.name)}{unknown}</text>')
    return parts


def spoken(reading: Reading) -> str:
    """A reading in words."""
    if isinstance(reading, ProfileFigure):
        return f"{reading.value} ({reading.low} to {reading.high}, {reading.samples} samples, {reading.source})"
    return f"cannot tell, because {reading.because}"


def _at(number: int, share: float) -> tuple[float, float]:
    angle = 2.0 * pi * number / len(ProfileAxis) - pi / 2.0
    return _X + share * _RADIUS * cos(angle), _Y + share * _RADIUS * sin(angle)


def _text(point: tuple[float, float]) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"
