from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.run_queue import BUCKETS, GroupWaits, RunQueueReading, WaitHistogram


def histogram(*buckets: int, sum_us: int = 0) -> WaitHistogram:
    return WaitHistogram(sum(buckets), sum_us, (*buckets, *([0] * (BUCKETS - len(buckets)))))


@pytest.mark.parametrize(
    ("percent", "wanted"),
    [
        (50, 2),  # the end of [0, 2)
        (75, 3),  # half of [2, 4)
        (100, 4),
        (0, 0),
    ],
)
def test_a_percentile_is_interpolated_in_its_bucket(percent: float, wanted: int) -> None:
    assert histogram(10, 10).percentile_us(percent) == wanted


def test_one_bucket_far_up_gives_its_bounds() -> None:
    waits = histogram(*([0] * 11), 4)  # [2048, 4096)
    assert waits.percentile_us(0) == 2048
    assert waits.percentile_us(50) == 3072
    assert waits.percentile_us(100) == 4096


def test_without_waits_there_is_no_percentile() -> None:
    assert WaitHistogram().percentile_us(99) is None


@pytest.mark.parametrize("percent", [-1, 101])
def test_a_percentile_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(InvalidInput):
        histogram(1).percentile_us(percent)


def test_two_readings_are_taken_from_one_another() -> None:
    assert histogram(3, 5, sum_us=70).since(histogram(1, 5, sum_us=50)) == histogram(2, 0, sum_us=20)


def test_counters_that_began_anew_count_whole() -> None:
    assert histogram(1, sum_us=5).since(histogram(4, sum_us=90)) == histogram(1, sum_us=5)


def test_the_counters_of_one_group() -> None:
    reading = RunQueueReading(0, (GroupWaits("a", histogram(1)), GroupWaits("b", histogram(2))))
    assert reading.waits_of("b") == GroupWaits("b", histogram(2))
    assert reading.waits_of("c") is None
