"""A difference is known only where both decisions are those of the two searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.kube.claims.explained import Case, decided, explained, given
from tests.kube.claims.upstream_search import UpstreamSearch

from cotenant.policy.claims.allocator import DeviceSearch

Manifest = dict[str, Any]
DRIVER, POOL = "gpu.example.com", "n"
NODE: Manifest = {
    "metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
}
SWITCHES: Manifest = {"distinctAttribute": f"{DRIVER}/switch"}
TAINT: Manifest = {"key": "slow", "effect": "NoSchedule"}


def device(name: str, switch: str, *, slots: int = 0, **more: Any) -> Manifest:
    counters: Manifest = {"slots": {"value": str(slots)}}
    uses = {"consumesCounters": [{"counterSet": "slots", "counters": counters}]} if slots else {}
    return {"name": name, "attributes": {"switch": {"string": switch}}, **uses, **more}


def slices(*devices: Manifest, slots: int = 0) -> list[Manifest]:
    counters: Manifest = {"slots": {"value": str(slots)}}
    contents: list[Manifest] = [{"devices": list(devices)}]
    if slots:
        contents.insert(0, {"sharedCounters": [{"name": "slots", "counters": counters}]})
    return [
        {
            "metadata": {"name": f"s{at}"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "n",
                "pool": {"name": POOL, "generation": 1, "resourceSliceCount": len(contents)},
                **content,
            },
        }
        for at, content in enumerate(contents)
    ]


def case(offered: Sequence[Manifest], requests: Sequence[Manifest], *constraints: Manifest) -> Case:
    """A pod with one claim, before anybody has decided."""
    claim = {
        "metadata": {"name": "c", "namespace": "w", "uid": "u-c"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": f"q{at}", "exactly": {"deviceClassName": "gpu", **one}} for at, one in enumerate(requests)
                ],
                "constraints": list(constraints),
            }
        },
    }
    pod = {
        "metadata": {"name": "p", "namespace": "w", "uid": "u-p"},
        "spec": {
            "schedulerName": "any",
            "containers": [{"name": "c", "resources": {"claims": [{"name": "r"}]}}],
            "resourceClaims": [{"name": "r", "resourceClaimName": "c"}],
        },
    }
    gpu = {"metadata": {"name": "gpu"}, "spec": {}}
    return Case({"metadata": {"name": "w"}}, [NODE], [gpu], offered, (), (), [claim], pod, [claim])


def bound(before: Case, *devices: tuple[str, str]) -> Case:
    """As it is when somebody has given the claim these devices, as (request, device)."""
    results = [{"request": asked, "driver": DRIVER, "pool": POOL, "device": name} for asked, name in devices]
    claim = {**before.before[0], "status": {"allocation": {"devices": {"results": results}}}}
    pod = {**before.pod, "spec": {**before.pod["spec"], "nodeName": "n"}}
    return replace(before, pod=pod, after=[claim])


COUNTERS = case(slices(device("a", "x", slots=3, taints=[TAINT]), device("b", "x", slots=2), slots=4), [{}])
DISTINCT = case(slices(device("a", "x"), device("b", "y"), device("c", "x")), [{"count": 3}], SWITCHES)


@pytest.mark.parametrize(
    ("before", "theirs", "ours"),
    [
        # of four slots a tainted device took three, and keeps them
        (COUNTERS, COUNTERS, bound(COUNTERS, ("q0", "b"))),
        # the third differs from the second, and nobody remembers the first
        (DISTINCT, bound(DISTINCT, ("q0", "a"), ("q0", "b"), ("q0", "c")), DISTINCT),
    ],
)
def test_what_upstream_loses_track_of_is_known(before: Case, theirs: Case, ours: Case) -> None:
    assert decided(before, UpstreamSearch) == given(theirs)
    assert decided(before, DeviceSearch) == given(ours)
    assert explained(theirs, ours)


def test_another_difference_in_such_a_world_is_not() -> None:
    wrong = bound(COUNTERS, ("q0", "a"))
    assert not explained(COUNTERS, wrong)  # ours gives what it should not
    assert not explained(wrong, bound(COUNTERS, ("q0", "b")))  # upstream gives what its search does not
    assert not explained(COUNTERS, COUNTERS)  # ours refuses what it should give


def test_where_nothing_is_lost_both_searches_agree() -> None:
    plain = case(slices(device("a", "x"), device("b", "y")), [{}, {}], SWITCHES)
    both = bound(plain, ("q0", "a"), ("q1", "b"))
    assert decided(plain, UpstreamSearch) == decided(plain, DeviceSearch) == given(both)
    assert not explained(plain, both)


def test_a_pod_that_waits_before_its_claim_is_made_is_given_nothing() -> None:
    plain = case(slices(device("a", "x")), [{}])
    assert decided(replace(plain, before=(), after=()), DeviceSearch) is None
