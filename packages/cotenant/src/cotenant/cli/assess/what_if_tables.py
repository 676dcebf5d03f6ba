"""What-ifs as text, and what sizes and emptying nodes would have done in the past."""

from __future__ import annotations

from cotenant.cli.tables import print_folded, print_line, print_words
from cotenant.model.assess.report import EmptyingTrial, SizeTrial
from cotenant.model.assess.what_if import WhatIfs
from cotenant.services.assess import words

_NAMES = 10


def show_what_ifs(what_ifs: WhatIfs) -> None:
    """All cases beside what is; the difference of two."""
    print()
    print_line("What if", strong=True)
    marks = words.case_marks(what_ifs)
    for mark, case in zip(marks, what_ifs.cases, strict=True):
        print_folded(f"{mark}: {case.text}.")
    heads = ("figure", "as it is", *marks, *((f"{marks[1]} less {marks[0]}",) if len(marks) == 2 else ()))
    print_words(heads, words.what_if_rows(what_ifs), right=heads[1:])
    print_folded(f"  {words.over_seeds(what_ifs)}")
    for mark, case in zip(marks, what_ifs.cases, strict=True):
        for one in case.unplaced:
            print_folded(f"  {mark}: {words.pods_of(one)} without a place, such as {one.example}: {one.why}.")
        for note in case.notes:
            print_folded(f"  {mark}: {note}.")


def show_sizes(trial: SizeTrial) -> None:
    """A row a rule."""
    print()
    print_line("Sizes of workloads, tried on the past", strong=True)
    print_folded(trial.verdict)
    print_words(words.SIZES_HEADS, words.sizes_rows(trial), right=words.SIZES_HEADS[1:])


def show_emptying(trial: EmptyingTrial) -> None:
    """A row a rule."""
    print()
    print_line("Nodes that one would have emptied", strong=True)
    print_folded(trial.verdict)
    print_words(words.EMPTYING_HEADS, words.emptying_rows(trial), right=words.EMPTYING_HEADS[1:])
    print_folded(f"  Interval: {trial.rules[0].squeezed.interval}.")
    which = words.emptied_by(trial, _NAMES)
    if which:
        print_folded(f"  The nodes: {which}.")
