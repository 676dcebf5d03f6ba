"""Calm windows, and the lateness monitor's record of a stalled core."""

import json

import pytest

from cotenant_lab.experiments.loads.open_loop import Slot
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.measures.windows import LATE_US, WINDOW_US, MeasuredWindow, calm, joined, lags, latencies
from cotenant_lab.experiments.site.lateness import STEP_US, Lateness, observe

FIRST = 1000


def histogram(*values_us: int) -> Histogram:
    found = Histogram()
    for value in values_us:
        found.add(value)
    return found


def window(place: int, late_us: int | None = 0, lag_us: int = 0, latency_us: int = 100) -> MeasuredWindow:
    return MeasuredWindow(FIRST + place, late_us, histogram(latency_us), histogram(lag_us))


def places(windows: list[MeasuredWindow]) -> list[int]:
    return [window.index - FIRST for window in windows]


@pytest.mark.parametrize(
    ("late_us", "lag_us", "is_calm"),
    [
        (0, 0, True),
        (LATE_US, LATE_US, True),
        (LATE_US + 1, 0, False),
        (0, LATE_US + 20, False),
        (None, 0, False),
    ],
)
def test_a_late_or_missing_monitor_disturbs_its_window_and_the_next(
    late_us: int | None, lag_us: int, is_calm: bool
) -> None:
    windows = [window(0), window(1), window(2, late_us, lag_us), window(3), window(4)]
    assert places(calm(windows)) == ([1, 2, 3, 4] if is_calm else [1, 4])


def test_a_window_after_one_that_is_not_known_is_not_calm() -> None:
    assert places(calm([window(0), window(2), window(3)])) == [3]
    assert calm([]) == []


def test_calm_windows_do_not_depend_on_latency() -> None:
    assert places(calm([window(0), window(1, latency_us=9_000_000)])) == [1]


def test_windows_of_a_load_have_no_gaps_and_include_the_monitor() -> None:
    slots = [Slot(7, histogram(100), histogram(1)), Slot(9, histogram(300, 400), histogram(2, 3))]
    found = joined(slots, Lateness(8, [50]).at)
    assert [(window.index, window.late_us, window.latency.total) for window in found] == [
        (7, None, 1),
        (8, 50, 0),
        (9, None, 2),
    ]
    assert (latencies(found).total, lags(found).quantile_us(1.0)) == (3, 3)
    assert joined([], Lateness(8, [50]).at) == []


def test_a_stored_window_is_read_again() -> None:
    stored = json.loads(json.dumps(window(3, None, 5, 77).to_list()))
    assert MeasuredWindow.from_list(stored).to_list() == window(3, None, 5, 77).to_list()


class Core:
    """A clock that jumps where the core is taken away; a sleep that ends then ends late."""

    def __init__(self, stalls_us: dict[int, int], began_us: int) -> None:
        self._stalls = {at * 1000: length * 1000 for at, length in stalls_us.items()}
        self.now_ns = began_us * 1000

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)
        for at, length in self._stalls.items():
            if at <= self.now_ns < at + length:
                self.now_ns = at + length


def observed(stalls_us: dict[int, int], windows: int) -> Lateness:
    core = Core(stalls_us, FIRST * WINDOW_US + 1)
    asked = iter(range(windows + 1))
    return observe(lambda: core.now_ns, core.sleep, lambda: next(asked) == windows)


def test_the_monitor_starts_at_the_next_window() -> None:
    assert observed({}, 3) == Lateness(FIRST + 1, [0, 0, 0])


def test_a_stall_shows_in_every_window_that_it_touched() -> None:
    second = (FIRST + 2) * WINDOW_US
    seen = observed({second - 3_000: 8_000}, 3)  # from 3 ms before a border to 5 ms after it
    assert seen.late_us == [7_000, 5_000, 0]  # looks are due 2 ms before the border and at it
    whole = observed({second + 1: 2 * WINDOW_US}, 4)
    assert whole.late_us == [0, 2 * WINDOW_US - STEP_US + 1, WINDOW_US + 1, 1]


def test_lateness_is_known_only_for_monitored_windows() -> None:
    seen = Lateness(5, [10, 20])
    assert [seen.at(index) for index in (4, 5, 6, 7)] == [None, 10, 20, None]
