"""When a size that was found may be lower than the one that pods have."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.sizing_world import BIG, NOW_S, World

from cotenant.model.sizes.right_sizing import SizingMode


def on_probation(until_s: float) -> World:
    """Pods of a size that was proven, and use far below it."""
    world = World(mode=SizingMode.ACT)
    status = replace(world.status, probation_until_s=until_s)
    world.sizing = replace(world.sizing, status=status)
    world.engine.sizing_seen(world.sizing)
    return world


def test_a_size_is_not_lowered_within_a_day_of_its_proof() -> None:
    world = on_probation(NOW_S + 3600)
    world.run(3500)
    assert (world.status.state, world.status.suggestion, world.resized) == ("fits", None, [])
    assert world.run(3600, lambda: bool(world.status.receipts)), world.status
    assert world.sizes() != {BIG}


def test_it_is_raised_meanwhile_where_that_is_needed() -> None:
    world = on_probation(NOW_S + 7 * 86_400)
    world.use = world.use._replace(cpu_m=3900)
    assert world.run(7200, lambda: bool(world.status.receipts)), world.status
    (size,) = world.sizes()
    assert (size.cpu_request_m or 0) > 3900
    assert (size.memory_request_bytes, size.memory_limit_bytes) == (BIG.memory_request_bytes, BIG.memory_limit_bytes)
