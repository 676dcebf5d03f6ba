"""An engine that runs for months keeps nothing of pods, gangs, quotas, claims and reservations that are gone: each of
its tables has as many entries after one of their lives as after another, with other names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.fakes.cluster import claims_world, gang_world, quota_world, reservation_world
from tests.fakes.cluster.gang_world import RACK, settle

from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.cluster.pod import HostPort
from cotenant.model.groups.gang import GangMode, GangTopology

BOUNDED = (  # answers and events that are kept until there are so many
    ".verdict_cache",
    "._past",
    ".why.past",
    "._pods.was_assigned",
    "._roster._kept",
    ".narrowing._asked",
    ".claims.facts.ended",
    ".encoder._changes",
)


def tables(root: object) -> dict[str, int]:
    """How many entries each table below an object has, by its path."""
    found: dict[str, int] = {}
    known: set[int] = set()
    waiting: deque[tuple[str, object]] = deque([("", root)])
    while waiting:
        path, value = waiting.popleft()
        if id(value) in known or path.endswith(BOUNDED):
            continue
        known.add(id(value))
        if isinstance(value, (dict, set, deque, list)):
            found[path] = len(value)
        elif type(value).__module__.startswith(("cotenant.engine", "cotenant.policy")):
            waiting.extend((f"{path}.{name}", held) for name, held in parts(value))
    return found


def parts(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)


Life = Callable[[Cluster, str, float], None]


def plain_pods(c: Cluster, name: str, now_s: float) -> None:
    """Pods with rules about others, ports, and one that preempts."""
    own = LabelSelector.of({"app": name})
    pods = [gang_world.pod(f"{name}-{i}", priority=i) for i in range(4)]
    pods = [
        replace(
            pod,
            pod=replace(
                pod.pod,
                labels=Labels.of({"app": name}),
                anti_affinity=(PodTerm(HOSTNAME, own),),
                affinity=(PodTerm(RACK, own, weight=5),),
                host_ports=(HostPort(1000 + len(name)),),
                node_selector=Labels.of({RACK: "r0"}) if i == 3 else Labels(),
            ),
        )
        for i, pod in enumerate(pods)
    ]
    gang_world.see(c, *pods, now_s=now_s)
    gang_world.confirm(c, settle(c, now_s), now_s)
    vip = gang_world.pod(f"{name}-vip", priority=99)
    gang_world.see(c, vip, now_s=now_s)
    told = gang_world.preempted(settle(c, now_s))
    for victim in {victim for victims in told.values() for victim in victims}:
        c.pod_gone(f"uid-default-{victim}", now_s)
    gang_world.confirm(c, settle(c, now_s), now_s)
    for pod in (*pods, vip):
        c.pod_gone(pod.uid, now_s + 1)


def gangs(c: Cluster, name: str, now_s: float) -> None:
    """A gang in a rack, one that is too large, one that preempts, one of a PodGroup, one that holds nodes."""
    low = gang_world.members(f"{name}-low", 2)
    gang_world.see(c, *low, now_s=now_s)
    gang_world.confirm(c, settle(c, now_s), now_s)
    c.plugins.gangs.pod_group_seen(gang_world.group(f"{name}-named", 2), now_s)
    pods = [
        *gang_world.members(f"{name}-rack", 2, topology=GangTopology((RACK,), True), priority=5),
        *gang_world.members(f"{name}-large", 9),
        *gang_world.members(f"{name}-loose", 4, mode=GangMode.NON_STRICT),
        *gang_world.members(f"{name}-first", 2, groups=(f"default/{name}-first", f"default/{name}-second")),
        *(gang_world.pod(f"{name}-n{i}", label=f"{name}-named") for i in range(2)),
    ]
    gang_world.see(c, *pods, now_s=now_s)
    gang_world.confirm(c, settle(c, now_s), now_s)
    for entry in low:
        c.pod_gone(entry.uid, now_s + 1)
    gang_world.confirm(c, settle(c, now_s + 1), now_s + 1)
    ended = replace(pods[0], phase=PodPhase.SUCCEEDED)
    c.pod_seen(ended, now_s + 2)
    settle(c, now_s + 30)
    for entry in pods:
        c.pod_gone(entry.uid, now_s + 31)
    c.plugins.gangs.pod_group_gone(f"default/{name}-named", now_s + 31)


@pytest.mark.parametrize("life", [plain_pods, gangs])
def test_of_pods_and_gangs(life: Life) -> None:
    c = gang_world.cluster(0)
    for i in range(4):
        c.node_seen(gang_world.node(f"n{i}", rack=f"r{i % 2}"))
    same_after_each(c, lambda name, now_s: life(c, name, now_s), lambda now_s: settle(c, now_s))


def test_of_nodes() -> None:
    c = gang_world.cluster(1)

    def life(name: str, now_s: float) -> None:
        made = gang_world.node(name, rack=name)
        c.node_seen(replace(made, labels=Labels.of({**dict(made.labels), ZONE: name})))
        pods = [gang_world.pod(f"{name}-{i}", on=name if i else "") for i in range(2)]
        gang_world.see(c, *pods, now_s=now_s)
        gang_world.confirm(c, settle(c, now_s), now_s)
        for entry in pods:
            c.pod_gone(entry.uid, now_s + 1)
        c.node_gone(name, now_s + 1)

    same_after_each(c, life, lambda now_s: settle(c, now_s))


def test_of_quotas() -> None:
    world = quota_world.World(quota_world.node("n", 100))

    def life(name: str, now_s: float) -> None:
        world.now_s = now_s
        world.write(quota_world.quota(f"{name}-p", 4, 20, is_parent=True))
        world.write(
            quota_world.quota(f"{name}-a", 2, 10, f"{name}-p"), quota_world.quota(f"{name}-b", 2, 10, f"{name}-p")
        )
        low = [quota_world.pod(f"{name}-low{i}", 5, f"{name}-a") for i in range(2)]
        world.create(*low)
        world.go()
        world.create(
            quota_world.pod(f"{name}-vip", 10, f"{name}-a", priority=9),
            quota_world.pod(f"{name}-small", 4, f"{name}-a"),
            quota_world.pod(f"{name}-other", 3, f"{name}-b"),
            quota_world.pod(f"{name}-large", 30, f"{name}-b"),
        )
        world.evict(world.go(1.0))
        world.go(1.0)
        world.delete(*(uid.removeprefix("uid-") for uid in list(world.pods)))
        for which in "abp":
            world.quotas.quota_gone(f"quotas/{name}-{which}", world.now_s)

    def rest(now_s: float) -> None:
        world.now_s = now_s
        world.go()

    same_after_each(world.cluster, life, rest)


def test_of_reservations() -> None:
    world = reservation_world.World(reservation_world.node("n0"), reservation_world.node("n1"))

    def life(name: str, now_s: float) -> None:
        world.now_s = now_s
        world.see(reservation_world.reservation(f"{name}-r"), reservation_world.reservation(f"{name}-large", 9000))
        world.go()
        world.see(*(reservation_world.web(f"{name}-{i}") for i in range(2)), reservation_world.pod(f"{name}-p", 3000))
        world.go(1.0)
        for uid in list(world.pods):
            del world.pods[uid]
            world.cluster.pod_gone(uid, world.now_s)
        for found in list(world.held.values()):
            del world.held[found.uid]
            world.reservations.gone(found.name, world.now_s)

    def rest(now_s: float) -> None:
        world.now_s = now_s
        world.go()

    same_after_each(world.cluster, life, rest)


def test_of_claims() -> None:
    world = claims_world.ClaimsWorld()
    world.node("n0", claims_world.gpus(2))
    world.node("n1", claims_world.gpus(1, "b"))

    def life(name: str, now_s: float) -> None:
        world.now_s = now_s
        world.own(f"{name}-own")
        world.own(f"{name}-two", claims_world.spec(claims_world.request("gpu", 2)))
        world.own(f"{name}-many", claims_world.spec(claims_world.request("gpu", 5)))
        world.claim(f"{name}-shared")
        for i in range(2):
            world.pod(f"{name}-{i}", f"{name}-shared")
        for bind in world.decide():
            assert world.write(bind)
            world.engine.sending(bind.uid, now_s)
            world.engine.bound(bind.uid, now_s)
        for uid in list(world.pods):
            world.end(uid.removeprefix("uid-"))
        for key in list(world.claims):
            world.delete(key)

    def rest(now_s: float) -> None:
        world.now_s = now_s
        world.decide()

    same_after_each(world.engine, life, rest)


def same_after_each(c: Cluster, life: Callable[[str, float], None], rest: Callable[[float], object]) -> None:
    """The first life may leave what is kept once for all; those after it leave nothing more."""
    now_s = 0.0
    found = []
    for number in range(4):
        life(f"life{number}", now_s)
        now_s += 2000.0
        rest(now_s)
        now_s += 2000.0
        rest(now_s)
        found.append(tables(c))
    grown = {
        path: [one.get(path) for one in found]
        for path in found[-1]
        if found[-1][path] > max(one.get(path, 0) for one in found[1:-1])
    }
    assert grown == {}
