"""The claim for extended resources that devices of classes provide."""

from __future__ import annotations

from cotenant.model.claims.needs import ContainerRequest
from cotenant.policy.claims.extended import ExtendedClaim, extended_claim

CLASSES = {"x/gpu": "gpus", "x/nic": "nics"}


def container(position: int, lives: bool = True, **amounts: int) -> ContainerRequest:
    named = {f"x/{name}": amount for name, amount in amounts.items()}
    requested = tuple(sorted(("cpu", *named)))
    return ContainerRequest(position, f"c{position}", lives, tuple(named.items()), requested)


def requests(claim: ExtendedClaim) -> list[tuple[str, str, int]]:
    return [(one.name, one.alternatives[0].device_class, one.alternatives[0].count) for one in claim.spec.requests]


def test_each_container_has_devices_of_its_own() -> None:
    claim = extended_claim([container(0, gpu=2), container(1, gpu=1, nic=1), container(2)], CLASSES)
    assert requests(claim) == [
        ("container-0-request-1", "gpus", 2),
        ("container-1-request-1", "gpus", 1),
        ("container-1-request-2", "nics", 1),
    ]
    assert claim.mappings == (
        ("c0", "x/gpu", "container-0-request-1"),
        ("c1", "x/gpu", "container-1-request-1"),
        ("c1", "x/nic", "container-1-request-2"),
    )
    assert extended_claim([container(0, tpu=1)], CLASSES) == extended_claim([], CLASSES)
    assert requests(extended_claim([container(0, gpu=0)], CLASSES)) == []


def test_an_init_container_uses_those_of_containers_that_start_after_it() -> None:
    claim = extended_claim([container(0, False, gpu=2), container(1, gpu=1), container(2, gpu=3)], CLASSES)
    assert [count for _, _, count in requests(claim)] == [1, 3]
    assert claim.mappings[2:] == (("c0", "x/gpu", "container-1-request-1"), ("c0", "x/gpu", "container-2-request-1"))
    fewer = extended_claim([container(0, False, gpu=1), container(1, gpu=1), container(2, gpu=3)], CLASSES)
    assert fewer.mappings[2:] == (("c0", "x/gpu", "container-1-request-1"),)
    sidecar = extended_claim([container(0, gpu=1), container(1, False, gpu=2), container(2, gpu=1)], CLASSES)
    # the sidecar's runs already and stays its own
    assert requests(sidecar) == [
        ("container-0-request-1", "gpus", 1),
        ("container-1-request-1", "gpus", 1),
        ("container-2-request-1", "gpus", 1),
    ]
    assert sidecar.mappings[2:] == (("c1", "x/gpu", "container-2-request-1"), ("c1", "x/gpu", "container-1-request-1"))


def test_the_largest_of_what_is_beyond_is_requested_once() -> None:
    inits = [container(0, False, gpu=2), container(1, False, gpu=5), container(2, False, gpu=5), container(3, gpu=1)]
    claim = extended_claim(inits, CLASSES)
    assert requests(claim) == [("container-1-request-1", "gpus", 4), ("container-3-request-1", "gpus", 1)]
    shared = "container-1-request-1"
    assert claim.mappings == (
        ("c3", "x/gpu", "container-3-request-1"),
        *((f"c{i}", "x/gpu", name) for i in range(3) for name in ("container-3-request-1", shared)),
    )
