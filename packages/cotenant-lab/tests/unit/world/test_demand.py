from dataclasses import replace

import numpy as np
import pytest

from cotenant_lab.workloads.colocation import generate
from cotenant_lab.world import demand
from cotenant_lab.world.config import WorldConfig


@pytest.fixture(scope="module")
def truth():
    return generate(WorldConfig(), 0, 0.77)[0]


def test_the_day_has_its_trough_at_the_start_and_its_peak_half_way(truth):
    config = WorldConfig(load_noise_sd=0.0)
    load = demand.service_load(truth, config, np.random.default_rng(0))
    assert load.shape == (len(truth.service_peak), int(config.limit_s / 60) + 2)
    day = load[:, :360] / truth.service_peak[:, None]
    assert day.max(axis=1) == pytest.approx(1.0, abs=1e-3)
    assert day.min(axis=1) == pytest.approx(1.0 - truth.service_swing, abs=1e-3)
    whole = day.mean(axis=0)
    assert abs(int(whole.argmax()) - 180) < 15
    assert min(int(whole.argmin()), 360 - int(whole.argmin())) < 15
    np.testing.assert_allclose(load[:, 360:720], load[:, :360])


def test_noise_has_its_spread_and_memory(truth):
    config = WorldConfig()
    quiet = demand.service_load(truth, replace(config, load_noise_sd=0.0), np.random.default_rng(0))
    noise = np.log(demand.service_load(truth, config, np.random.default_rng(0)) / quiet)
    assert noise.std() == pytest.approx(0.05, rel=0.05)
    assert noise[:, 0].std() == pytest.approx(0.05, rel=0.2)  # stationary from the first minute
    assert np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1] == pytest.approx(0.9, abs=0.01)


def test_outages_come_at_their_rate_in_order_and_never_on_a_node_that_is_down():
    config = WorldConfig(failure_interval_days=0.5, repair_s=4000.0)
    total = 0
    for seed in range(20):
        found = demand.outages(config, np.random.default_rng(seed))
        assert (np.diff(found.at_s) >= 0).all()
        total += int((~found.up).sum())
        for row in np.unique(found.row):
            mine = found[found.row == row]
            assert mine["up"].tolist() == [False, True] * (len(mine) // 2)
            np.testing.assert_allclose(mine["at_s"][1::2] - mine["at_s"][0::2], 4000.0)
    # a node is up 0.5 days at a time and down 4000 s: fewer failures than without repairs
    assert total / 20 == pytest.approx(249 * 0.25 / 0.5, rel=0.12)
    assert len(demand.outages(replace(config, failures=False), np.random.default_rng(0))) == 0
