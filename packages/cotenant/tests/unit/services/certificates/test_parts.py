"""Certificates of all parts: each is looked at for itself, and their authorities are published once all are known."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.model.errors import InvalidInput, Transient
from cotenant.services.certificates import parts
from cotenant.services.certificates.keeper import CHECK_S, RETRY_S
from cotenant.services.certificates.parts import PartCertificates, secret_name, service_hosts


class Keeper:
    """One Service's; `faults`: what its next steps raise, None = nothing."""

    made: dict[str, Keeper]

    def __init__(self, client: Any, namespace: str, secret: str, hosts: tuple[str, ...], folder: Any, now: Any) -> None:
        self.told = (namespace, secret, hosts)
        self.folder: Path | None = folder
        self.bundle, self.expires_s, self.steps = f"<{secret}>", 7.0, 0
        self.faults: list[Exception | None] = []
        self.obtained = asyncio.Event()
        self.refusal: Exception | None = None
        self.tls = f"files of {secret}"
        Keeper.made[secret] = self

    async def step(self) -> None:
        self.steps += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault

    async def obtain(self) -> None:
        await self.obtained.wait()
        if self.refusal is not None:
            raise self.refusal

    def with_files(self, folder: Path) -> Keeper:
        self.folder = folder
        return self


class Server:
    """A ConfigMap; `races`: another replica makes it at this moment."""

    def __init__(self, data: dict[str, str] | None = None, races: bool = False, fault: Exception | None = None) -> None:
        self.data, self.races, self.fault = data, races, fault
        self.writes: list[str] = []

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        assert (kind.plural, namespace, name) == ("configmaps", "kube-public", "trust")
        if self.fault is not None:
            raise self.fault
        if self.data is None:
            raise NotFound("configmaps trust")
        return SimpleNamespace(data=self.data)

    async def create(self, kind: Any, namespace: str, body: dict[str, Any]) -> None:
        if self.races:
            raise AlreadyExists("configmaps trust")
        assert body["metadata"] == {"name": "trust"}
        self.data = body["data"]
        self.writes.append("create")

    async def patch(self, kind: Any, namespace: str, name: str, body: dict[str, Any]) -> None:
        assert self.data is not None
        self.data = {**self.data, **body["data"]}
        self.writes.append("patch")


@pytest.fixture(autouse=True)
def keepers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Keeper]:
    Keeper.made = {}
    monkeypatch.setattr(parts, "CertificateKeeper", Keeper)
    return Keeper.made


def kept(server: Server, *services: str, bundle: bool = True) -> PartCertificates:
    return PartCertificates(cast(Any, server), "ns", services, ("kube-public", "trust") if bundle else None)


WANTED = "<a-tls><b-tls>"


def test_each_service_has_a_secret_and_the_names_by_which_it_is_called(keepers: dict[str, Keeper]) -> None:
    found = kept(Server(), "a")
    assert secret_name("a") == "a-tls"
    hosts = ("a", "a.ns", "a.ns.svc", "a.ns.svc.cluster.local", "localhost", "127.0.0.1")
    assert service_hosts("a", "ns") == hosts
    assert keepers["a-tls"].told == ("ns", "a-tls", hosts)
    assert found.expiries_s() == {"a": 7.0}


@pytest.mark.parametrize(
    ("before", "writes"),
    [
        (None, ["create"]),
        ({"ca.crt": WANTED}, []),
        ({"ca.crt": "old", "more": "stays"}, ["patch"]),
        ({}, ["patch"]),
    ],
)
def test_all_authorities_are_in_the_bundle_in_one_order(before: dict[str, str] | None, writes: list[str]) -> None:
    server = Server(before)
    found = kept(server, "b", "a")
    assert asyncio.run(found.step())
    assert server.writes == writes
    assert server.data is not None
    assert server.data == {**(before or {}), "ca.crt": WANTED}
    assert asyncio.run(found.step())
    assert server.writes == writes  # nothing differs any more


def test_another_replica_may_be_first_and_without_a_bundle_none_is_written() -> None:
    assert asyncio.run(kept(Server(races=True), "a").step())
    server = Server()
    assert asyncio.run(kept(server, "a", bundle=False).step())
    assert server.writes == []


def test_one_that_fails_does_not_hold_up_the_others_and_nothing_is_published_without_it(
    keepers: dict[str, Keeper],
) -> None:
    server = Server()
    found = kept(server, "a", "b")
    keepers["a-tls"].faults = [Transient("away")]
    assert not asyncio.run(found.step())
    assert (keepers["b-tls"].steps, server.writes) == (1, [])
    assert asyncio.run(found.step())
    assert server.writes == ["create"]
    assert not asyncio.run(kept(Server(fault=Transient("away")), "a").step())


def test_after_an_error_it_looks_again_sooner(keepers: dict[str, Keeper]) -> None:
    async def play() -> None:
        found = kept(Server(), "a")
        keeper = keepers["a-tls"]
        keeper.faults = [None, Transient("away")]
        running = asyncio.create_task(found.run())
        await asyncio.sleep(CHECK_S - 1)
        assert keeper.steps == 1
        await asyncio.sleep(2)
        assert keeper.steps == 2
        await asyncio.sleep(RETRY_S)
        assert keeper.steps == 3
        running.cancel()

    assert RETRY_S < CHECK_S
    run_virtually(play())


def test_a_part_waits_for_its_certificate_or_for_its_end(keepers: dict[str, Keeper], tmp_path: Path) -> None:
    async def play() -> None:
        found = kept(Server(), "a")
        keeper, stop = keepers["a-tls"], asyncio.Event()
        waiting = asyncio.create_task(found.obtain("a", tmp_path, stop))
        await asyncio.sleep(1.0)
        assert not waiting.done()
        keeper.obtained.set()
        assert cast(Any, await waiting) == "files of a-tls"
        assert keeper.folder == tmp_path
        keeper.refusal = InvalidInput("Secret", "a-tls", "one of ours")
        with pytest.raises(InvalidInput):
            await found.obtain("a", tmp_path, stop)
        keeper.obtained.clear()
        stop.set()
        assert await found.obtain("a", tmp_path, stop) is None

    run_virtually(play())
