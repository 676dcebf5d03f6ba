"""What may happen to a crossing world that is at rest: something may be evicted that could not be, or has room."""

from __future__ import annotations

from collections.abc import Callable

from tests.fakes.cluster.crossing_facts import Member
from tests.fakes.cluster.crossing_world import CrossingWorld


def happens(world: CrossingWorld) -> str:
    """One random event; its name."""
    name = world.rng.choice(list(_EVENTS))
    _EVENTS[name](world)
    return name


def _running(world: CrossingWorld, pods: Callable[[Member], bool] = bool) -> Member | None:
    found = [pod for pod in world.facts.pods.values() if pod.node and pods(pod)]
    return world.rng.choice(found) if found else None


def _becomes_preemptible(world: CrossingWorld) -> None:
    pod = _running(world, lambda pod: not pod.preemptible)
    if pod is not None:
        pod.preemptible = True
        world.store(pod)


def _is_preemptible_no_longer(world: CrossingWorld) -> None:
    pod = _running(world)
    if pod is not None:
        pod.preemptible = False
        world.store(pod)


def _ends(world: CrossingWorld) -> None:
    pod = _running(world)
    if pod is not None:
        world.end(pod.name)


def _is_deleted(world: CrossingWorld) -> None:
    waiting = [pod for pod in world.facts.pods.values() if not pod.node]
    if waiting:
        world.end(world.rng.choice(waiting).name)


def _budget_changes(world: CrossingWorld) -> None:
    world.set_allowed(world.rng.randint(0, 3))


def _claim_is_kept(world: CrossingWorld) -> None:
    shared = [key for key, wanted in world.facts.claims.items() if wanted.devices and not wanted.owner]
    if shared:
        key = world.rng.choice(shared)
        wanted = world.facts.claims[key]
        wanted.is_kept = not wanted.is_kept
        if not wanted.users and not wanted.is_kept:
            wanted.devices = ()
        world.put(key)


def _node_grows(world: CrossingWorld) -> None:
    name = world.rng.choice(sorted(world.facts.cpu))
    world.facts.cpu[name] += world.rng.choice((500, 1000))
    world.set_node(name)


def _quota_grows(world: CrossingWorld) -> None:
    if world.facts.quotas:
        name = world.rng.choice(sorted(world.facts.quotas))
        least, most = world.facts.quotas[name]
        world.facts.quotas[name] = least, most + 1000
        world.set_quota(name)


_EVENTS: dict[str, Callable[[CrossingWorld], None]] = {
    "a pod that becomes preemptible": _becomes_preemptible,
    "a pod that is no longer preemptible": _is_preemptible_no_longer,
    "a pod that ends": _ends,
    "a waiting pod that is deleted": _is_deleted,
    "another budget": _budget_changes,
    "a claim that is reserved for something else too, or no longer": _claim_is_kept,
    "a larger node": _node_grows,
    "a larger quota": _quota_grows,
}
