"""A pod with the uid of a reservation changes nothing: no API server gives a uid twice, and mixing the two would
break the accounts of quotas.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.reservation_world import World, node, pod, reservation


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_whichever_comes_first_keeps_the_uid(order: tuple[int, int]) -> None:
    world = World(node("a"))
    both = (reservation("r"), replace(pod("x"), uid="uid-r"))
    for number in order:
        world.see(both[number])
        world.cluster.validate()
    assert world.cluster.counts["the uid of a pod is that of a reservation"] == 1


def test_an_object_without_a_uid_is_not_taken() -> None:
    world = World(node("a"))
    for entry in (replace(reservation("r"), uid=""), replace(pod("x"), uid=""), replace(pod("y"), uid="")):
        world.see(entry)
    world.cluster.validate()
    assert world.cluster.counts["a pod without a uid"] == 3
    assert not world.cluster.decide(0.0)
