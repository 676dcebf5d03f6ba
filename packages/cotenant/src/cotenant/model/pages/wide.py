"""Tables: as wide as the page, and a card per row on a narrow screen, as in the console (`.wide` of
console/src/style.css).

A card has no heading row, so that each cell carries its column's label. The first cell of a row is its heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Head:
    """A column's heading. `html`: as it is shown; `label`: in a card."""

    html: str
    label: str
    kind: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell; `html` is shown as it is. `value`: what a sort reads instead of the text."""

    html: str
    kind: str = ""
    value: str | None = None
    hint: str = ""


@dataclass(frozen=True, slots=True)
class WideRow:
    """A row; its first cell is its heading."""

    cells: Sequence[Cell]
    kind: str = ""


def head(text: str, kind: str = "", unit: str = "", hint: str = "") -> Head:
    """A heading of plain text, with its unit below."""
    small = f"<small>{escape(unit)}</small>" if unit else ""
    return Head(f"{escape(text)}{small}", f"{text} {unit}".strip(), kind, hint)


def cell(text: str, kind: str = "") -> Cell:
    """A cell of plain text."""
    return Cell(escape(text), kind)


def wide(heads: Sequence[Head], rows: Sequence[WideRow], is_sortable: bool = False) -> str:
    """The table."""
    top = "".join(
        f"<th scope=col{_attribute('class', head.kind)}{_attribute('title', head.hint)}>{head.html}</th>"
        for head in heads
    )
    body = "".join(
        f"<tr{_attribute('class', row.kind)}>"
        + "".join(_cell(cell, heads[k].label if k else None) for k, cell in enumerate(row.cells))
        + "</tr>"
        for row in rows
    )
    kind = " class=sortable" if is_sortable else ""
    return f"<div class=wide><table{kind}><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], ours: Sequence[str] = ()) -> str:
    """A table of texts. `ours`: first cells of the rows to emphasise."""
    heads = [head(name, "" if k else "name") for k, name in enumerate(columns)]
    return wide(
        heads,
        [
            WideRow([cell(text, "" if k else "name") for k, text in enumerate(row)], "ours" if row[0] in ours else "")
            for row in rows
        ],
    )


def _cell(cell: Cell, label: str | None) -> str:
    kind, hint = _attribute("class", cell.kind), _attribute("title", cell.hint)
    if label is None:
        return f"<th scope=row{kind}{hint}>{cell.html}</th>"
    value = "" if cell.value is None else _attribute("data-value", cell.value, is_kept=True)
    return f"<td{kind}{hint}{value}{_attribute('data-label', label)}>{cell.html}</td>"


def _attribute(name: str, value: str, is_kept: bool = False) -> str:
    return f' {name}="{escape(value, quote=True)}"' if value or is_kept else ""
