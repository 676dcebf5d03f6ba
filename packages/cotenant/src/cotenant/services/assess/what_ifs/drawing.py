"""The page's section of what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from cotenant.model.assess.what_if import WhatIfs
from cotenant.model.pages.wide import WideRow, cell, head, wide
from cotenant.services.assess import words


def what_if_section(what_ifs: WhatIfs) -> str:
    """Cases, figures, and why pods have no place."""
    marks = words.case_marks(what_ifs)
    cases = "".join(
        f"<dt>{mark}</dt><dd>{escape(case.text)}</dd>" for mark, case in zip(marks, what_ifs.cases, strict=True)
    )
    heads = ["figure", "as it is", *marks]
    if len(marks) == 2:
        heads.append(f"{marks[1]} less {marks[0]}")
    text = f"<dl>{cases}</dl>{_table(heads, words.what_if_rows(what_ifs), ())}"
    text += f"<p class=soft>{escape(words.over_seeds(what_ifs))}</p>"
    unplaced = [
        (mark, words.amount(one.pods), one.example, one.why)
        for mark, case in zip(marks, what_ifs.cases, strict=True)
        for one in case.unplaced
    ]
    if unplaced:
        text += f"<h3>Without a place</h3>{_table(('case', 'pods', 'such as', 'why'), unplaced, (3,))}"
    notes = [f"{mark}: {note}" for mark, case in zip(marks, what_ifs.cases, strict=True) for note in case.notes]
    return text + "".join(f"<p>{escape(note)}</p>" for note in notes)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], prose: Sequence[int]) -> str:
    kinds = ["name" if not at else "words" if at in prose else "" for at in range(len(columns))]
    heads = [head(name, kind) for name, kind in zip(columns, kinds, strict=True)]
    return wide(heads, [WideRow([cell(text, kind) for text, kind in zip(row, kinds, strict=True)]) for row in rows])
