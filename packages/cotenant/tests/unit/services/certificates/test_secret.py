"""The Secret that keeps a Service's certificates, of which several replicas read and write, and the files beside it."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from cotenant.drivers.http.certificates import validity
from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, NotFound, Unavailable
from cotenant.drivers.kube.kinds.secret import SECRETS
from cotenant.model.errors import InvalidInput
from cotenant.services.certificates.keeper import CertificateKeeper
from cotenant.services.certificates.material import read_material

HOSTS = ("web.ns.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Server:
    """One Secret; `races`: as many writes as are lost to another replica; each bumps the version."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.data, self.version, self.races = data, 1, 0
        self.writes: list[str] = []
        self.read = 0

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        assert (kind, namespace, name) == (SECRETS, "ns", "web-tls")
        self.read += 1
        if self.data is None:
            raise NotFound("secrets web-tls")
        obj = {"metadata": {"name": name, "resourceVersion": str(self.version)}, "data": self.data}
        return msgspec.convert(obj, SECRETS.form)

    async def create(self, kind: Any, namespace: str, body: dict[str, Any]) -> None:
        assert (body["kind"], body["type"], body["metadata"]) == ("Secret", "Opaque", {"name": "web-tls"})
        if self.races:
            self.races -= 1
            raise AlreadyExists("secrets web-tls")
        self.data = body["data"]
        self.writes.append("create")

    async def patch(self, kind: Any, namespace: str, name: str, body: dict[str, Any]) -> None:
        if self.races:
            self.races -= 1
            raise Conflict("secrets web-tls")
        assert body["metadata"] == {"resourceVersion": str(self.version)}
        assert self.data is not None
        self.data = {**self.data, **body["data"]}
        self.version += 1
        self.writes.append("patch")

    def decoded(self) -> dict[str, str]:
        assert self.data is not None
        return {key: base64.b64decode(value).decode() for key, value in self.data.items()}


def keeper(server: Server, folder: Path | None = None, days: float = 0.0) -> CertificateKeeper:
    return CertificateKeeper(cast(Any, server), "ns", "web-tls", HOSTS, folder, lambda: START + timedelta(days=days))


def test_the_first_replica_makes_the_secret_and_the_others_read_it(tmp_path: Path) -> None:
    server, first = Server(), keeper(Server())
    first = keeper(server, tmp_path)
    assert (first.bundle, first.expires_s) == ("", 0.0)
    asyncio.run(first.step())
    kept = read_material(server.decoded())
    assert kept is not None
    assert (first.bundle, first.expires_s) == (kept.bundle, validity(kept.server.certificate).end.timestamp())
    assert (tmp_path / "tls.crt").read_text() == kept.server.certificate
    assert (tmp_path / "tls.key").read_text() == kept.server.key
    assert (first.tls.certificate, first.tls.key) == (tmp_path / "tls.crt", tmp_path / "tls.key")
    second = keeper(server)
    asyncio.run(second.step())
    assert (second.bundle, server.writes) == (kept.bundle, ["create"])


def test_files_are_written_once_and_again_after_a_renewal(tmp_path: Path) -> None:
    server, now = Server(), [START]
    found = CertificateKeeper(cast(Any, server), "ns", "web-tls", HOSTS, None, lambda: now[0]).with_files(tmp_path)
    asyncio.run(found.step())
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).write_text("as it was")
    asyncio.run(found.step())
    assert (tmp_path / "tls.crt").read_text() == "as it was"
    ended = found.expires_s
    now[0] += timedelta(days=80)
    asyncio.run(found.step())
    assert server.writes == ["create", "patch"]
    assert found.expires_s > ended
    assert (tmp_path / "tls.crt").read_text() == server.decoded()["tls.crt"]
    assert (tmp_path / "tls.key").read_text() == server.decoded()["tls.key"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_write_that_another_replica_was_before_is_tried_anew_to_a_limit(is_there: bool) -> None:
    server = Server()
    if is_there:
        asyncio.run(keeper(server).step())
        server.writes.clear()
    server.read, server.races = 0, 4
    asyncio.run(keeper(server, days=80).step())
    assert (server.read, len(server.writes)) == (5, 1)
    server.read, server.races = 0, 5
    with pytest.raises(Conflict, match="ns/web-tls keeps changing"):
        asyncio.run(keeper(server, days=160).step())
    assert server.read == 5


def test_a_certificate_of_another_issuer_is_left_alone() -> None:
    server = Server({"tls.crt": "eA==", "tls.key": "eA=="})
    with pytest.raises(InvalidInput, match="a certificate of another issuer"):
        asyncio.run(keeper(server).obtain())
    assert server.writes == []


def test_what_cannot_be_decoded_counts_as_absent_and_is_made_anew() -> None:
    server = Server()
    asyncio.run(keeper(server).step())
    assert server.data is not None
    for wrong in ("x", base64.b64encode(b"\xff").decode()):
        server.data["tls.key"] = wrong
        server.writes.clear()
        asyncio.run(keeper(server).step())
        assert server.writes == ["patch"]
        assert read_material(server.decoded()) is not None


def test_a_server_that_comes_back_ends_the_wait() -> None:
    class Away(Server):
        outage = type("Outage", (), {"lasts_s": 0})()

        async def get(self, kind: Any, namespace: str, name: str) -> Any:
            if self.read < 3:
                self.read += 1
                raise Unavailable("GET: refused")
            return await super().get(kind, namespace, name)

    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    server = Away()
    asyncio.run(CertificateKeeper(cast(Any, server), "ns", "web-tls", HOSTS, None, lambda: START, sleep).obtain())
    assert slept == [1.0, 2.0, 4.0]
    assert server.writes == ["create"]
