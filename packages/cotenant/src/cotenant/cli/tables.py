"""Tables of text for a terminal; a hundred columns where the output is a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import fill

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cotenant.model.printable import printable

WIDTH = 100  # of output that is not a terminal, unless COLUMNS says otherwise
NARROWEST = 40
_READABLE = 24  # columns that a folded cell keeps at least, before others fold too
GAP = 2  # distance between columns: one blank and the box's own


def print_words(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    emphasised: Sequence[str] = (),
    right: Sequence[str] = (),
) -> None:
    """A table of text. A row with a cell in `emphasised` is bold; columns named in `right` are aligned right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    longest = [max(len(row[i]) for row in rows) if rows else 0 for i in range(len(headings))]
    shown = _folded_headings(headings, longest)
    wide = [max(longest[i], *(len(line) for line in shown[i].split("\n"))) for i in range(len(headings))]
    left = width() - sum(wide) - GAP * (len(wide) - 1) + max(wide, default=0)  # for the longest column
    for i, heading in enumerate(headings):
        fixed = longest[i] < max(longest) and left >= min(max(longest), _READABLE)  # only the longest column folds
        table.add_column(shown[i], justify="right" if heading in right else "left", overflow="fold", no_wrap=fixed)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row), style="bold" if set(row) & set(emphasised) else "")
    console().print(table)


def _folded_headings(headings: Sequence[str], longest: Sequence[int]) -> list[str]:
    """Headings on several lines where the table is too wide otherwise; no column is narrower than its longest cell
    for it.
    """
    natural = sum(max(len(heading), cells) for heading, cells in zip(headings, longest, strict=True))
    if natural + GAP * (len(headings) - 1) <= width():
        return list(headings)
    return [
        fill(heading, max(cells, 1), break_long_words=False, break_on_hyphens=False) or heading
        for heading, cells in zip(headings, longest, strict=True)
    ]


def print_line(text: str, strong: bool = False) -> None:
    """One line of text."""
    console().print(Text(printable(text), style="bold" if strong else ""), soft_wrap=True)


def print_folded(text: str) -> None:
    """A paragraph, wrapped at the width."""
    print(
        fill(printable(text), width(), subsequent_indent="  " if text.startswith(" ") else "", break_on_hyphens=False)
    )


def width() -> int:
    """Columns of standard output: COLUMNS where it is a number, else those of the terminal, else `WIDTH`."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        return max(NARROWEST, int(asked))
    return max(NARROWEST, get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def console() -> Console:
    """Standard output, `width` columns wide."""
    return Console(file=sys.stdout, width=width(), highlight=False)
