"""Pods that a ResourceQuota holds back, counted by hand and by a loop over every quota."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.report import WaitCause
from cotenant.model.cluster.namespace_quota import NamespaceQuota
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.services.assess.copying import CopiedController
from cotenant.services.assess.quotas import held_by_quotas

NANO = 10**9
GIB = 1 << 30


def quota(
    name: str, hard: dict[str, float], used: dict[str, float], scoped: bool = False, namespace: str = "ns"
) -> Any:
    def nano(amounts: dict[str, float]) -> dict[str, int]:
        return {key: round(amount * NANO) for key, amount in amounts.items()}

    return NamespaceQuota(namespace, name, nano(hard), nano(used), scoped)


def running(owner: str, count: int = 1, cpu_m: int = 500, memory: int = GIB, controls: bool = True) -> list[PodInfo]:
    of = OwnedBy("apps/v1", "ReplicaSet", owner, owner, controller=controls)
    requests = Amounts.of({"cpu": cpu_m, "memory": memory})
    pods = (Pod(f"{owner}-{n}", namespace="ns", requests=requests) for n in range(count))
    return [PodInfo(ObservedPod(pod, f"u-{pod.name}", "s", 0.0, owned_by=(of,))) for pod in pods]


def held(
    quotas: list[Any], wanted: dict[str, int], *pods: list[PodInfo], namespace: str = "ns"
) -> list[tuple[str, int]]:
    every = [info for some in pods for info in some]
    copy = SimpleNamespace(
        quotas=tuple(quotas),
        engine=SimpleNamespace(every_pod=lambda: every),
        controllers={uid: CopiedController(namespace, "ReplicaSet", uid, count) for uid, count in wanted.items()},
    )
    found = held_by_quotas(cast(Any, copy))
    for one in found:
        assert (one.placed_now, one.placed_lent, one.holder) == (0, 0, WaitCause.QUOTA)
    return [(one.why, one.pods) for one in found]


def test_what_is_missing_of_a_controller_waits_for_the_quota_that_allows_no_more() -> None:
    full = quota("q", {"requests.cpu": 2}, {"requests.cpu": 1.5})
    assert held([full], {"a": 3}, running("a", 1)) == []  # one more of 500 m fits exactly
    fuller = quota("q", {"requests.cpu": 2}, {"requests.cpu": 1.501})
    why = "ResourceQuota ns/q allows no more: requests.cpu 1501m of 2 used"
    assert held([fuller], {"a": 3}, running("a", 1)) == [(why, 2)]
    assert held([fuller], {"a": 1}, running("a", 1)) == []
    assert held([fuller], {"a": 1}, running("a", 2)) == []
    assert held([fuller], {"a": 3}, running("a", 1, cpu_m=499)) == []
    assert held([fuller], {"a": 3, "b": 2}, running("a", 1), running("b", 1)) == [(why, 3)]
    assert held([fuller], {"a": 3}, running("a", 1), namespace="other") == []
    assert held([], {"a": 3}, running("a", 1)) == []
    assert held([quota("q", {"requests.cpu": 0}, {}, scoped=True)], {"a": 3}, running("a", 1)) == []


def test_a_pod_of_another_owner_is_no_sibling() -> None:
    full = quota("q", {"pods": 1}, {"pods": 1})
    why = "ResourceQuota ns/q allows no more: pods 1 of 1 used"
    assert held([full], {"a": 2}, running("a", 1, controls=False)) == [(why, 2)]


@pytest.mark.parametrize(
    ("name", "hard", "used", "is_full"),
    [
        ("pods", 3, 2, False),
        ("pods", 3, 3, True),
        ("count/pods", 3, 3, True),
        ("count/pods", 3, 2, False),
        ("cpu", 2, 1.6, True),
        ("memory", 2 * GIB, GIB, False),
        ("memory", 2 * GIB, GIB + 1, True),
        ("requests.memory", 2 * GIB, GIB + 1, True),
        ("limits.cpu", 1, 1, False),
        ("services", 1, 1, False),
        ("requests.nvidia.com/gpu", 1, 1, False),  # none is requested
    ],
)
def test_what_one_more_pod_needs_of_each_resource(name: str, hard: float, used: float, is_full: bool) -> None:
    assert bool(held([quota("q", {name: hard}, {name: used})], {"a": 2}, running("a", 1))) is is_full


@pytest.mark.parametrize(
    ("name", "used", "is_full"),
    [("requests.cpu", 1.9, False), ("requests.cpu", 2, True), ("pods", 1, False), ("limits.cpu", 9, False)],
)
def test_without_a_sibling_a_quota_must_be_used_up(name: str, used: float, is_full: bool) -> None:
    assert bool(held([quota("q", {name: 2}, {name: used})], {"a": 1})) is is_full


@pytest.mark.parametrize("seed", range(10))
def test_sums_are_those_of_every_controller_and_the_first_quota_that_is_full(seed: int) -> None:
    random = Random(seed)
    names = ("pods", "requests.cpu")
    quotas = [
        quota(f"q{n}", {name: random.randint(0, 3) for name in names}, {name: random.randint(0, 3) for name in names})
        for n in range(3)
    ]
    wanted = {f"c{n}": random.randint(0, 4) for n in range(6)}
    pods = {uid: running(uid, random.randint(0, 3), cpu_m=1000) for uid in wanted}
    right: dict[str, int] = {}
    for uid, count in wanted.items():
        missing = count - len(pods[uid])
        for one in quotas:
            full = [
                name
                for name in names
                if one.used_nano[name] + (NANO if name == "pods" or pods[uid] else 1) > one.hard_nano[name]
            ]
            if missing > 0 and full:
                name = min(full)
                why = f"ResourceQuota ns/{one.name} allows no more: {name} {one.used_nano[name] // NANO} of "
                why += f"{one.hard_nano[name] // NANO} used"
                right[why] = right.get(why, 0) + missing
                break
    assert held(quotas, wanted, *pods.values()) == sorted(right.items(), key=lambda pair: (-pair[1], pair[0]))
