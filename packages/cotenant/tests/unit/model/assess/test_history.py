from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory, no_history
from cotenant.model.errors import InvalidInput

NAN = np.nan


def a_history(rows: dict[str, list[float]], start_s: float = 0.0, step_s: float = 300.0) -> AssessedHistory:
    values = np.array(list(rows.values()), np.float32).reshape(len(rows), -1)
    return AssessedHistory(start_s, step_s, tuple(rows), values, values * 2, "a test")


def test_columns_are_found_by_time_without_a_copy() -> None:
    history = a_history({"a": [1, 2, 3, 4]}, start_s=1000.0, step_s=100.0)
    part = history.between(1050.0, 1300.0)
    assert (part.start_s, part.cpu_m.tolist(), part.end_s) == (1100.0, [[2, 3]], 1300.0)
    assert np.shares_memory(part.cpu_m, history.cpu_m)
    assert history.between(0.0, 1.0).steps == 0
    assert history.between(1300.0, 9999.0).cpu_m.tolist() == [[4]]


def test_rows_of_names() -> None:
    history = a_history({"a": [1], "b": [2]})
    assert history.rows(["b", "c", "a"]).tolist() == [1, -1, 0]
    assert history.of_rows(np.array([1])).names == ("b",)


def test_a_sum_stands_for_series_that_miss_a_value_and_not_for_those_that_did_not_exist() -> None:
    history = a_history(
        {
            "a": [1, 1, 1, 1, NAN],
            "b": [3, NAN, 3, 3, NAN],  # a gap: expected
            "c": [NAN, NAN, 5, NAN, NAN],  # began and ended: not expected before and after
            "d": [9, 9, 9, 9, 9],
        }
    )
    summed = history.summed(["w", "w", "w", ""])
    assert summed.names == ("w",)
    np.testing.assert_array_equal(summed.cpu_m, [[4, 2, 9, 4, NAN]])
    np.testing.assert_array_equal(summed.memory_mib, [[8, 4, 18, 8, NAN]])
    np.testing.assert_array_equal(history.summed(["w", "w", "w", ""], min_known=0.6).cpu_m, [[4, NAN, 9, 4, NAN]])


def test_sums_agree_with_a_loop() -> None:
    rng = np.random.default_rng(3)
    values = rng.gamma(2.0, 100.0, (40, 60)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = NAN
    groups = [("", "x", "y", "z")[i] for i in rng.integers(0, 4, 40)]
    found = AssessedHistory(0, 60, tuple(str(i) for i in range(40)), values, values).summed(groups)
    for g, name in enumerate(found.names):
        rows = [i for i in range(40) if groups[i] == name]
        for column in range(60):
            extents = {row: np.flatnonzero(~np.isnan(values[row])) for row in rows}
            expected = [row for row in rows if extents[row][0] <= column <= extents[row][-1]]
            known = [float(values[row, column]) for row in expected if not np.isnan(values[row, column])]
            if not known or len(known) < 0.5 * len(expected):
                assert np.isnan(found.cpu_m[g, column])
            else:
                assert found.cpu_m[g, column] == pytest.approx(sum(known) * len(expected) / len(known), rel=1e-5)


def test_pods_join_their_workloads_and_nodes() -> None:
    use = a_history({"ns/a-1": [1, 1], "ns/a-2": [2, NAN], "ns/b": [4, 4]})
    request = np.array([100, 100, NAN], np.float32)
    pods = PodHistory(use, ("n1", "n2", "n1"), ("ns/Deployment/a", "ns/Deployment/a", ""), request, request)
    assert pods.by_workload().names == ("ns/Deployment/a",)
    np.testing.assert_array_equal(pods.by_workload().cpu_m, [[3, 1]])
    np.testing.assert_array_equal(pods.by_node().cpu_m, [[5, 5], [2, NAN]])
    np.testing.assert_array_equal(pods.by_node(np.array([False, False, True])).cpu_m, [[4, 4]])


def test_a_snapshot_fills_what_the_source_did_not_know() -> None:
    use = a_history({"ns/a": [1], "ns/b": [2]})
    none = np.full(2, NAN, np.float32)
    pods = PodHistory(use, ("n1", ""), ("", ""), none, none)
    found = pods.joined({"ns/a": "n9", "ns/b": "n2"}, {"ns/b": "ns/Job/b"})
    assert (found.node, found.workload) == (("n1", "n2"), ("", "ns/Job/b"))


def test_nothing_known() -> None:
    nothing = no_history("No measurements: requests only.")
    assert isinstance(nothing, ClusterHistory)
    assert nothing.pods.by_workload().names == ()
    assert (nothing.nodes.steps, nothing.nodes.known_share) == (0, 0.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"step_s": 0.0}, "a step above 0"),
        ({"start_s": NAN}, "a step above 0"),
        ({"cpu_m": np.zeros((2, 3))}, "float32 [2 series, steps]"),
        ({"memory_mib": np.zeros((1, 3), np.float32)}, "float32 [2 series, steps]"),
        ({"memory_mib": np.zeros((2, 4), np.float32)}, "as cpu_m, (2, 3)"),
    ],
)
def test_a_history_that_does_not_fit_is_refused(change: dict[str, object], said: str) -> None:
    fitting = {
        "start_s": 0.0,
        "step_s": 60.0,
        "names": ("a", "b"),
        "cpu_m": np.zeros((2, 3), np.float32),
        "memory_mib": np.zeros((2, 3), np.float32),
    }
    with pytest.raises(InvalidInput) as refused:
        AssessedHistory(**{**fitting, **change})  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_a_join_that_does_not_fit_is_refused() -> None:
    use = a_history({"ns/a": [1]})
    none = np.zeros(1, np.float32)
    with pytest.raises(InvalidInput, match="pods' node"):
        PodHistory(use, (), ("w",), none, none)
    with pytest.raises(InvalidInput, match="groups of a history"):
        use.summed(["a", "b"])
