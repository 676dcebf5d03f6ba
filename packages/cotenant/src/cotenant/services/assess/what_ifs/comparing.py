"""Cases over seeds, beside what is and beside one another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.what_if import Compared, UnplacedPods, WhatIfCase, WhatIfChanges, WhatIfs
from cotenant.services.assess.what_ifs.outcomes import CaseInputs, CaseOutcome, as_it_is, outcome

Stage = Callable[[str], None]
_MAX_REASONS = 20


More = Callable[[CaseOutcome, int], tuple[AssessedFigure, ...]]
"""Figures of an outcome that only a seed decides."""


def compared(
    given: CaseInputs,
    cases: Sequence[WhatIfChanges],
    seeds: Sequence[int],
    stage: Stage,
    more: More = lambda outcome, seed: (),
    before: CaseOutcome | None = None,
) -> WhatIfs:
    """Run every case under every seed. `before`: the cluster as it is, where that is known already. Raises
    `InvalidInput` where a change names what is not there.
    """
    if before is None:
        stage("the cluster as it is")
        before = as_it_is(given)
    bases = [(*before.figures, *more(before, seed)) for seed in seeds]
    ran: list[list[CaseOutcome]] = []
    for case in cases:
        outcomes = []
        for number, seed in enumerate(seeds, 1):
            stage(f"what if {case.text}: seed {number} of {len(seeds)}")
            found = outcome(given, before, case, seed)
            outcomes.append(replace(found, figures=(*found.figures, *more(found, seed))))
        ran.append(outcomes)
    rows = []
    for at, one in enumerate(bases[0]):
        of_base = [figures[at] for figures in bases]
        of_cases = [[found.figures[at] for found in outcomes] for outcomes in ran]
        rows.append(
            Compared(
                one.title,
                one.unit,
                one if at < len(before.figures) else over_seeds(of_base),
                tuple(over_seeds(figures) for figures in of_cases),
                tuple(_difference(of_base, figures, "less what is") for figures in of_cases),
                _difference(of_cases[0], of_cases[1], "of the second less the first") if len(cases) == 2 else None,
            )
        )
    told = tuple(_case(case, outcomes) for case, outcomes in zip(cases, ran, strict=True))
    return WhatIfs(tuple(seeds), told, tuple(rows))


def over_seeds(figures: Sequence[AssessedFigure]) -> AssessedFigure:
    """The median; the smallest and the largest."""
    one = figures[0]
    values = [figure.value for figure in figures if figure.value is not None]
    if len(values) < len(figures):
        why = next(figure.why for figure in figures if figure.value is None)
        return unknown(one.key, one.title, one.unit, one.definition, why)
    interval = f"of {len(values)} seeds the smallest and the largest; the value is their median"
    return AssessedFigure(
        one.key, one.title, median(values), one.unit, one.definition, interval, min(values), max(values)
    )


def _difference(first: Sequence[AssessedFigure], second: Sequence[AssessedFigure], words: str) -> AssessedFigure:
    """Seed by seed."""
    one = second[0]
    definition = f"{one.definition}; {words}, seed by seed"
    if any(figure.value is None for figure in (*first, *second)):
        why = next(figure.why for figure in (*first, *second) if figure.value is None)
        return unknown(one.key, one.title, one.unit, definition, why)
    gaps = [(b.value or 0.0) - (a.value or 0.0) for a, b in zip(first, second, strict=True)]
    interval = f"of {len(gaps)} seeds the smallest and the largest; the value is their median"
    return AssessedFigure(one.key, one.title, median(gaps), one.unit, definition, interval, min(gaps), max(gaps))


def _case(case: WhatIfChanges, outcomes: Sequence[CaseOutcome]) -> WhatIfCase:
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(outcomes))
    example: dict[str, str] = {}
    for at, found in enumerate(outcomes):
        for key, why in found.unplaced.items():
            counts[why][at] += 1
            example.setdefault(why, key)
    unplaced = [UnplacedPods(why, median(pods), example[why]) for why, pods in counts.items()]
    unplaced.sort(key=lambda one: (-one.pods, one.why))
    notes = tuple(dict.fromkeys(note for found in outcomes for note in found.notes))
    return WhatIfCase(case.text, tuple(unplaced[:_MAX_REASONS]), notes[:_MAX_REASONS])
