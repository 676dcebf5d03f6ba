from __future__ import annotations

import pytest

from cotenant.model.machine.node_state import PPM
from cotenant.policy.interference.correlation import score_ppm

THRESHOLD = 2 * PPM


def test_one_active_only_while_the_victim_suffers_scores_what_its_excess_says() -> None:
    # 1 - 2/4 at the one sample in which it was active
    assert score_ppm([(4 * PPM, 500), (PPM, 0)], THRESHOLD) == PPM // 2


def test_one_active_only_while_all_is_well_scores_below_zero() -> None:
    assert score_ppm([(4 * PPM, 0), (PPM, 500)], THRESHOLD) == -PPM // 2


def test_activity_weighs_the_samples() -> None:
    # 3/4 of its activity at 1 - 2/4, 1/4 at 1/2 - 1
    assert score_ppm([(4 * PPM, 300), (PPM, 100)], THRESHOLD) == PPM // 4


@pytest.mark.parametrize("points", [[], [(4 * PPM, 0)]])
def test_one_that_was_never_active_has_no_score(points: list[tuple[int, int]]) -> None:
    assert score_ppm(points, THRESHOLD) is None


def test_a_sample_at_the_threshold_adds_nothing() -> None:
    assert score_ppm([(THRESHOLD, 500)], THRESHOLD) == 0


def test_a_victim_that_stood_still_counts_fully_against() -> None:
    assert score_ppm([(0, 500)], THRESHOLD) == -PPM
