"""A page in the console's design language: one HTML file that needs no network.

Problem: the lab's reports, the demonstration and the node experiments write pages that are mailed and opened years later, on a phone as well as on a wide screen; three styles of
their own would drift apart. Choice: one document with the console's colours and type, light and dark by the reader's preference. Tables and sentences are plain HTML, figures are Plotly's JSON,
drawn by one script in the colours of the page; the library is inlined once. A wide table scrolls in its own box with its first column in place, a short one becomes a card a row below 560 px.
Limits: about five megabytes, nearly all of it the library. The colours are copied from console/src/style.css; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

Trace = dict[str, Any]  # Plotly's own format

# Colours of lines, readable on both grounds. Ours is the console's blue and wider than the others (Okabe and Ito's colours).
OURS = "#1a86c8"
OTHERS = ("#94821e", "#cc79a7", "#009e73", "#e69f00", "#7a68a6")
NEUTRAL = "#8a8f98"


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page; `body` is HTML."""

    key: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its caption. `choices`: names of groups of which the page shows one at a time."""

    key: str
    title: str
    caption: str
    data: list[Trace]
    layout: dict[str, Any]
    choices: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a page: `brand` names the command's family, `title` is the browser's."""

    brand: str
    name: str
    title: str
    lead: str
    footer: str


def document(
    heading: Heading,
    sections: Sequence[Section],
    figures: Sequence[Figure],
    colours: Mapping[str, str],
) -> str:
    """The page. `colours`: of the names that legends and tables share; a click on one in a legend switches it in every figure."""
    data = {
        "figures": {each.key: {"data": each.data, "layout": each.layout, "choices": each.choices} for each in figures},
        "colours": colours,
    }
    embedded = msgspec.json.encode(data).decode().replace("</", "<\\/")
    contents = "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)
    body = "".join(
        f'<section id="{section.key}"><h2>{escape(section.title)}</h2>{section.body}</section>' for section in sections
    )
    library = f"<script>{_plotly()}</script>" if figures else ""
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(heading.title)}</title><style>{_asset("report.css")}</style></head>'
        f"<body><header><div class=inner><p class=brand>{escape(heading.brand)}</p><nav aria-label=Contents>{contents}</nav></div></header>"
        f"<main><h1>{escape(heading.name)}</h1><p class=lead>{escape(heading.lead)}</p>{body}</main>"
        f"<footer>{escape(heading.footer)}</footer>"
        f'<script type="application/json" id="report-data">{embedded}</script>{library}'
        f"<script>{_asset('report.js')}</script></body></html>\n"
    )


def drawn(figures: Sequence[Figure]) -> str:
    """The places of figures, one below the other."""
    return "".join(_picture(each) for each in figures)


def side_by_side(figures: Sequence[Figure]) -> str:
    """The places of figures, as many in a line as fit."""
    return f"<div class=panels>{drawn(figures)}</div>"


def cards_table(columns: Sequence[str], rows: Sequence[Sequence[str]], ours: Sequence[str] = ()) -> str:
    """A short table, which becomes a card a row on a narrow screen. `ours`: first cells of the rows to emphasise."""
    head = "".join(
        f'<th scope="col"{" class=name" if i == 0 else ""}>{escape(name)}</th>' for i, name in enumerate(columns)
    )
    body = "".join(
        f"<tr{' class=ours' if row[0] in ours else ''}>"
        + "".join(
            f'<th scope="row" class=name>{escape(cell)}</th>'
            if i == 0
            else f'<td data-label="{escape(columns[i], quote=True)}">{escape(cell)}</td>'
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table class=cards><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _picture(figure: Figure) -> str:
    choice = ""
    if len(figure.choices) > 1:
        options = "".join(f"<option>{escape(name)}</option>" for name in figure.choices)
        choice = f'<label class=choice>policy <select data-for="{figure.key}">{options}</select></label>'
    height = figure.layout.get("height", 440)
    caption = f"<p>{escape(figure.caption)}</p>" if figure.caption else ""
    return (
        f"<figure><figcaption><h3>{escape(figure.title)}</h3>{choice}{caption}</figcaption>"
        f'<div class=plot data-figure="{escape(figure.key, quote=True)}" style="height:{height}px"></div></figure>'
    )


def _asset(name: str) -> str:
    return (files("cotenant.lab.report") / "assets" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
