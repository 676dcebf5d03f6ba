"""Pods that have drawn from reservations and are resized in place by somebody else, in CPU and in memory, beside pods
without one: what a reservation keeps is what it reserved less what its owners request now, and nothing is placed into
room that a resize has taken.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web
from tests.property.few import examples

from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts

STEPS, NODES, ROOM = 120, 2, 4000
UNITS = {CPU_NAME: 1, MEMORY_NAME: 1 << 20}
AMOUNTS = (300, 700, 1000, 2000, 3500)


class Owners:
    """What happens in a small cluster, and its sums by what the server has."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(*(node(f"n{row}", ROOM) for row in range(NODES)))
        self.made = self.resized = self.drawn = 0

    def step(self) -> None:
        random = self.random
        self.world.now_s += 5.0
        random.choice((self.create, self.reserve, self.resize, self.resize, self.delete, self.again))()
        self.decide()
        self.check()

    def create(self) -> None:
        self.made += 1
        kind = self.random.choice((web, pod))
        self.world.see(kind(f"p{self.made}", self.random.choice(AMOUNTS), created_s=self.world.now_s))

    def reserve(self) -> None:
        if len(self.world.held) < 3:
            self.made += 1
            cpu_m = self.random.choice((1000, 2000, 3000))
            once = self.random.random() < 0.3
            self.world.see(reservation(f"r{self.made}", cpu_m, created_s=self.world.now_s, allocate_once=once))

    def resize(self) -> None:
        bound = sorted((one for one in self.world.pods.values() if one.node), key=lambda one: one.uid)
        if bound:
            self.resized += 1
            one = self.random.choice(bound)
            cpu, memory = self.random.choice(AMOUNTS), self.random.choice(AMOUNTS)
            requests = Amounts.of({CPU_NAME: cpu, MEMORY_NAME: memory << 20})
            self.world.see(replace(one, pod=replace(one.pod, requests=requests)))

    def delete(self) -> None:
        if self.world.pods:
            self.world.delete(self.random.choice(sorted(self.world.pods)).removeprefix("uid-"))

    def again(self) -> None:
        """Another scheduler leads."""
        if self.random.random() < 0.2:
            self.world = self.world.again()

    def decide(self) -> None:
        world = self.world
        while world.cluster.next_s() <= world.now_s:
            told = world.cluster.decide(world.now_s)
            for instruction in told:
                world.carry_out(instruction, answer=True)
                if isinstance(instruction, Bind):
                    draws = bool(_draws(world.pods[instruction.uid]))
                    self.drawn += draws
                    for name, unit in UNITS.items():  # a kubelet has the room; whoever draws may have what was kept
                        taken = self.of_pods if draws else self.taken
                        assert taken(instruction.node, name) <= ROOM * unit, instruction

    def of_pods(self, node: str, resource: str) -> int:
        """What pods request there."""
        return sum(one.pod.requests.get(resource) for one in self.world.pods.values() if one.node == node)

    def taken(self, node: str, resource: str) -> int:
        """Of pods, and what reservations keep beside their owners."""
        here = [one for one in self.world.pods.values() if one.node == node]
        kept = 0
        for held in self.world.living(node):
            owners = [one for one in here if _draws(one) == held.uid]
            kept += max(0, held.allocatable.get(resource) - sum(one.pod.requests.get(resource) for one in owners))
        return kept + self.of_pods(node, resource)

    def check(self) -> None:
        cluster = self.world.cluster
        cluster.validate()
        names, resources, _, requested = cluster.requested()
        for resource in UNITS:
            column = requested[:, resources.index(resource)].tolist()
            assert dict(zip(names, column, strict=True)) == {name: self.taken(name, resource) for name in names}


def _draws(one: ObservedPod) -> str:
    return one.holds.reservation.uid if one.holds.reservation is not None else ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(40)))
def test_what_is_kept_follows_the_owners(seed: int) -> None:
    owners = Owners(seed)
    for _ in range(STEPS):
        owners.step()
    assert owners.resized


@pytest.mark.slow
def test_the_sequences_reach_what_they_are_about() -> None:
    drawn = 0
    for seed in range(6):
        owners = Owners(seed)
        for _ in range(STEPS):
            owners.step()
        drawn += owners.drawn
    assert drawn > 20


@pytest.mark.parametrize("seed", [0, 1])
def test_first_sequences(seed: int) -> None:
    test_what_is_kept_follows_the_owners(seed)
