"""The last hour in snapshots and sums: what the slider and the curves show."""

import pytest

from cotenant.services.console.fleet import ClusterTotals
from cotenant.services.console.history import KEEP_S, SPAN_S, SUM_S, SnapshotHistory


def test_requested_includes_what_is_requested_of_lent_cpu_as_the_clusters_bar_does() -> None:
    history = SnapshotHistory()
    history.add(60.0, ClusterTotals(cpu_m=1000, requested_m=400, lent_requested_m=300))
    history.add(70.0, ClusterTotals(cpu_m=1000, requested_m=400, lent_requested_m=300, used_m=250))
    curves = history.curves()
    assert curves["at"] == [60.0, 70.0]
    assert curves["requested"] == [0.7, 0.7]
    assert curves["lent"] == [0.3, 0.3]
    assert curves["used"] == [None, 0.25]


def test_every_curve_has_a_point_for_each_sum_and_a_cluster_without_cpu_has_no_shares_to_divide() -> None:
    history = SnapshotHistory()
    history.add(60.0, ClusterTotals(cpu_m=2000, requested_m=500, used_m=0, pending=3, burning=2))
    history.add(70.0, ClusterTotals())
    assert history.curves() == {
        "at": [60.0, 70.0],
        "requested": [0.25, 0.0],
        "used": [0.0, None],
        "lent": [0.0, 0.0],
        "pending": [3.0, 0.0],
        "burning": [2.0, 0.0],
    }


@pytest.mark.parametrize("step_s", [1.0, 7.0, 45.0])
def test_of_two_hours_the_last_one_is_there_at_every_second(step_s: float) -> None:
    history = SnapshotHistory()
    kept: list[float] = []
    sums: list[float] = []
    assert history.at(0.0) is None
    for second in range(int(2 * SPAN_S / step_s)):
        now_s = second * step_s
        assert history.wants_snapshot(now_s) == (not kept or now_s >= kept[-1] + KEEP_S)
        assert history.wants_sums(now_s) == (not sums or now_s >= sums[-1] + SUM_S)
        if history.wants_snapshot(now_s):
            history.keep(now_s, f"at {now_s}".encode())
            kept.append(now_s)
        if history.wants_sums(now_s):
            history.add(now_s, ClusterTotals())
            sums.append(now_s)
    kept = kept[-round(SPAN_S / KEEP_S) :]
    assert history.times() == kept
    assert history.curves()["at"] == sums[-round(SPAN_S / SUM_S) :]
    for at_s in (*kept, *(at + KEEP_S / 2 for at in kept), kept[0] - 1.0, kept[-1] + SPAN_S):
        newest = max((at for at in kept if at <= at_s), default=kept[0])
        assert history.at(at_s) == f"at {newest}".encode()
