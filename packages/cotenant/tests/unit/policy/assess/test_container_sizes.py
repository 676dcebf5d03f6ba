from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.sizes.container import ContainerSize
from cotenant.model.sizes.recommendation import SizeBackTest, SizeBasis
from cotenant.policy.assess.container_sizes import MIB, ContainerBounds, HeldResources, container_size, past_week
from cotenant.policy.assess.heap_floor import HeapFloor

NOW = ContainerSize(3000, 4000, 4096 * MIB, 8192 * MIB)


def basis(amount: float, highest: float, left_out: int = 0) -> SizeBasis:
    return SizeBasis(amount, "a rule", highest, "Mon 9h", SizeBackTest(0, 0, 0), left_out)


CPU, MEMORY = basis(955.0, 1100.0), basis(900.5, 1000.0)


def test_requests_follow_use_and_limits_keep_a_reserve() -> None:
    found, why = container_size(NOW, CPU, MEMORY)
    assert found == ContainerSize(960, 4000, 901 * MIB, 1200 * MIB)
    assert why == ()


def test_a_limit_of_cpu_is_only_raised() -> None:
    tight = ContainerSize(1000, 1000, 100 * MIB, None)
    assert container_size(tight, CPU, MEMORY)[0] == ContainerSize(960, 1320, 901 * MIB, None)


def test_what_is_not_set_stays_unset_but_a_blank_container_gets_requests() -> None:
    found, _ = container_size(ContainerSize(None, None, 100 * MIB, None), CPU, MEMORY)
    assert found == ContainerSize(None, None, 901 * MIB, None)
    assert container_size(ContainerSize(), CPU, MEMORY)[0] == ContainerSize(960, None, 901 * MIB, None)


def test_guaranteed_stays_guaranteed_with_the_reserve_in_both() -> None:
    now = ContainerSize(3000, 3000, 4096 * MIB, 4096 * MIB)
    found, _ = container_size(now, CPU, MEMORY)
    assert found == ContainerSize(1320, 1320, 1200 * MIB, 1200 * MIB)
    assert found.is_guaranteed


@pytest.mark.parametrize(("cpu_m", "is_said"), [(3000, True), (2500, False)])
def test_it_is_said_where_a_container_would_lose_cpus_of_its_own(cpu_m: int, is_said: bool) -> None:
    now = ContainerSize(cpu_m, cpu_m, 4096 * MIB, 4096 * MIB)
    _, why = container_size(now, CPU, MEMORY)
    assert any("none of its own any more" in one for one in why) is is_said


@pytest.mark.parametrize(
    ("floor", "request_mib", "limit_mib"),
    [
        (HeapFloor(2560 * MIB, why="told"), 2560, 2560),
        (HeapFloor(1100 * MIB, why="told"), 1100, 1200),
        (HeapFloor(keeps_limit=True, why="told"), 901, 8192),
        (HeapFloor(keeps_limit=True, why="told", share=0.25), 2048, 8192),
        (HeapFloor(keeps_limit=True, why="told", share=0.75), 4096, 8192),  # never above what is requested now
        (HeapFloor(keeps_all=True, why="told"), 4096, 8192),
    ],
)
def test_memory_is_never_below_what_the_runtime_was_told(floor: HeapFloor, request_mib: int, limit_mib: int) -> None:
    found, why = container_size(NOW, CPU, MEMORY, floor)
    assert (found.memory_request_bytes, found.memory_limit_bytes) == (request_mib * MIB, limit_mib * MIB)
    assert why == ("told",)


def test_a_share_of_the_limit_keeps_both_where_they_are_equal() -> None:
    now = ContainerSize(3000, 3000, 4096 * MIB, 4096 * MIB)
    found, _ = container_size(now, CPU, MEMORY, HeapFloor(keeps_limit=True, why="told"))
    assert found == ContainerSize(1320, 1320, 4096 * MIB, 4096 * MIB)


def test_what_an_autoscaler_goes_by_stays() -> None:
    found, why = container_size(NOW, CPU, MEMORY, held=HeldResources(cpu="scaled by it"))
    assert found == ContainerSize(3000, 4000, 901 * MIB, 1200 * MIB)
    assert why == ("scaled by it",)


@pytest.mark.parametrize(
    ("bound", "expected", "said"),
    [
        (
            ContainerBounds("LimitRange a", min_cpu_m=1500),
            ContainerSize(1500, 4000, 901 * MIB, 1200 * MIB),
            "0.96 cores",
        ),
        (
            ContainerBounds("LimitRange a", max_cpu_m=500),
            ContainerSize(500, 500, 901 * MIB, 1200 * MIB),
            "a CPU limit of 4",
        ),
        (
            ContainerBounds("LimitRange a", max_cpu_ratio=2.0),
            ContainerSize(2000, 4000, 901 * MIB, 1200 * MIB),
            "0.96 cores",
        ),
        (
            ContainerBounds("LimitRange a", max_memory_bytes=1024 * MIB),
            ContainerSize(960, 4000, 901 * MIB, 1024 * MIB),
            "a memory limit of 1200 MiB",
        ),
    ],
)
def test_a_limit_range_is_kept_and_named(bound: ContainerBounds, expected: ContainerSize, said: str) -> None:
    found, why = container_size(NOW, CPU, MEMORY, bounds=(bound,))
    assert found == expected
    assert why[0].startswith("LimitRange a does not allow")
    assert said in why[0]


def test_values_left_out_are_said() -> None:
    _, why = container_size(NOW, basis(10, 10, left_out=3), MEMORY)
    assert why == ("3 values of CPU above what its node has were left out: counters jumped",)


def test_the_past_week_is_counted_by_replica() -> None:
    nan = np.nan
    cpu = np.array([[900, 1500, nan], [5000, 10, 10]], np.float32)
    memory = np.array([[950, 500, nan], [500, 1300, 500]], np.float32)
    week = past_week(cpu, memory, 300.0, ContainerSize(960, 4000, 901 * MIB, 1200 * MIB))
    assert (week.minutes, week.squeezed, week.throttled, week.evictable, week.killed) == (25.0, 10.0, 5.0, 10.0, 5.0)
    assert week.squeezed_share == 0.4
    none = past_week(cpu, memory, 300.0, ContainerSize())
    assert (none.squeezed, none.throttled, none.killed) == (0.0, 0.0, 0.0)


def test_only_the_last_week_counts() -> None:
    use = np.full((1, 24 * 10), 10.0, np.float32)
    use[0, :48] = 5000.0
    assert past_week(use, use, 3600.0, ContainerSize(960)).squeezed == 0.0
