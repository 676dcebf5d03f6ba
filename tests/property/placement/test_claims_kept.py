"""Whatever comes in whatever order, no device is given twice, no claim is left allocated for a pod that does not have a
node, and the ledger is what claims say. Evictions for devices are of pods that really are in the way.
"""

from __future__ import annotations

import random
from itertools import chain, combinations

import pytest
from tests.fakes.cluster.claims_world import ClaimsWorld, gpus, request, spec

from cotenant.engine.framework.instructions import Bind, Preempt
from cotenant.model.claims.devices import (
    CounterSet,
    CounterUse,
    DeviceCapacity,
    DeviceId,
    OfferedDevice,
    Reach,
    RequestPolicy,
    ResourceSlice,
)
from cotenant.model.quantities import parse_quantity

STEPS = 60


class RandomWorld:
    """A world of a few nodes in which anything happens."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = ClaimsWorld(is_late=True)
        for name in ("n0", "n1", "n2"):
            self.world.node(name, gpus(self.random.randint(0, 3), self.random.choice("ab")))
        self._parts("n0")
        self._shared("n1")
        self.pending: list[Bind] = []
        self.made = 0

    def _parts(self, node: str) -> None:
        parts = tuple(
            OfferedDevice(f"part-{at}", (("model", "p"),), uses=(CounterUse("card", (("slots", slots),)),))
            for at, slots in enumerate((3, 2, 1, 1))
        )
        facts = self.world.facts
        facts.slice_seen(ResourceSlice(f"{node}-parts", "parts", node, 1, 2, Reach(node), parts))
        counters = (CounterSet("card", (("slots", 3),)),)
        facts.slice_seen(ResourceSlice(f"{node}-counters", "parts", node, 1, 2, Reach(node), counters=counters))

    def _shared(self, node: str) -> None:
        policy = RequestPolicy(default=parse_quantity("1Gi"), min=parse_quantity("1Gi"))
        memory = (("memory", DeviceCapacity(parse_quantity("3Gi"), policy)),)
        card = OfferedDevice("card", (("model", "s"),), memory, is_shared=True)
        self.world.facts.slice_seen(ResourceSlice(f"{node}-shared", "shared", node, 1, 1, Reach(node), (card,)))

    def step(self) -> None:
        world, choice = self.world, self.random.random()
        if choice < 0.3:
            self.made += 1
            wanted = spec(request("gpu", self.random.randint(1, 2), *self.random.choice([(), ("a",), ("p",), ("s",)])))
            world.own(f"p{self.made}", wanted, priority=self.random.randint(0, 3))
        elif choice < 0.35:
            self.made += 1
            world.claim(f"c{self.made}")
            for at in range(2):
                world.pod(f"p{self.made}-{at}", f"c{self.made}")
        elif choice < 0.6:
            self.pending += world.decide()
        elif choice < 0.8 and self.pending:
            bind = self.pending.pop(self.random.randrange(len(self.pending)))
            fate = self.random.random()
            if fate < 0.75:
                world.carry_out(bind)
            elif world.engine.sending(bind.uid, world.now_s):
                if fate < 0.9 and world.write(bind):
                    world.take_back(bind)
                world.engine.bind_failed(bind.uid, "conflict", world.now_s)
        elif choice < 0.9 and world.pods:
            world.end(self.random.choice(list(world.pods.values())).pod.name)
        else:
            world.catch_up()
        world.now_s += self.random.choice([0.0, 0.5, 5.0])
        self.check()

    def check(self) -> None:
        world = self.world
        world.engine.validate()
        alone: dict[DeviceId, str] = {}
        shared: dict[DeviceId, int] = {}
        slots = 3
        for claim in world.claims.values():
            for given in claim.allocation.devices if claim.allocation is not None else ():
                if given.share:
                    shared[given.id] = shared.get(given.id, 0) + given.consumed[0][1].value()
                    continue
                assert given.id not in alone, f"{given.id} was given to {alone[given.id]} and {claim.name}"
                alone[given.id] = claim.name
                if given.id.driver == "parts":
                    slots -= (3, 2, 1, 1)[int(given.id.device[-1])]
        assert slots >= 0
        assert all(amount <= 3 * 2**30 for amount in shared.values())

    def end(self) -> None:
        """Everything is carried out and deleted: nothing is left."""
        for bind in self.pending:
            self.world.carry_out(bind)
        self.world.is_late = False
        self.world.catch_up()
        self.world.settle()
        self.check()
        for seen in list(self.world.pods.values()):
            self.world.end(seen.pod.name)
        self.world.catch_up()
        assert not self.world.facts.ledger.assumed
        assert not self.world.facts.ledger.holders


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_no_device_is_given_twice_and_none_is_lost(seed: int) -> None:
    world = RandomWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.end()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_victims_are_enough_and_none_of_them_could_stay(seed: int) -> None:
    """One node, pods that hold one to three GPUs, alone or two together: against every set of victims."""
    rng = random.Random(seed)
    world = ClaimsWorld()
    total = rng.randint(2, 5)
    world.node("n", gpus(total))
    free, holders = total, []
    while free > 0 and len(holders) < 4:
        count = min(free, rng.randint(1, 2))
        free -= count
        name = f"c{len(holders)}"
        world.claim(name, spec(request("gpu", count)))
        users = [f"{name}-{at}" for at in range(rng.randint(1, 2))]
        priorities = {user: rng.randint(0, 12) for user in users}
        for user in users:
            world.pod(user, name, priority=priorities[user])
        world.settle()
        holders.append((count, priorities))
    wanted = rng.randint(1, total)
    world.own("high", spec(request("gpu", wanted)), priority=10)
    world.settle()
    lower = [user for _, priorities in holders for user, priority in priorities.items() if priority < 10]

    def suffices(victims: set[str]) -> bool:
        freed = sum(count for count, priorities in holders if set(priorities) <= victims)
        return free + freed >= wanted

    preempts = [told for told in world.told if isinstance(told, Preempt)]
    if "high" in world.nodes():
        assert suffices(set())
        assert not preempts
    elif suffices(set(lower)):
        victims = {victim.key.partition("/")[2] for victim in preempts[0].victims}
        assert victims <= set(lower)
        assert suffices(victims)
        fewer = chain.from_iterable(combinations(sorted(victims), size) for size in range(len(victims)))
        assert not any(suffices(set(those)) for those in fewer)
        for name in victims:
            world.end(name)
        assert world.settle()["high"] == "n"
    else:
        assert not preempts


@pytest.mark.parametrize("seed", range(5))
def test_first_sequences(seed: int) -> None:
    test_no_device_is_given_twice_and_none_is_lost(seed)
    test_victims_are_enough_and_none_of_them_could_stay(seed)
