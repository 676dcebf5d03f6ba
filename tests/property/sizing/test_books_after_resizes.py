"""Whatever is resized in place, by whomever, and however late and in which order a scheduler hears of it: its books are
those of a scheduler that begins now and reads the same objects, and plain sums; and nothing is placed into room that a
resize has taken.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.fakes.cluster.resized_pods import ResizedPod
from tests.fakes.cluster.resized_world import NAMES, QUOTAS, ResizedWorld
from tests.property.few import examples

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.demands import Holdings
from cotenant.model.groups.gang import POD_GROUP
from cotenant.model.resources import BATCH_CPU, CPU_NAME, MEMORY_NAME, MID_CPU

STEPS = 60
ZONE_M, ZONE_BYTES = 4000, 8 << 30
RESERVATIONS = tuple(f"r{number}" for number in range(2 * STEPS))
COUNTED = (CPU_NAME, MEMORY_NAME, BATCH_CPU, MID_CPU)


def books(cluster: Cluster) -> dict[str, object]:
    """Everything that a decision goes by."""
    names, resources, capacity, requested = cluster.requested()
    rows = zip(names, capacity.tolist(), requested.tolist(), strict=True)
    found: dict[str, object] = {
        f"node {name}": {
            resource: (has, taken) for resource, has, taken in zip(resources, room, used, strict=True) if has or taken
        }
        for name, room, used in rows
    }
    plugins = cluster.plugins
    found |= {f"CPUs of {name}": plugins.cpus.describe(name) for name in NAMES}
    for name in ("team", *QUOTAS):
        seen = plugins.quotas.describe(name)
        assert seen is not None
        shares = tuple(share.terms for share in seen.shares)
        found[f"quota {name}"] = seen.used, seen.held, seen.total, shares, seen.seated, seen.waiting
    for row in map(plugins.reservations.describe, RESERVATIONS):
        if row is not None:
            found[f"reservation {row.name}"] = row.phase, row.node, row.left, row.owners
    for view in plugins.gangs.describe_all():
        found[f"gang {view.key}"] = view.placed, sorted((one.pod, one.node) for one in view.members)
    return found


def is_settled(world: ResizedWorld) -> bool:
    """Whether nothing is promised that no object says."""
    promised = world.cluster.assigned().keys() | world.cluster.reserved().keys()
    bound = {thing.uid for thing in world.things.values() if thing.node}
    return promised - {f"{one.uid}" for one in world.held.values()} <= bound


def check_books(world: ResizedWorld, kinds: Counter[str]) -> None:
    fresh = world.fresh()
    for cluster in (world.cluster, fresh):
        cluster.plugins.reservations.turn(world.now_s)  # as before each decision
        cluster.validate()
    if not is_settled(world):
        return
    kinds["compared"] += 1
    assert books(world.cluster) == books(fresh)
    names, resources, _, requested = world.cluster.requested()
    for row, name in enumerate(names):
        for resource in COUNTED:
            assert requested[row, resources.index(resource)] == world.taken(name, resource) + kept(
                world, name, resource
            )
    for name in QUOTAS:
        seen = world.cluster.plugins.quotas.describe(name)
        assert seen is not None
        assert dict(seen.used).get(CPU_NAME, 0) == world.used(name, CPU_NAME)


def kept(world: ResizedWorld, node: str, resource: str) -> int:
    """What reservations keep there beside their owners, by the server's word."""
    return sum(world.left(one).get(resource) for one in world.living(node))


def check_bind(world: ResizedWorld, bind: Bind, kinds: Counter[str]) -> None:
    """Room is there for what was bound, by plain sums."""
    name = bind.key.partition("/")[2]
    thing, room = world.things[name], world.node(bind.node).allocatable
    draws = bind.holds.reservation is not None
    kinds["draws"] += draws
    for resource in thing.takes():
        beside = 0 if draws else kept(world, bind.node, resource)
        assert world.taken(bind.node, resource) + beside <= room.get(resource), (bind.key, resource)
    check_cpus(world, thing, bind.holds, kinds)
    seen = world.fresh().plugins.quotas.describe(thing.labels["quota.scheduling.koordinator.sh/name"])
    assert seen is not None
    if CPU_NAME in thing.takes():
        assert world.used(seen.name, CPU_NAME) <= dict(seen.maximum)[CPU_NAME]
    kinds[seen.name] += 1


def check_gangs(world: ResizedWorld, binds: list[Bind], kinds: Counter[str]) -> None:
    """Of a gang whose first members are placed, as much was free as its PodGroup asks for: the others that were bound
    beside it may have come after it.
    """
    bound = {bind.key.partition("/")[2] for bind in binds} & world.things.keys()
    for name, of in world.groups.items():
        members = {thing.name for thing in world.things.values() if thing.labels.get(POD_GROUP) == name}
        had = {one for one in members - bound if world.things[one].node}
        if had or not members & bound:
            continue
        kinds["asking"] += 1
        for resource, amount in of.min_resources:
            assert world.free(resource, bound) >= amount, (name, resource)


def check_cpus(world: ResizedWorld, thing: ResizedPod, holds: Holdings, kinds: Counter[str]) -> None:
    if holds.cpus is None:
        return
    others = [
        world.pods[other.uid].holds.cpus
        for other in world.on(thing.node)
        if other is not thing and world.pods[other.uid].holds.cpus is not None
    ]
    assert not any(set(holds.cpus.cpus) & set(one.cpus) for one in others if one is not None)
    kinds["own" if holds.cpus.cpus else "zone"] += 1
    for amount in holds.cpus.numa:
        used_m, used_bytes = in_zone(world, thing.node, amount.node)
        assert used_m <= ZONE_M
        assert used_bytes <= ZONE_BYTES


def in_zone(world: ResizedWorld, node: str, zone: int) -> tuple[int, int]:
    """CPU and memory of a NUMA node that pods have, by what they request now."""
    cpu_m = memory_bytes = 0
    for thing in world.on(node):
        status = world.pods[thing.uid].holds.cpus
        if status is None:
            continue
        if status.cpus:
            cpu_m += 1000 * sum(cpu // 4 == zone for cpu in status.cpus)
        elif any(amount.node == zone for amount in status.numa):
            cpu_m += thing.takes()[CPU_NAME]
            memory_bytes += thing.takes()[MEMORY_NAME]
    return cpu_m, memory_bytes


def run(seed: int, kinds: Counter[str]) -> None:
    world = ResizedWorld(seed)
    for _ in range(STEPS):
        world.step()
        if world.random.random() < 0.1:
            world.restart()
            kinds["restarts"] += 1
        if world.random.random() < 0.3:
            continue  # it hears of it later
        world.tell()
        binds = world.decide()
        check_gangs(world, binds, kinds)
        for bind in binds:
            if bind.key.partition("/")[2] in world.things:
                check_bind(world, bind, kinds)
        world.tell()
        check_books(world, kinds)
    kinds.update(world.answers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(60)))
def test_books_are_those_of_a_scheduler_that_begins_now(seed: int) -> None:
    run(seed, Counter())


@pytest.mark.slow
def test_the_sequences_reach_what_they_are_about() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(10):
        run(seed, kinds)
    few = {
        name: kinds[name]
        for name in ("Deferred", "Infeasible", "halfway", "in place", "own", "zone", "draws", "asking", *QUOTAS)
    }
    assert min(few.values()) >= 3, kinds
    assert kinds["compared"] > 100


@pytest.mark.parametrize("seed", [0, 1])
def test_first_sequences(seed: int) -> None:
    run(seed, Counter())
