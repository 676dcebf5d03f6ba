from __future__ import annotations

import numpy as np
import pytest

from cotenant_lab.baselines.firmament.costs import above_placement
from cotenant_lab.baselines.firmament.network import Prices


def prices(unscheduled: list[int]) -> Prices:
    return Prices(
        unscheduled=np.array(unscheduled),
        enter=np.array([3, 5, 4]),
        assign=np.array([[10, 40], [99, 20]]),
        first=np.array([1, 2]),
        slope=np.array([7, 0]),
    )


# class 0 fits both machines, class 1 only the second. The dearest placement: 5 to enter, and either the third task on
# the first machine, 10 + 1 + 2 x 7 = 25, or 40 + 2 on the second
FITS = np.array([[3, 1], [0, 2]])


def test_all_are_lifted_alike_until_the_least_exceeds_the_dearest_placement() -> None:
    assert above_placement(prices([20, 50, 35]), FITS).unscheduled.tolist() == [48, 78, 63]


def test_the_dearest_placement_counts_the_last_slot_of_a_machine() -> None:
    fits = np.array([[3, 0], [0, 2]])
    # now 10 + 1 + 2 x 7 = 25 on the first machine, 20 + 2 on the second
    assert above_placement(prices([20, 50, 35]), fits).unscheduled.tolist() == [31, 61, 46]


@pytest.mark.parametrize("fits", [FITS, np.zeros((2, 2), np.int64)])
def test_what_is_high_enough_stays(fits) -> None:
    assert above_placement(prices([48, 50, 49]), fits).unscheduled.tolist() == [48, 50, 49]
