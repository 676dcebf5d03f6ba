"""A page in the console's design language: one HTML file that needs no network.

The lab's reports, the demonstration and the node experiments write pages that are mailed and opened years later, on a
phone as well as on a wide screen; three styles of their own would drift apart. One document with the console's own
style and components, built from its sources (console/src/report -> built/), light and dark by the reader's preference.
Sentences and tables are plain HTML that needs no script; a script draws the figures from data in the file, and the
values of each figure are a folded table below it. A policy in the file lets the browser run this script and nothing
else.
Limits: about 90 KB before a page's own data; maps and figures need a browser of 2024 or later.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import msgspec

from cotenant.model.pages.figures import Drawing, Figure
from cotenant.model.pages.values import values


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a page; `body` is HTML. `is_plain`: without a frame around it."""

    key: str
    title: str
    body: str
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """The head of a page: `brand` names the command's family, `title` is the browser's."""

    brand: str
    name: str
    title: str
    lead: str
    footer: str


class PageData(msgspec.Struct, frozen=True):
    """What the page's script reads."""

    figures: dict[str, Drawing]
    colours: dict[str, str]
    runs: msgspec.Struct | None


def document(
    heading: Heading,
    sections: Sequence[PageSection],
    figures: Sequence[Figure],
    colours: Mapping[str, str],
    runs: msgspec.Struct | None = None,
) -> str:
    """The page. `colours`: names of colours (figures.py) of the names that tables share with legends. `runs`: of an
    experiment, drawn in the element `lab-view`.
    """
    data = PageData({figure.key: figure.drawing for figure in figures}, dict(colours), runs)
    embedded = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    contents = "".join(f'<a href="#{section.key}">{escape(section.title)}</a>' for section in sections)
    body = "".join(
        f'<section id="{section.key}"{"" if section.is_plain else " class=card"}>'
        f"<h2>{escape(section.title)}</h2>{section.body}</section>"
        for section in sections
    )
    style, script = _built("report.css"), _built("report.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light '
        'dark">'
        f"<title>{escape(heading.title)}</title><style>{style}</style></head>"
        f"<body class=report><header><div class=inner><p class=brand>{escape(heading.brand)}</p><nav "
        f"aria-label=Contents>{contents}</nav></div></header>"
        f"<main><h1>{escape(heading.name)}</h1><p class=lead>{escape(heading.lead)}</p>{body}</main>"
        f"<footer>{escape(heading.footer)}</footer>"
        f'<script type="application/json" id="report-data">{embedded}</script><script>{script}</script></body></html>\n'
    )


def drawn(figures: Sequence[Figure]) -> str:
    """The places of figures, one below the other, each with its values as a folded table."""
    return "".join(_picture(figure) for figure in figures)


def side_by_side(figures: Sequence[Figure]) -> str:
    """The places of figures, as many in a line as fit."""
    return f"<div class=panels>{drawn(figures)}</div>"


def command(text: str) -> str:
    """A command that can be copied. The button appears where a script runs."""
    return f"<div class=command><code>{escape(text)}</code><button type=button data-copy hidden>copy</button></div>"


def _picture(figure: Figure) -> str:
    caption = f"<p>{escape(figure.caption)}</p>" if figure.caption else ""
    table = values(figure.drawing)
    folded = f"<details><summary>values</summary>{table}</details>" if table else ""
    key, title = escape(figure.key, quote=True), escape(figure.title, quote=True)
    return (
        f"<figure><figcaption><h3>{escape(figure.title)}</h3>{caption}</figcaption>"
        f'<div class=drawing data-figure="{key}" data-label="{title}"></div>{folded}</figure>'
    )


def _built(name: str) -> str:
    return (files("cotenant.model.pages") / "built" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
