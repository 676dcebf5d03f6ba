"""Replicas that miss their objective and are left alone all the same, and what is said of those that go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.engine.test_estimates import GIB, REQUESTS, World

from cotenant.engine.framework.instructions import Evict
from cotenant.model.cluster.disruption import CANDIDATE_TAINT, REMOVAL_TAINTS, DisruptionMarks
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.taints import Taint
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile


def crowded(replicas: int = 1) -> World:
    """Replicas on n0 amid batch pods that press; the other nodes are idle."""
    world = World()
    for i in range(4):
        world.pod(i, "n0", service=i < replicas)
    return world


def taint(world: World, *keys: str) -> None:
    size = Amounts.of({"cpu": 16_000, "memory": 64 * GIB, "pods": 50})
    world.engine.node_seen(Node("n0", size, taints=tuple(Taint(key, "") for key in keys)))


def moved(world: World, *minutes: int, replicas: int = 1, ratio: float = 1.5) -> list[Evict]:
    """What moves in these minutes, in each of which all replicas miss."""
    numbers = np.array([world.engine.number_of(f"p{i}") for i in range(replicas)])
    found: list[Evict] = []
    for minute in minutes:
        ratios = np.array([ratio + 0.1 * i for i in range(replicas)])  # the last misses most
        world.engine.latency_measured(numbers, ratios, np.full(replicas, REQUESTS), 60.0 * minute)
        found += [one for one in world.engine.decide(60.0 * minute) if isinstance(one, Evict)]
    return found


def change(world: World, name: str, **fields: object) -> None:
    entry = world.engine.find(f"default/{name}")
    assert entry is not None
    world.engine.pod_seen(replace(entry.seen, **fields), 0.0)  # type: ignore[arg-type]


def test_a_move_says_how_long_the_objective_was_missed_and_what_is_gained() -> None:
    (move,) = moved(crowded(), 1, 2, 3)
    assert (move.victim.uid, move.victim.key, move.victim.node) == ("p0", "default/p0", "n0")
    assert move.reason == "MissedObjective"
    before, _, gain = move.message.partition("another node is better by ")
    assert before == "missed its latency objective over 2 windows, beyond sampling error; "
    assert float(gain.removesuffix(" of score")) >= profile("cotenant").knobs.move_gain


@pytest.mark.parametrize("key", REMOVAL_TAINTS)
def test_an_autoscaler_empties_the_node_that_it_removes(key: str) -> None:
    world = crowded()
    taint(world, key)
    assert moved(world, 1, 2, 3) == []
    taint(world)
    assert len(moved(world, 4)) == 1


def test_a_node_that_is_only_a_candidate_for_removal_keeps_nobody() -> None:
    world = crowded()
    taint(world, CANDIDATE_TAINT)
    assert len(moved(world, 1, 2)) == 1


@pytest.mark.parametrize("marks", [DisruptionMarks(np.inf), DisruptionMarks(not_safe=True)])
def test_a_pod_whose_owner_forbids_it_stays(marks: DisruptionMarks) -> None:
    world = crowded()
    change(world, "p0", marks=marks)
    assert moved(world, 1, 2, 3) == []
    change(world, "p0", marks=DisruptionMarks())
    assert len(moved(world, 4)) == 1


def test_a_pod_is_kept_for_as_long_after_its_start_as_its_owner_says() -> None:
    world = crowded()
    change(world, "p0", marks=DisruptionMarks(200.0), started_s=0.0)
    assert moved(world, 1, 2, 3) == []
    assert len(moved(world, 4)) == 1


def test_a_pod_that_ends_already_is_not_evicted() -> None:
    world = crowded()
    change(world, "p0", ends_s=1000.0)
    assert moved(world, 1, 2, 3) == []


def test_who_may_not_move_leaves_the_move_to_the_next() -> None:
    world = crowded(replicas=2)
    both = moved(crowded(replicas=2), 1, 2, replicas=2)
    assert [move.victim.uid for move in both] == ["p1"]  # one a minute, and it misses most
    change(world, "p1", marks=DisruptionMarks(not_safe=True))
    assert [move.victim.uid for move in moved(world, 1, 2, replicas=2)] == ["p0"]


def test_a_pod_with_the_number_of_another_begins_without_its_misses() -> None:
    world = crowded()
    assert moved(world, 1) == []
    number = world.engine.number_of("p0")
    world.engine.pod_gone("p0", 61.0)
    world.engine.decide(61.0)
    assert world.pod(9, "n0", service=True) == number  # numbers are used again
    ratio, requests = np.array([1.5]), np.array([REQUESTS])
    found = []
    for minute in (2, 3):
        world.engine.latency_measured(np.array([number]), ratio, requests, 60.0 * minute)
        found.append(sum(isinstance(one, Evict) for one in world.engine.decide(60.0 * minute)))
    assert found == [0, 1]
