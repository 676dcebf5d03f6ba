"""A sensitivity from a ladder: the slope over levels, what cannot be told, and when a ladder must stop."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from cotenant.model.cluster.workload_profile import FigureSource, ProfileFigure, Unknown
from cotenant.model.errors import InvalidInput
from cotenant.policy.interference.ladder import LadderStep, levels, must_abort, sensitivity


def ladder(slope: float, noise: float = 0.0, drift: float = 0.0, seed: int = 0) -> list[LadderStep]:
    rng = np.random.default_rng(seed)
    steps = []
    for number, level in enumerate(levels(5)):
        alone = 10.0 * (1.0 + drift * number)

        def values(ratio: float, alone: float = alone) -> tuple[float, ...]:
            return tuple(alone * ratio * (1.0 + noise * rng.normal()) for _ in range(6))

        steps.append(LadderStep(level, values(1.0), values(1.0 + slope * level)))
    return steps


def test_the_slope_of_the_ratio_is_the_sensitivity() -> None:
    assert sensitivity(ladder(0.4)) == ProfileFigure(400, 400, 400, 60, FigureSource.MEASURED)
    assert sensitivity(ladder(5.0)) == ProfileFigure(1000, 1000, 1000, 60, FigureSource.MEASURED)


@pytest.mark.parametrize("seed", range(5))
def test_noise_widens_the_interval_around_the_truth(seed: int) -> None:
    found = sensitivity(ladder(0.4, noise=0.1, seed=seed))
    assert isinstance(found, ProfileFigure)
    assert found.low - 40 <= 400 <= found.high + 40
    assert 40 < found.high - found.low < 400


def test_a_slow_change_of_other_work_is_not_taken_for_the_load() -> None:
    found = sensitivity(ladder(0.0, drift=0.5))
    assert isinstance(found, ProfileFigure)
    assert found.value == 0


def test_windows_without_a_signal_are_left_out() -> None:
    found = sensitivity([LadderStep(1.0, (10.0, nan, 10.0), (nan, 12.0, 12.0, 12.0, 0.0))])
    assert found == ProfileFigure(200, 200, 200, 5, FigureSource.MEASURED)
    for steps in ([], [LadderStep(1.0, (nan,), (1.0, 2.0, 3.0))], [LadderStep(1.0, (10.0,), (nan, nan, 12.0))]):
        assert isinstance(sensitivity(steps), Unknown)


def test_when_a_ladder_must_stop() -> None:
    assert must_abort(19.0, 5.0, 10.0, factor=2.0, max_ratio=3.0) == ""
    assert "2 times the objective of 10" in must_abort(21.0, 5.0, 10.0, factor=2.0, max_ratio=3.0)
    assert must_abort(14.0, 5.0, None, factor=2.0, max_ratio=3.0) == ""
    assert "3 times the 5 without load" in must_abort(16.0, 5.0, None, factor=2.0, max_ratio=3.0)
    assert must_abort(nan, 5.0, 10.0, factor=2.0, max_ratio=3.0) == ""
    assert must_abort(50.0, nan, None, factor=2.0, max_ratio=3.0) == ""


def test_levels_rise_to_the_full_load() -> None:
    assert levels(4) == (0.25, 0.5, 0.75, 1.0)
    for bad in (0, 21):
        with pytest.raises(InvalidInput):
            levels(bad)
