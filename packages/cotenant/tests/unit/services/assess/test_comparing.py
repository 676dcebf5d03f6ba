"""Figures over seeds, differences seed by seed, and why pods have no place."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.assess.figure import AssessedFigure, counted, unknown
from cotenant.model.assess.history import no_history
from cotenant.model.assess.what_if import NoOvercommit, WhatIfChanges
from cotenant.services.assess.what_ifs import comparing
from cotenant.services.assess.what_ifs.comparing import compared, over_seeds
from cotenant.services.assess.what_ifs.outcomes import CaseOutcome

GIVEN: Any = object()


def figure(value: float | None) -> AssessedFigure:
    if value is None:
        return unknown("k", "Nodes", "nodes", "d", "nobody knows")
    return counted("k", "Nodes", value, "nodes", "d")


def spread(one: AssessedFigure) -> tuple[float | None, float | None, float | None]:
    return one.value, one.low, one.high


def result(*values: float | None, unplaced: dict[str, str] | None = None, notes: tuple[str, ...] = ()) -> CaseOutcome:
    return CaseOutcome(tuple(map(figure, values)), unplaced or {}, {}, no_history("none"), {}, notes)


def test_over_seeds_a_figure_is_the_median_with_the_smallest_and_the_largest() -> None:
    found = over_seeds([figure(value) for value in (5.0, 1.0, 3.0)])
    assert spread(found) == (3.0, 1.0, 5.0)
    assert found.interval == "of 3 seeds the smallest and the largest; the value is their median"
    assert (found.key, found.title, found.unit, found.definition) == ("k", "Nodes", "nodes", "d")
    lacking = over_seeds([figure(1.0), figure(None), figure(2.0)])
    assert (lacking.value, lacking.why) == (None, "nobody knows")


CASES = (WhatIfChanges("one", (NoOvercommit(),)), WhatIfChanges("two", ()))


def run(
    monkeypatch: pytest.MonkeyPatch, before: CaseOutcome, outcomes: dict[str, list[CaseOutcome]], more: Any = None
) -> tuple[Any, list[str]]:
    """`outcomes`: of each case, by seed 1, 2, ..."""
    stages: list[str] = []
    monkeypatch.setattr(comparing, "as_it_is", lambda given: before)
    monkeypatch.setattr(comparing, "outcome", lambda given, was, case, seed: outcomes[case.text][seed - 1])
    cases = [case for case in CASES if case.text in outcomes]
    seeds = range(1, 1 + len(next(iter(outcomes.values()))))
    extra = {"more": more} if more is not None else {}
    return compared(GIVEN, cases, tuple(seeds), stages.append, **extra), stages


def test_two_cases_are_compared_with_what_is_and_with_one_another_seed_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {"one": [result(12.0), result(20.0), result(31.0)], "two": [result(13.0), result(30.0), result(33.0)]}
    found, stages = run(monkeypatch, result(10.0), outcomes)
    (row,) = found.rows
    assert (row.title, row.unit, row.base.value) == ("Nodes", "nodes", 10.0)
    assert [spread(one) for one in row.cases] == [(20.0, 12.0, 31.0), (30.0, 13.0, 33.0)]
    assert [spread(one) for one in row.differences] == [(10.0, 2.0, 21.0), (20.0, 3.0, 23.0)]
    assert row.differences[0].definition == "d; less what is, seed by seed"
    assert spread(row.between) == (2.0, 1.0, 10.0)
    assert found.seeds == (1, 2, 3)
    assert stages[:2] == ["the cluster as it is", "what if one: seed 1 of 3"]
    assert len(stages) == 7


def test_one_case_has_nothing_to_be_compared_with_but_what_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = run(monkeypatch, result(10.0, None), {"one": [result(12.0, 3.0)]})
    known, lacking = found.rows
    assert known.between is None
    assert (lacking.base.why, lacking.cases[0].value) == ("nobody knows", 3.0)
    assert (lacking.differences[0].value, lacking.differences[0].why) == (None, "nobody knows")


def test_figures_that_only_a_seed_decides_have_a_base_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(outcome: CaseOutcome, seed: int) -> tuple[AssessedFigure, ...]:
        return (figure((outcome.figures[0].value or 0.0) * seed),)

    found, _ = run(monkeypatch, result(10.0), {"one": [result(12.0), result(12.0)]}, more)
    row = found.rows[1]
    assert spread(row.base) == (15.0, 10.0, 20.0)
    assert spread(row.cases[0]) == (18.0, 12.0, 24.0)
    assert spread(row.differences[0]) == (3.0, 2.0, 4.0)


def test_pods_without_a_place_by_reason_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = {
        "one": [
            result(1.0, unplaced={"a/x": "full", "a/y": "full", "a/z": "no zone"}, notes=("n1", "n2")),
            result(1.0, unplaced={"a/y": "full"}, notes=("n2", "n3")),
            result(1.0, unplaced={"b/w": "gone"}),
        ]
    }
    found, _ = run(monkeypatch, result(1.0), outcomes)
    (case,) = found.cases
    assert [(one.why, one.pods, one.example) for one in case.unplaced] == [
        ("full", 1, "a/x"),
        ("gone", 0, "b/w"),
        ("no zone", 0, "a/z"),
    ]
    assert (case.text, case.notes) == ("one", ("n1", "n2", "n3"))
    many = result(1.0, unplaced={f"a/{i:02}": f"why {i:02}" for i in range(30)}, notes=tuple(map(str, range(30))))
    (case,) = run(monkeypatch, result(1.0), {"one": [many]})[0].cases
    assert (len(case.unplaced), len(case.notes)) == (20, 20)
