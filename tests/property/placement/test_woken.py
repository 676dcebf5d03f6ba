"""No pod waits for an event that has happened: whatever changes, each pod that judging everything again would place, or
would evict for, has been woken.

`python -m tests.property.placement.test_woken FIRST LAST [varied]` asks the same of many more worlds.
"""

from __future__ import annotations

import sys

import pytest
from tests.fakes.cluster.gang_world import cluster, pod, see, settle
from tests.fakes.cluster.restless_world import RestlessWorld, not_woken
from tests.fakes.cluster.varied_world import VariedWorld

STEPS = 40

# Worlds in which pods once waited in vain: for room on a nominated node, for a node that was deleted, for evictions
# beside pods that left, for gangs that could spare members, and for their quota.
KEPT = (2, 10, 11, 13, 20, 21, 105, 127)


def ask(seed: int, kind: type[RestlessWorld] = RestlessWorld) -> str:
    """The first pod that was not woken, and the event; empty = none."""
    world = kind(seed)
    for i in range(STEPS):
        world.step()
        found = not_woken(world.cluster, world.now_s)
        if found:
            return f"seed {seed}, after event {i} ({world.last}): {found}"
    return ""


# For a volume's only user whose node went, a pod of a spread that was ending, a volume that was attached meanwhile, and
# a pod that is wanted near and came in the same round (2151).
KEPT_VARIED = (7, 1110, 1127, 2151)


@pytest.mark.slow
@pytest.mark.parametrize("seed", KEPT)
def test_every_pod_that_an_event_may_help_is_tried_again(seed: int) -> None:
    assert not ask(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", KEPT_VARIED)
def test_the_same_where_volumes_ports_and_sizes_change(seed: int) -> None:
    assert not ask(seed, VariedWorld)


def test_the_question_finds_a_pod_that_was_not_woken() -> None:
    c = cluster(1, 1300)
    see(c, pod("low", on="n0", cpu=500), pod("other", on="n0", cpu=800, priority=9), pod("high", priority=5))
    settle(c, 0.0)
    c._components.clearing.helped = lambda *_: []  # type: ignore[method-assign]
    c.pod_gone("uid-default-other", 5.0)
    settle(c, 20.0)
    assert list(not_woken(c, 20.0)) == ["uid-default-high"]


@pytest.mark.parametrize("seed", [0, 1])
def test_first_sequences(seed: int) -> None:
    assert not ask(seed)


if __name__ == "__main__":
    world = VariedWorld if sys.argv[3:] == ["varied"] else RestlessWorld
    wrong = [found for seed in range(int(sys.argv[1]), int(sys.argv[2])) if (found := ask(seed, world))]
    print("\n".join(wrong) or "every pod was woken")
    sys.exit(bool(wrong))
