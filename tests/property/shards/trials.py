"""One trial by its seed: a cluster, replicas, and what happens to them; then quiet, in which all work must end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.property.shards.replica import Replica
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


def trial(seed: int, fences: bool = True, crossings: bool = False) -> Outcome:
    """Raises `Broken` where an invariant does not hold. `crossings`: pods end and are resized, reservations are used by
    pods of other shards, gangs may be larger than a shard's own nodes hold, and clocks go at paces of their own.
    """
    random = Random(seed)
    time = Timeline(random)
    slots = random.randint(2, 4)
    nodes = {f"node-{number}": random.choice((4, 6, 8)) for number in range(random.randint(4, 10))}
    server = Server(nodes, {"tight": random.randint(2, 8)})
    paces = Random(-seed - 1)

    def begun(name: str) -> Replica:
        return Replica(name, server, time, slots, fences, paces.uniform(0.95, 1.05) if crossings else 1.0)

    replicas = [begun(f"replica-{number}") for number in range(slots)]
    scarce = seed % 2 == 1  # more is asked for than there is: rooms are fought for, and some pods wait for good
    budget = int((1.6 if scarce else 0.85) * sum(nodes.values()))
    number = 0
    if crossings:
        budget -= _cross(Random(seed + 1), time, server)
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
    time.run_until(_TROUBLE_S + _QUIET_S)
    _check_end(server, seed, scarce)
    return Outcome(
        seed,
        sum(bool(pod.node) for pod in server.pods.values()),
        server.refused,
        server.table.epoch,
        len({member.token for _, table in server.tables for member in table.lost}),
        sum(any(loan.is_lent for loan in table.loans.values()) for _, table in server.tables),
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


def _check_end(server: Server, seed: int, scarce: bool) -> None:
    if not server.table.is_settled:
        raise Broken(f"seed {seed}: the members never agreed: {server.table}")
    if scarce:
        return
    free = dict(server.nodes)
    for pod in server.pods.values():
        if pod.node:
            free[pod.node] -= pod.counts
    waiting = [pod for pod in server.pods.values() if not pod.node]
    members = Counter(pod.gang for pod in waiting if pod.gang)  # of size 1 each
    tight = server.quotas["tight"] - server.charged.get("tight", 0)
    stuck = [
        pod.name
        for pod in waiting
        if (members[pod.gang] <= sum(free.values()) if pod.gang else pod.size <= max(free.values()))
        and (not pod.quota or pod.size <= tight)
    ]
    if stuck:
        raise Broken(f"seed {seed}: {stuck} wait although there is room; {server.table}")
