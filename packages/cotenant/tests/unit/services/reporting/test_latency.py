"""Latency reports: what is accepted, and refusals by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import ServiceHealth
from cotenant.services.reporting.latency import find, quantile_us, read, requests_within

PLAIN = {"workload": "shop/web", "window_s": 10, "requests": 1200, "p99_us": 8300, "over_objective": 3}
HISTOGRAM = {"workload": "shop/web", "window_s": 10, "bounds_us": [1000, 5000, 20000], "counts": [900, 80, 19, 1]}


def health(report: dict[str, Any], objective_us: int | None = None) -> ServiceHealth:
    return read(json.dumps(report).encode()).health(objective_us)


def test_a_senders_percentile_is_used_unchanged() -> None:
    assert health(PLAIN, 5000) == ServiceHealth(10_000_000, 1200, 8300, 3, 0)
    assert health({**PLAIN, "age_s": 1.5}).age_us == 1_500_000


def test_a_histogram_becomes_a_percentile_and_a_count() -> None:
    # 1000 requests; the 990th is the 10th of 19 between 5000 and 20000.
    found = health(HISTOGRAM, 5000)
    assert (found.requests, found.p99_us, found.over_objective) == (1000, round(5000 + 15000 * 10 / 19), 20)


def test_an_objective_inside_a_bucket_divides_it() -> None:
    assert health(HISTOGRAM, 3000).over_objective == 1000 - 900 - 40
    assert health(HISTOGRAM, 10**6).over_objective == 1  # beyond the last bound: slower than any objective
    assert health(HISTOGRAM, None).over_objective == 0


def test_an_empty_window() -> None:
    found = health({**HISTOGRAM, "counts": [0, 0, 0, 0]}, 5000)
    assert (found.requests, found.p99_us, found.over_objective) == (0, 0, 0)


@pytest.mark.parametrize(
    ("report", "field"),
    [
        ({**PLAIN, "requests": -1}, "requests"),
        ({**PLAIN, "requests": 1.5}, "requests"),
        ({**PLAIN, "p99_us": 10**12}, "p99_us"),
        ({**PLAIN, "window_s": 0}, "window_s"),
        ({**PLAIN, "workload": ""}, "workload"),
        ({**PLAIN, "over_objective": 1201}, "over_objective"),
        ({"workload": "a/b", "window_s": 1}, "requests, p99_us"),
        ({**PLAIN, "bounds_us": [1], "counts": [1, 2]}, "requests, p99_us, over_objective"),
        ({"workload": "a/b", "window_s": 1, "counts": [1, 2]}, "bounds_us, counts"),
        ({**HISTOGRAM, "bounds_us": [1000, 1000, 2000]}, "bounds_us"),
        ({**HISTOGRAM, "bounds_us": [], "counts": [1]}, "bounds_us"),
        ({**HISTOGRAM, "counts": [1, 2, 3]}, "counts"),
        ({**HISTOGRAM, "counts": [1, 2, 3, "x"]}, "counts[3]"),
        ({**HISTOGRAM, "bounds_us": list(range(1, 300)), "counts": [0] * 300}, "bounds_us"),
    ],
)
def test_a_wrong_report_names_its_field(report: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        health(report)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("report", "line"),
    [
        ({**PLAIN, "p99_us": -1}, "p99_us: out of bounds: expected int >= 0"),
        ({**PLAIN, "window_s": "1"}, "window_s: str: expected float"),
        ({"window_s": 1}, "workload: missing: expected a value"),
        ({**PLAIN, "p99": 1}, "p99: unknown: expected one of workload, window_s, requests, p99_us, "),
    ],
)
def test_an_invalid_report_gives_a_one_line_error(report: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        health(report)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"workload": "a"}', b"\xff", b'{"p99": 1}', b"[" * 100_000])
def test_malformed_reports(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        read(body)


histograms = st.lists(st.integers(1, 10**6), min_size=1, max_size=20, unique=True).flatmap(
    lambda bounds: st.tuples(
        st.just(sorted(bounds)), st.lists(st.integers(0, 1000), min_size=len(bounds) + 1, max_size=len(bounds) + 1)
    )
)


@given(histograms, st.integers(1, 99))
def test_a_quantile_has_its_share_within(histogram: tuple[list[int], list[int]], percent: int) -> None:
    bounds, counts = histogram
    at = quantile_us(bounds, counts, percent / 100)
    within, total = requests_within(bounds, counts, at), sum(counts)
    if at < bounds[-1]:
        slope = max(counts)  # rounding to a microsecond moves at most half a microsecond's worth of a bucket
        assert abs(within - total * percent / 100) <= slope * 0.5 + 1e-6
    assert 0 <= within <= total


def test_a_workload_is_found_by_each_of_its_names() -> None:
    pods = [NodePod("u1", "shop", "web", "services/web"), NodePod("u2", "jobs", "one", "batch/one")]
    assert find("jobs/one", pods) is find("u2", pods) is find("batch/one", pods) is pods[1]
    assert find("jobs/two", pods) is None


def test_of_pods_with_one_name_the_running_one_is_chosen() -> None:
    over, leaving, running = (
        NodePod(phase, "shop", "web-0", f"pods/{phase}", phase=phase) for phase in reversed(NodePodPhase)
    )
    assert find("shop/web-0", [over, leaving, running]) is running
    assert find("shop/web-0", [over, leaving]) is leaving
    assert find("shop/web-0", [over]) is None
