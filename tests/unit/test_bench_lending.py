"""bench.lending: risk and writes are counted as its page says, on machines made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from bench.lending import Figures, Formula, Machine, Peak, Window, at_risk, figures, is_reported

HOUR = 3600.0


def _machine(use: list[float], step_s: float = 900.0, name: str = "m") -> Machine:
    own = np.array([use])
    return Machine(name, np.arange(len(use)) * step_s, own, own.max(axis=1))


def test_a_node_hour_breaks_once_however_many_of_its_samples_exceed() -> None:
    quiet, rise = [0.2] * 16, [0.2, 0.9, 0.2, 0.9]
    found = figures(Formula(0.6), [_machine(quiet + rise + quiet)])
    assert found.risk_pct == pytest.approx(100 / 6)  # one of the six hours after the first three


def test_a_constant_use_lends_the_rest_of_the_reclaimed_share() -> None:
    found = figures(Formula(0.6), [_machine([0.2] * 40)])
    assert found.lent_pct == pytest.approx(40.0)
    assert found.risk_pct == 0.0


def test_upstreams_rule_refreshes_and_ours_leaves_what_stands() -> None:
    steady = [_machine([0.2] * 98)]
    assert figures(Formula(), steady).writes > 90
    assert figures(Peak(), steady).writes < 2


def test_window_predictors_lend_what_their_peak_leaves() -> None:
    alternating = [_machine([0.2, 0.4] * 49)]
    assert figures(Window(share=1.0), alternating).lent_pct == pytest.approx(60.0)
    assert figures(Window(sigmas=2.0), alternating).lent_pct == pytest.approx(50.0, abs=1.0)


def test_the_boldest_setting_that_keeps_the_risk_is_taken() -> None:
    points = [Figures(10, 0.1, 1), Figures(20, 0.9, 1), Figures(30, 2.0, 1)]
    assert at_risk(points, 1.0) == points[1]
    assert at_risk(points, 0.01) is None


def test_the_halves_are_disjoint_and_of_about_one_size() -> None:
    share = sum(is_reported(f"machine_{i}") for i in range(1000)) / 1000
    assert 0.45 < share < 0.55
