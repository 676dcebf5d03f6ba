"""Resizes in place beside binds, deletions, gangs, quotas and budgets that change: the books are plain sums, nothing is
placed into room that a resize has taken, and who goes for a deferred resize may go, must go, and makes the room.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.fakes.cluster.resize_world import NODES, ResizeWorld
from tests.property.few import examples

STEPS = 150


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(60)))
def test_books_and_evictions_follow_resizes(seed: int) -> None:
    world = ResizeWorld(seed)
    for _ in range(STEPS):
        world.step()
        assert not world.wrong


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(30)))
def test_no_deferred_resize_waits_where_somebody_may_go(seed: int) -> None:
    """At rest, against every set of pods that no budget and no gang holds."""
    world = ResizeWorld(seed)
    for _ in range(STEPS):
        world.step()
    for _ in range(40):
        world.now_s += 20.0
        for event in (world.kubelets, world.decide, world.end):
            event()
            world.check()
    assert not world.wrong
    assert not [node for node in (f"n{row}" for row in range(NODES)) if world.could_go(node)]


@pytest.mark.slow
def test_the_sequences_reach_what_they_are_about() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12):
        world = ResizeWorld(seed)
        for _ in range(STEPS):
            world.step()
            counts.update(pod.pending for pod in world.pods.values() if pod.pending)
        counts["evicted"] += world.evicted
    assert min(counts["Deferred"], counts["Infeasible"]) > 50
    assert counts["evicted"] >= 5


@pytest.mark.parametrize("seed", [0, 1])
def test_first_sequences(seed: int) -> None:
    test_books_and_evictions_follow_resizes(seed)
