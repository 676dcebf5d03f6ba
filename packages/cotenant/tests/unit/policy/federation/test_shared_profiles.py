"""What clusters learned of one workload, combined: the windows weigh, and one that lies is outvoted."""

from __future__ import annotations

from itertools import product

import pytest

from cotenant.policy.federation.shared_profiles import MAX_WINDOWS, Evidence, SharedProfile, combined, together


def of(*told: tuple[int, int]) -> int:
    """The combined value of these values and windows."""
    found = combined([Evidence(value, value, value, windows) for value, windows in told])
    assert found is not None
    return found.value


@pytest.mark.parametrize(
    ("told", "value"),
    [
        ([(300, 50)], 300),
        ([(300, 50), (500, 50)], 400),
        ([(300, 1_000_000), (500, 20)], 400),  # of two each decides half
        ([(100, 20), (300, 20), (900, 20)], 300),
        ([(100, 90), (300, 20), (900, 20)], 300),  # 90 is cut to 39, less than half of 79
        ([(100, 30), (300, 40), (900, 20)], 300),
        ([(0, 10), (100, 10), (200, 10), (300, 10)], 150),
    ],
)
def test_the_weighted_median(told: list[tuple[int, int]], value: int) -> None:
    assert of(*told) == value


def test_ends_of_the_interval_are_combined_like_the_value() -> None:
    told = [Evidence(300, 250, 350, 20), Evidence(400, 100, 700, 20), Evidence(500, 480, 520, 20)]
    assert combined(told) == Evidence(400, 250, 520, 60)
    assert combined([]) is None
    assert combined([Evidence(1, 0, 2, 10**9)] * 3) == Evidence(1, 0, 2, MAX_WINDOWS)


def test_from_three_on_one_that_lies_moves_nothing_beyond_what_the_others_state() -> None:
    values, windows = (0, 400, 410, 1000), (1, 30, 10**12)
    for honest in product(product(values, windows), repeat=2):
        for lie in product((0, 1000), windows):
            for place in range(3):
                told = [*honest[:place], lie, *honest[place:]]
                assert min(honest)[0] <= of(*told) <= max(honest)[0], told


def test_figures_are_combined_one_by_one() -> None:
    found = together(
        "web",
        [
            SharedProfile("web", Evidence(100, 90, 110, 30)),
            SharedProfile("web", pressure=Evidence(200, 190, 210, 40)),
            SharedProfile("web"),
        ],
    )
    assert found == SharedProfile("web", Evidence(100, 90, 110, 30), Evidence(200, 190, 210, 40), None, 2)
