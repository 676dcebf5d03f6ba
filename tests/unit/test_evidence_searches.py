"""Searches for the load at which a policy stops keeping its objectives, and the tables of their figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.evidence.searches import (
    SEARCHES,
    Found,
    Run,
    SearchSummary,
    bracket,
    ratio,
    read_search,
    section,
    write_search,
)

from cotenant.model.errors import InvalidInput
from cotenant_lab.registry import scenario


def a_run(load: float, service: float = 0.0, batch: float = 0.0, used: float = 0.0) -> Run:
    return Run(load, used or load / 2, load, load, service, batch, {"queueing": 0.0, "restarts": 0.0, "slowdown": 0.0})


def found(policy: str, seed: int, limit: float, law: str = "linear") -> Found:
    """A policy whose batch violation is 0 at `limit` - 0.05 and 2 % at `limit` + 0.05, so 1 % at `limit`."""
    return Found(policy, seed, law, a_run(limit - 0.05), a_run(limit + 0.05, batch=0.02))


SUMMARY = SearchSummary(
    "lending",
    "python -m bench.evidence --only lending --seeds 1-2",
    "0.1.0",
    "abcdef0",
    "1234",
    "ours",
    ("ours", "rival"),
    (
        found("ours", 1, 0.9),
        found("rival", 1, 0.6),
        found("ours", 2, 1.0, "knee"),
        found("rival", 2, 0.8, "knee"),
    ),
)


@pytest.mark.parametrize(
    ("begin", "low", "high"), [(0.7, 0.80, 0.85), (0.85, 0.80, 0.85), (1.0, 0.80, 0.85), (0.8, 0.80, 0.85)]
)
def test_a_search_ends_between_the_last_load_that_holds_and_the_first_that_does_not(
    begin: float, low: float, high: float
) -> None:
    asked: list[float] = []

    def run(load: float) -> Run:
        asked.append(load)
        return a_run(load, service=0.0 if load <= 0.8 else 0.02)

    pair = bracket(begin, 0.05, run)
    assert pair is not None
    assert [entry.load for entry in pair] == [low, high]
    assert len(set(asked)) == len(asked) == round(abs(begin - 0.825) / 0.05 + 0.5) + 1


@pytest.mark.parametrize("violation", [0.0, 0.5])
def test_a_policy_without_a_limit_has_no_figure(violation: float) -> None:
    assert bracket(0.9, 0.05, lambda load: a_run(load, batch=violation)) is None


def test_figures_are_interpolated_where_the_first_class_reaches_one_percent() -> None:
    element = Found(
        "p", 1, "linear", a_run(0.8, service=0.005, used=0.40), a_run(0.9, service=0.015, batch=0.04, used=0.50)
    )
    assert element.at_objective("load") == pytest.approx(0.825)  # batch is first: 0 to 4 %
    assert element.at_objective("used") == pytest.approx(0.425)


def test_ratios_are_paired_by_seed_and_by_law() -> None:
    assert ratio(SUMMARY, "rival").mean == pytest.approx((0.9 / 0.6 + 1.0 / 0.8) / 2)
    assert ratio(SUMMARY, "rival", "knee").mean == pytest.approx(1.25)
    assert ratio(replace_found(SUMMARY, SUMMARY.found[:3]), "rival").count == 1


def replace_found(summary: SearchSummary, left: tuple[Found, ...]) -> SearchSummary:
    return SearchSummary(**{**{name: getattr(summary, name) for name in summary.__struct_fields__}, "found": left})


def test_the_section_has_a_row_for_each_policy_and_law() -> None:
    text = "\n".join(section(SUMMARY))
    assert "| **ours** | 2 | 47.5 ±31.8 |  |" in text
    assert "| rival | 2 | 35.0 ±63.5 | 1.375 ±1.588 |" in text
    assert "| rival | 0.750 | 37.5 | 0.00 | 2.00 | 0, 2, 0 |" in text
    assert "| knee | 1 | 50.0 | 40.0 | 1.25 |" in text


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_search(tmp_path, SUMMARY)
    assert read_search(tmp_path, "lending") == SUMMARY
    with pytest.raises(InvalidInput, match="--only other"):
        read_search(tmp_path, "other")


@pytest.mark.parametrize("search", SEARCHES, ids=lambda entry: entry.name)
def test_every_search_begins_within_its_loads_with_policies_that_exist(search) -> None:
    known = {info.name for info in scenario("colocation").policies()}
    assert {policy for policy, _ in search.begin} <= known
    assert all(0.5 < load < 1.3 for _, load in search.begin)
    assert replace(search, seeds="1").command.endswith("--seeds 1")
