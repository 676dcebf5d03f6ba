"""Rates on a shared card: alone nothing is slowed, and nobody has more than there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant_lab.gpuworld.config import GpuWorldConfig, Sensitivity, draw
from cotenant_lab.gpuworld.contention import CardRates, contend, gpu_law, new_loads, new_rates

CONFIG = GpuWorldConfig(cards=2)


def rates(
    jobs: int,
    sm: float,
    bandwidth: float = 0.0,
    prefill: float = 0.0,
    decode: float = 0.0,
    ceiling: float = 1.0,
    seed: int = 1,
    sliced: bool = False,
    interference: float = 1.0,
) -> CardRates:
    loads, found = new_loads(2), new_rates(2)
    loads.jobs[0], loads.sm[0], loads.bandwidth[0], loads.ceiling[0] = jobs, sm, bandwidth, ceiling
    seen = draw(CONFIG, seed)
    law = gpu_law(CONFIG, seen, sliced)._replace(interference=interference)
    contend(loads, np.array([prefill, 0.0]), np.array([decode, 0.0]), law, seen.law, found)
    return found


def test_a_server_alone_and_a_job_alone_run_at_full_speed() -> None:
    found = rates(0, 0.0, prefill=0.5, decode=0.5)
    assert found.slow_prefill.tolist() == found.slow_decode.tolist() == [1.0, 1.0]
    assert rates(1, 0.6).speed[0] == 1.0


def test_two_jobs_that_want_more_than_a_card_share_it() -> None:
    assert rates(2, 1.6).speed[0] == pytest.approx(1.0 / 1.6)


def test_a_ceiling_holds_a_job_and_spares_the_server() -> None:
    free, held = (rates(1, 0.8, 0.5, prefill=0.4, decode=0.5, ceiling=c) for c in (1.0, 0.1))
    assert held.granted_sm[0] <= 0.1
    assert 1.0 <= held.slow_prefill[0] < free.slow_prefill[0]
    assert 1.0 <= held.slow_decode[0] < free.slow_decode[0]
    assert held.speed[0] < free.speed[0]


def test_the_linear_law_by_hand() -> None:
    seed = next(seed for seed in range(50) if draw(CONFIG, seed).law.pressure_law == 0)
    own: Sensitivity = draw(CONFIG, seed).sensitivity
    found = rates(1, 0.5, 0.4, prefill=0.4, decode=0.4, seed=seed)
    assert found.slow_prefill[0] == pytest.approx(1 + own.prefill_sm * 0.5 + own.prefill_bandwidth * 0.4)
    assert found.slow_decode[0] == pytest.approx(1 + own.decode_sm * 0.5 + own.decode_bandwidth * 0.4)
    beside = own.prefill_sm * 0.5
    had = 0.4 * min(0.5, beside / (1 + beside)) + 0.4 * 0.5 + 0.2 * 0.5
    cost = 1 + own.offline_bandwidth * (0.4 * CONFIG.prefill_bandwidth + 0.4 * CONFIG.decode_bandwidth)
    assert found.speed[0] == pytest.approx(had / 0.5 / cost)


def test_turns_are_equal_whatever_is_wanted() -> None:
    found = rates(1, 0.5, prefill=0.5, decode=0.5, sliced=True)
    assert found.slow_prefill[0] == pytest.approx(2 / 0.95)
    assert found.speed[0] == pytest.approx(0.5 * 0.95)


@given(
    st.integers(0, 200), st.floats(0.05, 3.0), st.floats(0.0, 2.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0),
    st.floats(0.02, 1.0),
)  # fmt: skip
@settings(max_examples=examples(200), deadline=None)
def test_server_and_jobs_never_have_more_than_the_card(
    seed: int, sm: float, bandwidth: float, prefill: float, busy: float, ceiling: float
) -> None:
    decode = busy * (1.0 - prefill)
    found = rates(1, sm, bandwidth, prefill, decode, ceiling, seed)
    server = prefill / found.slow_prefill[0] + decode * CONFIG.decode_sm / found.slow_decode[0]
    assert found.granted_sm[0] + server <= 1.0 + 1e-9
    assert found.granted_sm[0] <= ceiling + 1e-9
    assert 0.0 <= found.speed[0] <= 1.0
    assert min(found.slow_prefill[0], found.slow_decode[0]) >= 1.0
    without = rates(1, sm, bandwidth, prefill, decode, ceiling, seed, interference=0.0)
    assert without.slow_prefill[0] == without.slow_decode[0] == 1.0
