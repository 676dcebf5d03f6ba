"""The sentences of the report follow from the figures, and are absent without them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_lab import experiment, registry
from cotenant_lab.comparison import Comparison, compare
from cotenant_lab.contract import RunSpec
from cotenant_lab.experiment import ExperimentPlan
from cotenant_lab.report.findings import findings
from cotenant_lab.statistics import Interval

pytestmark = pytest.mark.usefixtures("fake_workloads")

Make = Callable[..., Comparison]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(*policies: str, seeds: int = 4, loads: tuple[float, ...] = (0.77,), workload: str = "fake") -> Comparison:
        scenario = registry.scenario(workload)
        plan = ExperimentPlan(RunSpec(workload, "", 0, 0.0), policies, tuple(range(seeds)), loads)
        return compare(plan, scenario, experiment.run(plan, tmp_path, jobs=1))

    return made


def sentences(comparison: Comparison) -> str:
    return "\n".join(f"[{finding.kind}] {finding.text}" for finding in findings(comparison))


def test_leads_losses_and_the_distance_to_the_bound_are_reported(make: Make) -> None:
    text = sentences(make("cotenant", "edf-paragon", "random", "true-values", "cotenant-no-interference"))
    assert (
        "[lead] On SLO violation at 77 % load, paired by seed, cotenant is ahead of all 2 rivals: edf-paragon and "
        "random." in text
    )
    assert "The closest of them is edf-paragon" in text
    assert "[fact] true-values knows more than any scheduler can" in text
    assert "cotenant-no-interference +" in text
    assert "In no other figure that ranks policies is a rival ahead" in text


def test_a_loss_is_reported_as_one(make: Make) -> None:
    comparison = replace(make("cotenant", "random"), ours="random")
    flipped = tuple(
        replace(p, policy="cotenant", against="random", difference=replace(p.difference, mean=-p.difference.mean))
        for p in comparison.paired
    )
    text = sentences(replace(comparison, paired=flipped, roles={"random": "ours", "cotenant": "rival"}))
    assert "[loss] On SLO violation at 77 % load, paired by seed, random loses to the rival cotenant by" in text
    assert "[loss] Where random loses at 77 % load:" in text
    assert "fragmentation: to cotenant" in text


def test_a_difference_inside_its_interval_is_no_lead(make: Make) -> None:
    comparison = make("cotenant", "random")
    blurred = tuple(replace(p, difference=Interval(p.difference.mean, 1.0, 4)) for p in comparison.paired)
    text = sentences(replace(comparison, paired=blurred))
    assert (
        "[loss] On SLO violation at 77 % load, paired by seed, cotenant is not separated from the rival random ("
        in text
    )
    assert "is ahead" not in text


@pytest.mark.slow
def test_variants_are_listed_separately_from_rivals(make: Make) -> None:
    comparison = make("cotenant", "random", "edf-paragon", loads=(0.75, 0.85, 0.95))
    named = replace(comparison, roles=dict(comparison.roles) | {"edf-paragon": "variant"})
    rows = tuple(replace(row, role=named.roles[row.policy]) for row in comparison.sustained)
    text = sentences(replace(named, sustained=rows))
    assert "is ahead of its one rival: random by" in text
    assert (
        "[fact] On SLO violation at 85 % load, paired by seed, cotenant is ahead of its one variant: edf-paragon by"
        in text
    )
    assert "the best rival, random," in text
    assert "[fact] Variants, which know more or fit otherwise, sustain: edf-paragon 8" in text


def test_random_meeting_the_founding_targets_is_reported(make: Make) -> None:
    comparison = make("cotenant", "random", "best-fit", "first-fit")
    assert "founding targets" not in sentences(comparison)  # another workload
    text = sentences(replace(comparison, workload="founding"))
    assert "are met together by 2 of 4 policies" in text
    assert re.search(r"missed by first-fit \([^)]*fragmentation\); best-fit \([^)]*fragmentation\)\.", text)
    assert "[caution] Random placement meets all five founding targets too." in text


def test_random_missing_a_founding_target_is_not_reported_as_meeting_them(make: Make) -> None:
    text = sentences(replace(make("cotenant", "random", loads=(0.95,)), workload="founding"))
    assert "The five founding targets" in text
    assert "Random placement meets" not in text


def test_figures_determined_by_trace_and_load_are_reported(make: Make) -> None:
    text = sentences(make("cotenant", "best-fit"))
    assert "[caution] Dominant-share fairness is the same for all 2 policies" in text
    assert "[caution] Utilisation follows from the load." in text
    assert "The highest, best-fit with" in text


def test_dominant_share_that_differs_is_not_called_the_traces(make: Make) -> None:
    comparison = make("cotenant", "random")
    moved = dict(comparison.rows[0].figures) | {"dominant_fairness": Interval(0.5, 0.0, 4)}
    rows = (replace(comparison.rows[0], figures=moved), *comparison.rows[1:])
    assert "Dominant-share" not in sentences(replace(comparison, rows=rows))


@pytest.mark.slow
def test_the_sustained_load_is_reported_with_its_bounds(make: Make) -> None:
    text = sentences(make("cotenant", "edf-least-allocated", "best-fit", loads=(0.75, 0.85, 0.95)))
    assert "the best rival, edf-least-allocated, 8" in text
    assert "the interval excludes zero." in text
    assert "beyond it a sustained load is only bounded" in text
    assert "best-fit (4 of 4 seeds)" in text


def test_few_seeds_and_many_comparisons_give_cautions(make: Make) -> None:
    assert "[caution] One seed: there are no intervals" in sentences(make("cotenant", "random", seeds=1))
    text = sentences(make("cotenant", "random", "tetris", "founding", seeds=2))
    assert "[caution] Only 2 seeds" in text
    assert "would exclude zero by chance alone" in text


def test_one_seed_claims_neither_lead_nor_loss(make: Make) -> None:
    kinds = {finding.kind for finding in findings(make("cotenant", "random", seeds=1))}
    assert kinds <= {"caution", "fact"}


def test_failures_are_reported(make: Make) -> None:
    assert "4 of the runs failed" in sentences(make("cotenant", "raises"))


def test_a_workload_without_violations_is_judged_by_what_it_has(make: Make) -> None:
    text = sentences(make("cotenant", "random", workload="fake-packing"))
    assert "On success at 77 % load, paired by seed, cotenant is ahead of its one rival: random by" in text
    assert "sustain" not in text
    assert "Utilisation" not in text


def test_a_single_policy_has_no_comparison(make: Make) -> None:
    assert not {finding.kind for finding in findings(make("cotenant"))} & {"lead", "loss"}


def test_a_bound_is_no_policy_that_meets_or_misses_targets(make: Make) -> None:
    text = sentences(replace(make("cotenant", "random", "true-values"), workload="founding"))
    assert "are met together by 2 of 2 policies" in text
