"""Every figure has its definition, and is shown with an appropriate number of digits."""

from dataclasses import fields
from math import nan

import pytest

from cotenant_lab.contract import Measures
from cotenant_lab.derived_metrics import SUSTAINED_LOAD
from cotenant_lab.metric import decimals, show
from cotenant_lab.metrics import METRICS
from cotenant_lab.metrics_by_workload import catalogue, variants


def test_every_field_of_the_measures_is_defined_once_and_in_order() -> None:
    assert [metric.name for metric in METRICS] == [field.name for field in fields(Measures)]


@pytest.mark.parametrize(
    "metric", [*METRICS, SUSTAINED_LOAD, *(metric for _, metric in variants())], ids=lambda m: m.name
)
def test_a_definition_is_a_sentence_and_its_heading_fits(metric: object) -> None:
    assert len(metric.definition.split()) >= 6
    assert metric.definition.endswith(".")
    assert 0 < len(metric.short) <= 11


def test_figures_that_a_policy_does_not_own_do_not_rank_policies() -> None:
    ranking = {metric.name for metric in METRICS if metric.ranks}
    assert {"violation", "fragmentation", "granted_fairness", "first_failure"} <= ranking
    assert not ranking & {"utilisation", "utilisation_used", "dominant_fairness", "run_s", "decision_p50_us"}


def test_openb_allocation_ranks_policies_and_no_other_workload_is_touched() -> None:
    assert catalogue("openb:cpu250")["utilisation"].ranks
    assert not catalogue("founding")["utilisation"].ranks
    assert list(catalogue("openb")) == list(catalogue())


@pytest.mark.parametrize(
    ("name", "value", "half", "expected"),
    [
        ("success", 0.99984, 0.00012, "99.98 ±0.01"),
        ("violation", 0.0021, 0.0005, "0.21 ±0.05"),
        ("violation", 0.153, 0.021, "15.30 ±2.10"),
        ("violation", 0.0021, nan, "0.21"),
        ("violation", nan, nan, "–"),
        ("task_fairness", 0.98765, 0.0004, "0.988 ±0.000"),
        ("decision_p99_us", 1234.56, 200.0, "1,235 ±200"),
        ("evictions", 3.0, nan, "3.0"),
        ("fragmentation", -0.00001, nan, "0.00"),
    ],
)
def test_a_figure_is_shown_with_the_digits_of_its_interval(name: str, value: float, half: float, expected: str) -> None:
    assert show(catalogue()[name], value, half) == expected


def test_digits_never_fall_below_what_the_unit_needs() -> None:
    assert decimals(catalogue()["violation"], 0.5) == 2
    assert decimals(catalogue()["violation"], 0.0) == 2
    assert decimals(catalogue()["task_fairness"], 0.2) == 3


def test_dag_says_what_it_counts_by_job_task_and_round() -> None:
    dag, general = catalogue("dag"), catalogue()
    otherwise = {
        "success", "utilisation", "utilisation_memory", "violation", "violation_batch", "violation_count",
        "task_fairness",
        "slowdown_p50", "slowdown_p95", "slowdown_p99", "wait_p99_s", "decision_p50_us", "decision_p99_us", "run_s",
    }  # fmt: skip
    assert {name for name in dag if dag[name].definition != general[name].definition} == otherwise
    for name in ("violation", "violation_count", "task_fairness", "slowdown_p99"):
        assert "counted jobs" in dag[name].definition
    assert "round" in dag["decision_p99_us"].definition
    assert (dag["slowdown_p50"].subject, general["slowdown_p50"].subject) == ("jobs", "batch pods")
    assert not dag["utilisation"].ranks
