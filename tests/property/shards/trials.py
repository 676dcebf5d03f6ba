"""One trial by its seed: a cluster, replicas, and what happens to them; then quiet, in which all work must end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.property.shards.replica import Replica
from tests.property.shards.replica_rooms import room_of
from tests.property.shards.world import Broken, Server, SimPod, Timeline

_TROUBLE_S, _QUIET_S = 60.0, 120.0


@dataclass(frozen=True)
class Outcome:
    """What a trial came to. `moved`: rings that were agreed on."""

    seed: int
    bound: int
    refused: int
    moved: int
    lost: int
    loans: int
    rooms: int  # versions of the table with room of a quota lent


def trial(
    seed: int,
    fences: bool = True,
    crossings: bool = False,
    quotas: bool = False,
    versions: bool = False,
    older_stop: bool = True,
) -> Outcome:
    """Raises `Broken` where an invariant does not hold. `crossings`: pods end and are resized, reservations are used by
    pods of other shards, gangs may be larger than a shard's own nodes hold, and clocks go at paces of their own.
    `quotas`: most pods are of one tree of quotas and of several workloads and gangs, and some of them end. `versions`:
    replicas of an older version, which erases rooms of quotas, are replaced by newer ones and come back, as during an
    update and one that is taken back; without `older_stop` they read what they should not.
    """
    random = Random(seed)
    time = Timeline(random)
    slots = random.randint(2, 4)
    nodes = {f"node-{number}": random.choice((4, 6, 8)) for number in range(random.randint(4, 10))}
    server = Server(nodes, {"tight": random.randint(2, 8)}, older_stop=older_stop)
    scarce = seed % 2 == 1  # more is asked for than there is: rooms are fought for, and some pods wait for good
    if quotas:
        _plant(Random(seed + 2), server, scarce)
    paces = Random(-seed - 1)

    updates = Random(seed + 4)

    def begun(name: str) -> Replica:
        is_old = versions and time.now_s < 0.7 * _TROUBLE_S and updates.random() < 0.6 - time.now_s / _TROUBLE_S / 2
        return Replica(name, server, time, slots, fences, paces.uniform(0.95, 1.05) if crossings else 1.0, is_old)

    replicas = [begun(f"replica-{number}") for number in range(slots)]
    budget = int((1.6 if scarce else 0.85) * sum(nodes.values()))
    number = 0
    if crossings:
        budget -= _cross(Random(seed + 1), time, server)
    if quotas:
        budget = _fill(Random(seed + 3), time, server, budget)
    while budget > 0:
        kind = random.random()
        at_s = random.uniform(0.0, _TROUBLE_S)
        if kind < 0.3:
            size = random.randint(2, 14 if crossings else 6)  # 14: more than many a shard's own nodes hold
            lot = [(1, f"gang-{number}x{size}", f"gang-{number}x{size}", "")] * size
        elif kind < 0.5:
            lot = [(random.randint(1, 2), "quota", "", "tight")]
        else:
            lot = [(random.randint(1, 2), f"work-{random.randint(0, 9)}", "", "")]
        for size, group, gang, quota in lot:
            number += 1
            budget -= size
            time.after(at_s, partial(server.put, SimPod(f"pod-{number}", size, group, gang, quota)))
    for _ in range(random.randint(0, 8)):
        at_s = random.uniform(1.0, _TROUBLE_S)
        what = random.random()

        def happen(what: float = what) -> None:
            living = [replica for replica in replicas if not replica.is_dead]
            if not living:
                return
            victim = random.choice(living)
            if what < 0.4:
                victim.kill()
                if random.random() < 0.8 or len(living) == 1:
                    time.after(
                        random.uniform(0.1, 12.0),
                        lambda: replicas.append(begun(f"replica-{len(replicas)}")),
                    )
            else:
                victim.pause(random.choice((2.0, 7.0, 12.0, 25.0)) * random.uniform(0.8, 1.2))

        time.after(at_s, happen)

    def update() -> None:
        """One replica ends, and another, of whatever version is current, is started."""
        old = [replica for replica in replicas if replica.is_old and not replica.is_dead]
        if old:
            updates.choice(old).kill()
            replicas.append(begun(f"replica-{len(replicas)}"))
            time.after(updates.uniform(3.0, 9.0), update)

    time.after(updates.uniform(5.0, 15.0), update)
    time.run_until(_TROUBLE_S + _QUIET_S)
    _check_end(server, seed, scarce)
    return Outcome(
        seed,
        sum(bool(pod.node) for pod in server.pods.values()),
        server.refused,
        server.table.epoch,
        len({member.token for _, table in server.tables for member in table.lost}),
        sum(any(loan.is_lent for loan in table.loans.values()) for _, table in server.tables),
        sum(any(room.is_lent for room in table.rooms.values()) for _, table in server.tables),
    )


def _cross(random: Random, time: Timeline, server: Server) -> int:
    """What else happens in time; how much room reservations ask for."""
    asked = 0
    for number in range(random.randint(1, 3)):
        name, size = f"held-{number}", random.randint(2, 4)
        asked += size
        held = SimPod(name, size, f"reservation:{name}", holds=name)
        time.after(random.uniform(0.0, 10.0), partial(server.put, held))
        for user in range(size):
            pod = SimPod(f"{name}-user-{user}", 1, f"work-{random.randint(0, 9)}", uses=name)
            time.after(random.uniform(5.0, _TROUBLE_S), partial(server.put, pod))

    def running() -> list[str]:
        return sorted(pod.name for pod in server.pods.values() if pod.node and not pod.has_ended)

    def resize() -> None:
        if names := running():
            server.resize(random.choice(names), random.randint(1, 3))

    def end() -> None:
        if names := running():
            server.end(random.choice(names))

    for _ in range(random.randint(0, 15)):
        time.after(random.uniform(5.0, _TROUBLE_S), resize)
        time.after(random.uniform(5.0, _TROUBLE_S), end)

    def settle() -> None:
        for name in running():
            server.settle(name)
        if time.now_s < _TROUBLE_S + _QUIET_S / 2:
            time.after(1.0, settle)

    settle()
    return asked


def _plant(random: Random, server: Server, scarce: bool) -> None:
    """A tree of three quotas; where not all is scarce, the nodes may still hold more than it allows."""
    whole = int((0.5 if scarce else 0.8) * sum(server.nodes.values()))
    server.quotas |= {"root": whole, "left": random.randint(2, whole), "right": random.randint(2, whole)}
    server.parents |= {"left": "root", "right": "root"}
    kept = Random(whole)
    server.minima |= {name: kept.randint(1, server.quotas[name]) for name in ("root", "left", "right")}


def _fill(random: Random, time: Timeline, server: Server, budget: int) -> int:
    """Pods of that tree, of workloads and a few gangs, some of which end; what is left of the budget."""
    for number in range(budget // 2):
        quota, size = random.choice(("left", "right")), random.randint(1, 2)
        home = f"work-{random.randint(0, 7)}"
        name = f"lent-{number}"
        at_s = random.choice((random.uniform(0.0, 5.0), random.uniform(0.0, _TROUBLE_S)))
        made = SimPod(name, size, "quota:root", "", quota, home=home, held=number % 4 == 3)
        time.after(at_s, partial(server.put, made))
        budget -= size
        if random.random() < 0.5:

            def end(name: str = name) -> None:
                if server.pods[name].node:
                    server.end(name)
                elif time.now_s < _TROUBLE_S:
                    time.after(3.0, lambda: end(name))

            time.after(at_s + random.uniform(3.0, 20.0), end)
    for number in range(random.randint(1, 5)):
        size, quota = random.randint(2, 4), random.choice(("left", "right"))
        name, at_s = f"joint-{number}x{size}", random.uniform(0.0, _TROUBLE_S)
        for _ in range(size):
            pod = SimPod(f"g{number}-{_}", 1, "quota:root", name, quota, home=f"gang:{name}", held=number == 3)
            late_s = random.uniform(0.0, 8.0) if number % 2 else 0.0
            time.after(at_s + late_s, partial(server.put, pod))
            budget -= 1
    return budget


def _check_end(server: Server, seed: int, scarce: bool) -> None:
    if not server.table.is_settled:
        raise Broken(f"seed {seed}: the members never agreed: {server.table}")
    wanted = {room_of(pod) for pod in server.pods.values() if not pod.node}
    if stale := [key for key in server.table.rooms if key.of not in wanted]:
        raise Broken(f"seed {seed}: room of {stale} is not returned, and nothing waits for it")
    if scarce and not any(pod.home for pod in server.pods.values()):
        return
    free = dict(server.nodes)
    for pod in server.pods.values():
        if pod.node:
            free[pod.node] -= pod.counts
    waiting = [pod for pod in server.pods.values() if not pod.node]
    members = Counter(pod.gang for pod in waiting if pod.gang)  # of size 1 each

    def room(pod: SimPod) -> int:
        """What its quotas leave."""
        path = server.path(pod.quota)
        left = min(server.quotas[quota] - server.charged.get(quota, 0) for quota in path)
        return min(left, *(server.minima[q] - server.kept.get(q, 0) for q in path)) if pod.held else left

    stuck = [
        pod.name
        for pod in waiting
        if (members[pod.gang] <= sum(free.values()) if pod.gang else pod.size <= max(free.values()))
        and (not pod.quota or (members[pod.gang] if pod.gang else pod.size) <= room(pod))
    ]
    if stuck:
        raise Broken(f"seed {seed}: {stuck} wait although there is room; {server.table}")
