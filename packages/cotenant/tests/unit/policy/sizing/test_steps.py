from __future__ import annotations

from cotenant.model.sizes.container import ContainerSize, SizedContainer
from cotenant.policy.sizing.steps import next_step, reachable

MIB = 1 << 20
NOW = ContainerSize(3000, 4000, 4096 * MIB, 8192 * MIB)


def test_cpu_comes_first_and_less_memory_last() -> None:
    goal = ContainerSize(1000, 4000, 1024 * MIB, 2048 * MIB)
    first = next_step(NOW, goal)
    assert first == ContainerSize(1000, 4000, 4096 * MIB, 8192 * MIB)
    assert next_step(first, goal) == goal
    assert next_step(goal, goal) is None


def test_more_memory_comes_with_cpu() -> None:
    goal = ContainerSize(1000, 4000, 5000 * MIB, 8192 * MIB)
    assert next_step(NOW, goal) == goal
    only_less = ContainerSize(3000, 4000, 1024 * MIB, 8192 * MIB)
    assert next_step(NOW, only_less) == only_less


def test_what_needs_a_restart_stays() -> None:
    goal = ContainerSize(1000, 4000, 1024 * MIB, 2048 * MIB)
    found, why = reachable(SizedContainer("a", NOW, memory_needs_restart=True), goal)
    assert found == ContainerSize(1000, 4000, 4096 * MIB, 8192 * MIB)
    assert why == ("memory stays: its resizePolicy asks for a restart",)
    found, why = reachable(SizedContainer("a", NOW, cpu_needs_restart=True), goal)
    assert found == ContainerSize(3000, 4000, 1024 * MIB, 2048 * MIB)
    found, why = reachable(
        SizedContainer("a", NOW, memory_needs_restart=True), ContainerSize(1000, 4000, *(4096 * MIB, 8192 * MIB))
    )
    assert why == ()


def test_what_is_not_set_stays_unset() -> None:
    found, why = reachable(SizedContainer("a", ContainerSize()), ContainerSize(1000, None, 100 * MIB, None))
    assert found == ContainerSize()
    assert "QoS class" in why[0]
