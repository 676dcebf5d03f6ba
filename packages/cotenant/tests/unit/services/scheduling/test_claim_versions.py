"""Objects that come in several versions, against a list of all that was said; claims as they came."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.claims.schema import VERSIONS, ClaimObject
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.services.scheduling.claim_watches import NewestVersion, StoredClaims, requesting

NEWEST_FIRST = ("v2", "v1", "v1beta1")


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_version_that_has_an_object_counts_and_it_is_gone_with_the_last(seed: int) -> None:
    random = Random(seed)
    told: dict[str, int] = {}
    gone: list[str] = []
    calls = 0

    def seen(value: tuple[str, int], now_s: float) -> None:
        nonlocal calls
        calls += 1
        assert now_s == step
        told[value[0]] = value[1]

    def is_gone(key: str, now_s: float) -> None:
        nonlocal calls
        calls += 1
        assert now_s == step
        gone.append(key)
        del told[key]

    newest: NewestVersion[tuple[str, int]] = NewestVersion(NEWEST_FIRST, seen, is_gone)
    stored: dict[tuple[str, str], int] = {}
    step = 0
    for step in range(1, 200):
        version, key = random.choice(NEWEST_FIRST), random.choice("ab")
        before, calls = dict(told), 0
        if random.random() < 0.5:
            stored[key, version] = step
            newest.seen(version, key, (key, step), step)
        else:
            was_there = stored.pop((key, version), None) is not None
            newest.gone(version, key, step)
            if not was_there:
                assert calls == 0
        right = {
            name: next(stored[name, of] for of in NEWEST_FIRST if (name, of) in stored)
            for name in "ab"
            if any((name, of) in stored for of in NEWEST_FIRST)
        }
        assert told == right
        if before != told:
            assert calls == 1
        for name in right:
            assert stored[name, newest.version_of(name)] == right[name]
    assert gone


def claim(name: str, uid: str, version: str | None) -> ClaimObject:
    return ClaimObject(metadata=ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=version))


@pytest.mark.parametrize(
    ("first", "second", "is_kept"),
    [
        (("u", "9"), ("u", "10"), "10"),
        (("u", "10"), ("u", "9"), "10"),
        (("u", "10"), ("u", "10"), "10"),
        (("u", "10"), ("other", "9"), "9"),
        (("u", "10"), ("u", "opaque"), "opaque"),
        (("u", "opaque"), ("u", "9"), "9"),
        (("u", "10"), ("u", None), None),
    ],
)
def test_a_late_answer_does_not_replace_a_newer_claim(
    first: tuple[str, str], second: tuple[str, str | None], is_kept: str | None
) -> None:
    seen: list[Any] = []
    changes: list[int] = []
    claims = StoredClaims(seen.append)
    claims.changed = lambda: changes.append(1)
    claims.put(VERSIONS[0], claim("c", *first))
    claims.put(VERSIONS[-1], claim("c", *second))
    version, kept = claims.by_key["ns/c"]
    assert kept.metadata.resource_version == is_kept
    is_late = (first, second) == (("u", "10"), ("u", "9"))
    assert (len(seen), len(changes)) == ((1, 1) if is_late else (2, 2))
    assert version == claims.version == (VERSIONS[0] if is_late else VERSIONS[-1])
    claims.drop("ns/c")
    claims.drop("ns/c")
    assert claims.by_key == {}
    assert len(changes) == (3 if is_late else 4)


def test_pods_without_a_node_that_request_a_resource_are_found() -> None:
    def pod(name: str, node: str | None, resource: str, amount: str = "1") -> PodObject:
        container = {"name": "c", "resources": {"requests": {resource: amount}}}
        spec = {"nodeName": node, "containers": [container]}
        return msgspec.convert({"metadata": {"name": name}, "spec": spec}, PodObject)

    pods = [
        pod("a", None, "example.com/card"),
        pod("b", "n1", "example.com/card"),
        pod("c", None, "example.com/other"),
        pod("d", None, "cpu"),
        PodObject(),
    ]
    assert [one.metadata.name for one in requesting(pods, frozenset({"example.com/card"}))] == ["a"]
    assert requesting(pods, frozenset()) == []
