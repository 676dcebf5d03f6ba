"""Requests against use by workload."""

from __future__ import annotations

import numpy as np

from cotenant.model.assess.history import AssessedHistory
from cotenant.policy.assess.workloads import WorkloadRequests, by_workload, most_idle

ASKED = WorkloadRequests(("a", "b", "c"), np.array([2, 1, 1]), np.array([4000, 9000, 500]), np.array([1024, 2048, 64]))


def history(values: dict[str, np.ndarray]) -> AssessedHistory:
    rows = np.array(list(values.values()), np.float32)
    return AssessedHistory(0.0, 3600.0, tuple(values), rows, rows / 4, "made up")


def test_idle_is_beyond_the_p99_and_the_most_idle_come_first() -> None:
    use = history({"a": np.full(48, 1000.0), "b": np.full(48, 8500.0)})
    found = by_workload(ASKED, use)
    assert [workload.name for workload in found] == ["b", "a", "c"]
    assert [workload.idle_cpu_m for workload in found] == [500.0, 3000.0, None]
    assert found[1].idle_memory_mib == 1024 - 250
    assert found[1].cpu_peak_m == (1000.0, 1000.0)
    assert [workload.name for workload in most_idle(found)] == ["a", "b"]


def test_of_one_measurement_there_are_no_quantiles() -> None:
    found = {workload.name: workload for workload in by_workload(ASKED, history({"a": np.array([900.0])}))}
    assert (found["a"].cpu_p50_m, found["a"].cpu_p99_m, found["a"].idle_cpu_m) == (None, None, 3100.0)


def test_use_beyond_requests_is_not_idle() -> None:
    found = {workload.name: workload for workload in by_workload(ASKED, history({"c": np.full(20, 800.0)}))}
    assert found["c"].idle_cpu_m == 0.0
    assert most_idle(tuple(found.values())) == ()


def test_without_use_only_requests_are_known() -> None:
    assert all(workload.idle_cpu_m is None for workload in by_workload(ASKED, None))
    none = np.zeros(0, np.int64)
    assert by_workload(WorkloadRequests((), none, none, none), None) == ()
