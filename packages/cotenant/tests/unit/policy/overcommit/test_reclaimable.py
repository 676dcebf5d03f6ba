"""What prod pods request and are predicted not to use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.policy.overcommit.reclaimable import (
    CPU_HALF_LIFE_S,
    GROWTH,
    MEMORY_HALF_LIFE_S,
    MIN_CPU_M,
    MIN_MEMORY,
    Histories,
    ProdPod,
    ReclaimableConfig,
    ReclaimableHistory,
    reclaimable,
    trained,
)

GIB = 1 << 30
NOW = ReclaimableConfig(cold_start_s=0.0)
ROOM = Use(64_000, 256 * GIB)


def prod(uid: str, cpu_m: int = 4000, memory: int = 8 * GIB, **more: object) -> ProdPod:
    return ProdPod(uid, Use(cpu_m, memory), Use(1000, GIB), **more)  # type: ignore[arg-type]


def test_the_smaller_of_both_sides_and_every_peak_with_its_margin() -> None:
    pods = [prod("a"), prod("b")]
    histories = trained(Histories(), pods, Use(500, GIB), 60.0, NOW)
    found = reclaimable(histories, pods, ROOM, NOW)
    assert found is not None
    # by pods: 2 x (4000 - 1.1 x the upper edge above 1000)
    edge = next(MIN_CPU_M * GROWTH**i for i in range(300) if MIN_CPU_M * GROWTH**i > 1000)
    assert found.by_pods.cpu_m == pytest.approx(2 * (4000 - edge * 1.1), abs=2)
    edge = next(MIN_CPU_M * GROWTH**i for i in range(300) if MIN_CPU_M * GROWTH**i > 2500)
    assert found.by_class.cpu_m == pytest.approx(8000 - edge * 1.1, abs=2)
    assert found.value == Use(*map(min, found.by_pods, found.by_class))
    assert (found.warm, found.cold) == (2, 0)


def test_before_a_measurement_there_is_no_prediction() -> None:
    assert reclaimable(Histories(), [prod("a")], ROOM, NOW) is None


def test_a_pod_keeps_its_request_until_it_has_been_observed_for_the_cold_start() -> None:
    config = ReclaimableConfig(cold_start_s=120.0)
    histories = Histories()
    values = []
    for _ in range(4):
        histories = trained(histories, [prod("a")], NO_USE, 60.0, config)
        found = reclaimable(histories, [prod("a")], ROOM, config)
        assert found is not None
        values.append((found.value.cpu_m > 0, found.cold))
    assert values == [(False, 1), (False, 1), (True, 0), (True, 0)]
    with_new = reclaimable(histories, [prod("a"), prod("new")], ROOM, config)
    assert with_new is not None
    assert (with_new.warm, with_new.cold) == (1, 1)
    assert with_new.by_pods == reclaimable(histories, [prod("a")], ROOM, config).by_pods  # type: ignore[union-attr]


def test_cpu_of_pods_on_cpus_of_their_own_is_not_lent() -> None:
    own = prod("a", own_cpus=True)
    found = reclaimable(trained(Histories(), [own], NO_USE, 60.0, NOW), [own], ROOM, NOW)
    assert found is not None
    assert found.value.cpu_m == 0
    assert found.value.memory_bytes > 6 * GIB


def test_never_more_than_the_node_has() -> None:
    found = reclaimable(trained(Histories(), [prod("a")], NO_USE, 60.0, NOW), [prod("a")], Use(700, GIB), NOW)
    assert found is not None
    assert found.value == Use(700, GIB)


def test_a_pod_that_is_gone_is_forgotten_and_one_that_was_not_measured_is_not() -> None:
    config = replace(NOW, expiry_s=100.0)
    histories = trained(Histories(), [prod("a"), prod("b")], NO_USE, 60.0, config)
    unmeasured = replace(prod("b"), use=None)
    for _ in range(3):
        histories = trained(histories, [unmeasured], NO_USE, 60.0, config)
    assert set(histories.pods) == {"b"}


def test_what_cannot_be_meant_is_refused() -> None:
    for wrong in ({"margin_pct": -1}, {"cold_start_s": -1.0}, {"expiry_s": -1.0}):
        with pytest.raises(InvalidInput):
            ReclaimableConfig(**wrong)  # type: ignore[arg-type]


@given(
    st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(0, 200 * GIB), st.sampled_from([1.0, 60.0, 40_000.0])),
        min_size=1,
        max_size=25,
    )
)
def test_a_peak_is_the_weighted_percentile_of_all_samples_and_at_most_a_bucket_above(
    samples: list[tuple[int, int, float]],
) -> None:
    history, now = ReclaimableHistory(0.0, 0.0), 0.0
    seen: list[tuple[float, Use]] = []
    for cpu_m, memory, passes_s in samples:
        now += passes_s
        use = Use(cpu_m, memory)
        history = history.added(use, now)
        seen.append((now, use))
    peak = history.peak(0)
    for at, share, half_life, least in (
        (0, 0.95, CPU_HALF_LIFE_S, MIN_CPU_M),
        (1, 0.98, MEMORY_HALF_LIFE_S, MIN_MEMORY),
    ):
        weighted = sorted((use[at], 0.5 ** ((now - when) / half_life)) for when, use in seen)
        total, below, exact = sum(weight for _, weight in weighted), 0.0, 0
        for value, weight in weighted:
            below += weight
            exact = value
            if below >= share * total * (1 - 1e-9):
                break
        assert exact <= peak[at] + 1 <= max(exact * GROWTH, least) * (1 + 1e-9) + 3
