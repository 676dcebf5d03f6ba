from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.interference.settings import MAX_SLICES, InterferenceSettings


def test_the_defaults_are_the_published_ones() -> None:
    given = InterferenceSettings()
    assert (given.sample_us, given.every_us, given.window_us) == (10_000_000, 60_000_000, 600_000_000)
    assert (given.outliers, given.outlier_window_us, given.sigmas) == (3, 300_000_000, 2)
    assert (given.suspect_ppm, given.min_victim_cpu_m) == (350_000, 250)
    assert (given.cap_cpu_m, given.cap_lowest_cpu_m, given.cap_us) == (100, 10, 300_000_000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sample_us": 0},
        {"sample_us": 61_000_000},
        {"every_us": 700_000_000},
        {"every_us": 1_000_000, "sample_us": 1_000_000},  # 600 samples in the window
        {"threshold_ppm": 0},
        {"outliers": 0},
        {"cap_us": 0},
        {"cap_cpu_m": 5},
        {"suspect_ppm": -1},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        InterferenceSettings(**wrong)


def test_a_window_holds_a_hundred_and_twenty_samples_and_no_more() -> None:
    most = {"sample_us": 1_000_000, "every_us": 1_000_000}
    assert InterferenceSettings(window_us=MAX_SLICES * 1_000_000, **most).window_us == 120_000_000
    assert InterferenceSettings(window_us=MAX_SLICES * 1_000_000 + 999_999, **most)  # a part of one more
    with pytest.raises(InvalidInput, match="at most 120 samples, 120000000 us"):
        InterferenceSettings(window_us=(MAX_SLICES + 1) * 1_000_000, **most)
