"""bench.back_test: hosts are filled as its page says, and the setting with the least loss is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from bench.back_test import CAPACITY_M, CORES, HOSTS, HighestSoFar, _allocated, _setting, chosen, past

from cotenant.policy.assess.day_profile import DayProfile
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, NSigma, VpaHistogram


def test_machines_are_placed_on_the_emptiest_host_and_leave_at_their_end() -> None:
    arrivals = np.array([0.0] * (HOSTS + 1) + [2.0, 4.0])
    lasts = np.array([3.0] * (HOSTS + 1) + [1.0, 1.0])
    cores = np.array([CORES / 2] * HOSTS + [CORES / 4, CORES / 2, CORES])
    share, refused = _allocated(arrivals, arrivals + lasts, cores)
    assert refused == 0  # all of a host is free again at 4 h
    assert share[:, 0].tolist() == [0.75] + [0.5] * (HOSTS - 1)
    at_two_hours = share[:, int(2 * 3600 / 300)]
    assert sorted(at_two_hours.tolist()) == [0.5] * (HOSTS - 2) + [0.75, 1.0]
    assert share[:, int(3.5 * 3600 / 300)].tolist() == [0.0] * HOSTS
    _, refused = _allocated(np.array([0.0, 1.0]), np.array([2.0, 2.0]), np.array([CORES + 1.0, 1.0]))
    assert refused == 1


def test_the_setting_with_the_least_loss_is_chosen() -> None:
    shares = np.tile(np.array([[0.2] * 143 + [0.5] * 145]), 4)
    rules = [HighestSoFar(factor) for factor in (0.5, 1.0, 1.5)]
    assert chosen(past(shares), rules) == rules[1]
    assert HighestSoFar(0.5).below(past(shares), 2, 0.01).tolist() == [[0.25 * CAPACITY_M] * 2]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (DayProfile(), "season 0.8, recent 0.75"),
        (LastDayPeak(0.9), "x 0.9"),
        (NSigma(3.0), "3 sigma of 1 d"),
        (BorgPeak(), "5 sigma, p99"),
        (VpaHistogram(), "p90 + 15 %"),
    ],
)
def test_settings_are_shown(rule: DayProfile | LastDayPeak | NSigma | BorgPeak | VpaHistogram, said: str) -> None:
    assert _setting(rule) == said
