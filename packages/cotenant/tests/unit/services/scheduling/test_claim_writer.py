"""What is written into claims before a bind, whatever happens between two writes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.fakes.servers.claims_api import ClaimsApi, Killed

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.claims.claim_reading import read_claim
from cotenant.drivers.kube.kinds.claims.schema import FINALIZER
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.model.claims.claim import AllocatedDevice, Allocation, ResourceClaim
from cotenant.model.claims.devices import DeviceId
from cotenant.model.claims.needs import ClaimHolding
from cotenant.model.cluster.demands import Holdings
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.scheduling.claim_watches import StoredClaims
from cotenant.services.scheduling.claim_writer import DeviceClaimWriter

RECORD = DecisionRecord(pod="d/web", at_s=0.0, nodes=1, node="n", policy="p")
GPU = DeviceId("gpu.example.com", "n", "gpu-0")
ALLOCATION = Allocation((AllocatedDevice("gpu", GPU),))


def claim(name: str = "c") -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    return {
        "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", "finalizers": ["others"]},
        "spec": {"devices": {"requests": requests}},
    }


class Run:
    """A writer before an API. `seen`: claims as the engine was told."""

    def __init__(self, api: ClaimsApi) -> None:
        self.api = api
        self.seen: list[ResourceClaim] = []
        self.stored = StoredClaims(self.seen.append)
        for key in api.claims:
            self.stored.put("v1", api.object(key))
        self.writer = DeviceClaimWriter(cast(Client, api), self.stored, lambda: 1_700_000_000.0)

    def settle(self, *held: ClaimHolding, uid: str = "u") -> Bind:
        bind = Bind(uid, "d/web", "n", RECORD, holds=Holdings(claims=held))
        return asyncio.run(self.writer.write_claims(bind))

    def take_back(self, *held: ClaimHolding) -> None:
        asyncio.run(self.writer.take_back(Bind("u", "d/web", "n", RECORD, holds=Holdings(claims=held))))


HELD = ClaimHolding("d/c", "uid-c", ALLOCATION)


def test_a_claim_gets_its_finalizer_then_its_allocation_with_the_reservation() -> None:
    run = Run(ClaimsApi(claim()))
    run.settle(HELD)
    stored = run.api.claims["d/c"]
    assert stored["metadata"]["finalizers"] == ["others", FINALIZER]
    assert stored["status"] == {
        "allocation": {
            "allocationTimestamp": "2023-11-14T22:13:20Z",
            "devices": {
                "results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}],
            },
        },
        "reservedFor": [{"resource": "pods", "name": "web", "uid": "u"}],
    }
    assert run.api.writes == 2
    assert run.seen[-1].allocation is not None
    assert run.seen[-1].reserved_for == ("u",)
    run.settle(HELD)
    assert run.api.writes == 2  # nothing is left to write


def test_a_claim_that_cannot_be_protected_is_not_allocated_and_says_what_to_do() -> None:
    """As kube-apiserver 1.36 answers where opaque parameters were posted as JSON with spaces."""
    run = Run(ClaimsApi(claim()))
    run.api.is_immutable = True
    with pytest.raises(Transient, match=r"gets no finalizer: .*field is immutable.* without them, as kubectl does"):
        run.settle(HELD)
    assert "allocation" not in run.api.claims["d/c"].get("status", {})


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("dies_at", [0, 1, 2, 3])
def test_a_process_that_is_killed_at_any_write_is_continued_by_the_next(dies_at: int, is_late: bool) -> None:
    api = ClaimsApi(claim("a"), claim("b"))
    held = [
        ClaimHolding(f"d/{name}", f"uid-{name}", Allocation((AllocatedDevice("gpu", GPU._replace(device=name)),)))
        for name in "ab"
    ]
    api.dies_at, api.is_late = dies_at, is_late
    with pytest.raises(Killed):
        Run(api).settle(*held)
    api.dies_at = -1
    after = Run(api)  # it decides by what is stored
    again = [
        ClaimHolding(holding.key, holding.uid, None if known.allocation is not None else holding.allocation)
        for holding in held
        for known in [read_claim(api.object(holding.key))]
    ]
    after.settle(*again)
    for name in "ab":
        status = api.claims[f"d/{name}"]["status"]
        assert [found["device"] for found in status["allocation"]["devices"]["results"]] == [name]
        assert [consumer["uid"] for consumer in status["reservedFor"]] == ["u"]
        assert api.claims[f"d/{name}"]["metadata"]["finalizers"].count(FINALIZER) == 1


@pytest.mark.parametrize("loses_at", [0, 1])
def test_a_lost_answer_is_looked_up(loses_at: int) -> None:
    run = Run(ClaimsApi(claim()))
    run.api.loses_at = loses_at
    run.settle(HELD)
    assert run.api.writes == 2
    assert [consumer["uid"] for consumer in run.api.claims["d/c"]["status"]["reservedFor"]] == ["u"]


def test_a_claim_that_changed_meanwhile_is_read_again() -> None:
    run = Run(ClaimsApi(claim()))
    run.api.claims["d/c"]["metadata"]["resourceVersion"] = "99"  # somebody labelled it
    run.settle(HELD)
    assert run.api.claims["d/c"]["status"]["reservedFor"]


def test_a_claim_that_another_allocated_ends_the_attempt_and_keeps_what_it_has() -> None:
    run = Run(ClaimsApi(claim("other"), claim()))
    status = {
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": "x", "pool": "y", "device": "z"}]},
        }
    }
    run.api.before = lambda number: run.api.claims["d/c"].update(status=status) if number == 2 else None
    other = ClaimHolding("d/other", "uid-other", ALLOCATION)
    with pytest.raises(Transient):
        run.settle(other, HELD)
    run.api.before = lambda number: None
    run.api.claims["d/c"]["metadata"]["resourceVersion"] = "77"
    with pytest.raises(Transient, match="allocated by another"):
        run.settle(other, HELD)
    assert run.api.claims["d/c"]["status"] == status
    assert "allocation" not in run.api.claims["d/other"]["status"]  # given back
    assert "reservedFor" not in run.api.claims["d/other"]["status"]


def test_a_claim_made_anew_or_being_deleted_is_not_written() -> None:
    for change in ({"uid": "new"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        api = ClaimsApi(claim())
        api.claims["d/c"]["metadata"].update(change)
        run = Run(api)
        with pytest.raises(CotenantError):
            run.settle(HELD)
        assert api.writes == 0


def test_what_a_failed_bind_wrote_is_taken_back_and_others_keep_theirs() -> None:
    run = Run(ClaimsApi(claim()))
    run.settle(HELD)
    run.settle(ClaimHolding("d/c", "uid-c"), uid="second")
    run.take_back(HELD)
    status = run.api.claims["d/c"]["status"]
    assert [consumer["uid"] for consumer in status["reservedFor"]] == ["second"]
    assert "allocation" in status
    alone = Run(ClaimsApi(claim()))
    alone.settle(HELD)
    alone.take_back(HELD)
    assert alone.api.claims["d/c"]["status"] == {}
    assert alone.seen[-1].allocation is None


def test_a_claim_is_made_for_extended_resources_and_named_in_the_pod() -> None:
    run = Run(ClaimsApi())
    held = ClaimHolding("", "", ALLOCATION, (("gpu", "gpu", 1),), (("main", "example.com/gpu", "gpu"),))
    bind = run.settle(held)
    (made,) = run.api.claims.values()
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert bind.holds.claims[0].key == f"d/{made['metadata']['name']}"
    status = run.api.pods["d/web"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == made["metadata"]["name"]
    assert status["requestMappings"] == [
        {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
    ]
    run.take_back(*bind.holds.claims)
    assert run.api.claims == {}


def test_devices_with_binding_conditions_are_waited_for() -> None:
    async def go(*later: dict[str, Any]) -> CotenantError | None:
        run = Run(ClaimsApi(claim()))
        conditions = {"binding_conditions": ("ready",), "failure_conditions": ("broken",)}
        waiting = Allocation((AllocatedDevice("gpu", GPU, **conditions),))  # type: ignore[arg-type]
        held = ClaimHolding("d/c", "uid-c", waiting)
        bind = Bind("u", "d/web", "n", RECORD, holds=Holdings(claims=(held,)))
        settling = asyncio.create_task(run.writer.write_claims(bind))
        for condition in later:
            for _ in range(20):
                await asyncio.sleep(0)
            assert not settling.done()
            device = {"driver": GPU.driver, "pool": GPU.pool, "device": GPU.device, "conditions": [condition]}
            run.api.claims["d/c"]["status"]["devices"] = [device]
            run.api._store(run.api.claims["d/c"])
            run.stored.put("v1", run.api.object("d/c"))
        try:
            await settling
        except CotenantError as error:
            assert "allocation" not in run.api.claims["d/c"]["status"]
            return error
        return None

    assert asyncio.run(go({"type": "ready", "status": "False"}, {"type": "ready", "status": "True"})) is None
    failed = asyncio.run(go({"type": "broken", "status": "True", "message": "no link"}))
    assert failed is not None
    assert "no link" in str(failed)


def test_a_claim_is_released_for_its_only_pod() -> None:
    run = Run(ClaimsApi(claim()))
    run.settle(HELD)
    asyncio.run(run.writer.release(ReleaseClaim("d/c", "uid-c", "u")))
    assert run.api.claims["d/c"]["status"] == {}
    run.settle(HELD, uid="u")
    asyncio.run(run.writer.release(ReleaseClaim("d/c", "uid-c", "another")))
    assert run.api.claims["d/c"]["status"]["reservedFor"]
