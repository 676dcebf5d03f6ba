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


def trial(seed: int, fences: bool = True) -> Outcome:
    """Raises `Broken` where an invariant does not hold."""
    random = Random(seed)
    time = Timeline(random)
    slots = random.randint(2, 4)
    nodes = {f"node-{number}": random.choice((4, 6, 8)) for number in range(random.randint(4, 10))}
    server = Server(nodes, {"tight": random.randint(2, 8)})
    replicas = [Replica(f"replica-{number}", server, time, slots, fences) for number in range(slots)]
    scarce = seed % 2 == 1  # more is asked for than there is: rooms are fought for, and some pods wait for good
    budget = int((1.6 if scarce else 0.85) * sum(nodes.values()))
    number = 0
    while budget > 0:
        kind = random.random()
        at_s = random.uniform(0.0, _TROUBLE_S)
        if kind < 0.3:
            lot = [(1, f"gang-{number}x{size}", f"gang-{number}x{size}", "") for size in [random.randint(2, 6)]] * 1
            lot *= int(lot[0][1].partition("x")[2])
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
                        lambda: replicas.append(Replica(f"replica-{len(replicas)}", server, time, slots, fences)),
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


def _check_end(server: Server, seed: int, scarce: bool) -> None:
    if not server.table.is_settled:
        raise Broken(f"seed {seed}: the members never agreed: {server.table}")
    if scarce:
        return
    free = dict(server.nodes)
    for pod in server.pods.values():
        if pod.node:
            free[pod.node] -= pod.size
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
