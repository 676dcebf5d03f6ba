"""What is asked of the API server for a pod's claims, and when they count as bound."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.storage.persistent_volume import PersistentVolume
from cotenant.drivers.kube.kinds.storage.persistent_volume_claim import PersistentVolumeClaim
from cotenant.drivers.kube.kinds.storage.volume_index import VolumeIndex
from cotenant.engine.framework.instructions import Bind, ClaimChoice
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ClaimBinding
from cotenant.model.decisions.record import DecisionRecord
from cotenant.model.errors import CotenantError, Permanent, Transient
from cotenant.model.resources import Amounts
from cotenant.services.scheduling.claims import BIND_COMPLETED, BOUND_BY, SELECTED_NODE, ClaimBinder

RECORD = DecisionRecord(pod="shop/web", at_s=0.0, nodes=2, node="n", policy="p")
WAITS = 60.0  # longer than any case takes


class Patches:
    """A client that keeps what was patched, and answers with version 8."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, str, Any]] = []

    async def patch(self, kind: Kind[Any], namespace: str, name: str, document: Any) -> PersistentVolume:
        self.made.append((kind.name, namespace, name, document))
        return stored_volume(version="8")


def claim(volume: str = "", **annotations: str) -> PersistentVolumeClaim:
    meta = {"name": "data", "namespace": "shop", "uid": "u", "resourceVersion": "7", "annotations": annotations}
    return msgspec.convert({"metadata": meta, "spec": {"volumeName": volume}}, PersistentVolumeClaim)


def stored_volume(of: str = "", version: str = "5", zone: str = "") -> PersistentVolume:
    """`of`: the UID of the claim that has it."""
    spec: dict[str, Any] = {"claimRef": {"namespace": "shop", "name": "it", "uid": of}} if of else {}
    if zone:
        only = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": only}}
    return msgspec.convert({"metadata": {"name": "v1", "resourceVersion": version}, "spec": spec}, PersistentVolume)


DONE = {BIND_COMPLETED: "yes"}
PROVISIONED = {**DONE, SELECTED_NODE: "n"}


class Run:
    def __init__(self, first: PersistentVolumeClaim | None, binding: ClaimBinding, volume: str = "") -> None:
        self.client, self.volumes = Patches(), VolumeIndex()
        self.volumes.put_claim("shop/data", first)
        self.volumes.put_volume("v1", stored_volume())
        self.nodes = {"n": Node("n", Amounts.of({"cpu": 1000, "memory": 1}), Labels.of({"zone": "a"}))}
        self.binder = ClaimBinder(cast(Client, self.client), self.volumes, self.nodes.get)
        self.bind = Bind("u", "shop/web", "n", RECORD, (ClaimChoice("shop/data", binding, volume),))

    def settle(self, *later: PersistentVolumeClaim | None, within_s: float = WAITS) -> CotenantError | None:
        """The error, if any. `later`: the claim as the watch shows it, one after the other."""

        async def go() -> CotenantError | None:
            settling = asyncio.create_task(self.binder.bind_claims(self.bind, within_s))
            for claim in later:
                for _ in range(5):
                    await asyncio.sleep(0)
                assert not settling.done()
                self.volumes.put_claim("shop/data", claim)
                self.binder.changed()
            try:
                await settling
            except CotenantError as error:
                return error
            finally:
                assert not self.binder._waiters
            return None

        return asyncio.run(go())


def test_a_volume_is_reserved_for_the_claim_as_it_was_seen() -> None:
    run = Run(claim(), ClaimBinding.STATIC, "v1")
    assert run.settle(claim("v1", **DONE)) is None
    ((kind, namespace, name, document),) = run.client.made
    assert (kind, namespace, name) == ("PersistentVolume", "", "v1")
    reference = document["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"], reference["uid"], reference["resourceVersion"]) == (
        "shop",
        "data",
        "u",
        "7",
    )
    assert document["metadata"]["annotations"] == {BOUND_BY: "yes"}


def test_for_a_claim_that_is_provisioned_the_node_is_named() -> None:
    run = Run(claim(), ClaimBinding.PROVISIONED)
    assert run.settle(claim("made", **PROVISIONED)) is None
    assert run.client.made == [
        ("PersistentVolumeClaim", "shop", "data", {"metadata": {"annotations": {SELECTED_NODE: "n"}}})
    ]


@pytest.mark.parametrize(
    ("binding", "volume", "as_seen"),
    [
        (ClaimBinding.STATIC, "v1", claim()),
        (ClaimBinding.STATIC, "v1", claim("v1")),
        (ClaimBinding.STATIC, "v1", claim(**DONE)),
        (ClaimBinding.PROVISIONED, "", claim("made", **{SELECTED_NODE: "n"})),
        (ClaimBinding.PROVISIONED, "", claim(**PROVISIONED)),
    ],
    ids=["nothing", "not completed", "no volume", "provisioned, not completed", "provisioned, no volume"],
)
def test_what_is_not_bound_yet_is_waited_for_until_the_time_is_over(
    binding: ClaimBinding, volume: str, as_seen: PersistentVolumeClaim
) -> None:
    error = Run(as_seen, binding, volume).settle(within_s=0.0)
    assert isinstance(error, Transient)
    assert "shop/data was not bound within 0 s" in str(error)


@pytest.mark.parametrize(("binding", "volume"), [(ClaimBinding.STATIC, "v1"), (ClaimBinding.PROVISIONED, "")])
def test_a_claim_that_is_gone_ends_the_bind_at_once(binding: ClaimBinding, volume: str) -> None:
    for run, later in ((Run(None, binding, volume), ()), (Run(claim(), binding, volume), (None,))):
        error = run.settle(*later)
        assert isinstance(error, Permanent)
        assert str(error) == "PersistentVolumeClaim shop/data is gone"


def test_a_provisioner_that_gives_the_node_back_has_not_bound() -> None:
    run = Run(claim(**{SELECTED_NODE: "n"}), ClaimBinding.PROVISIONED)
    assert run.settle(claim(), claim("made", **PROVISIONED)) is None


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (None, "v1 is gone"),
        (stored_volume("another", "9"), "does not get v1: it is of shop/it"),
        (stored_volume("", "9"), "does not get v1: it is nobody's again"),
    ],
    ids=["gone", "of another claim", "given back"],
)
def test_a_chosen_volume_that_will_not_be_the_claim_s_is_not_waited_for(
    now: PersistentVolume | None, words: str
) -> None:
    run = Run(claim(), ClaimBinding.STATIC, "v1")
    run.volumes.put_volume("v1", stored_volume("u", "8"))

    async def go() -> str:
        settling = asyncio.create_task(run.binder.bind_claims(run.bind, WAITS))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not settling.done()
        run.volumes.put_volume("v1", now)
        run.binder.changed()
        with pytest.raises(Transient) as error:
            await settling
        return str(error.value)

    assert words in asyncio.run(go())


def test_a_volume_as_it_was_before_it_was_asked_for_says_nothing() -> None:
    run = Run(claim(), ClaimBinding.STATIC, "v1")
    run.volumes.put_volume("v1", stored_volume("", "5"))
    assert run.settle(claim("v1", **DONE)) is None


@pytest.mark.parametrize(("binding", "chosen"), [(ClaimBinding.STATIC, "v1"), (ClaimBinding.PROVISIONED, "")])
def test_a_claim_that_is_being_deleted_is_not_waited_for(binding: ClaimBinding, chosen: str) -> None:
    ending = claim()
    ending = msgspec.structs.replace(
        ending, metadata=msgspec.structs.replace(ending.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    error = Run(claim(), binding, chosen).settle(ending)
    assert isinstance(error, Transient)
    assert "shop/data is being deleted" in str(error)


def test_a_volume_that_the_node_does_not_reach_sends_the_pod_elsewhere() -> None:
    for zone, reaches in (("a", True), ("b", False)):
        run = Run(claim(), ClaimBinding.PROVISIONED)
        run.volumes.put_volume("made", stored_volume("u", "9", zone))
        error = run.settle(claim("made", **PROVISIONED))
        assert (error is None) is reaches
        assert reaches or "got made, which n does not reach" in str(error)
