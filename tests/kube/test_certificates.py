"""Certificates of the parts: two replicas of the manager make and renew them in Secrets; servers and clients of
ours use them over real sockets.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.fakes.waiting import patience

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.limits import DEFAULTS
from cotenant.drivers.http.tls import tls_of
from cotenant.drivers.http.trust import TlsTrust
from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.policy.placement.profiles import profile
from cotenant.services.certificates.bundle import parse_bundle
from cotenant.services.certificates.keeper import CertificateKeeper
from cotenant.services.certificates.parts import PartCertificates, secret_name, service_hosts
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.reporting.sender import ReportSender
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options

pytestmark = pytest.mark.slow

MANAGER, SCHEDULER = "cotenant-manager", "cotenant-scheduler"
START = datetime.now(UTC) - timedelta(days=61)  # valid now, and due for a renewal


class Clock:
    """The time of certificates."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


def with_client(kube: Any, case: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        access = load_access(kube.kubeconfig)
        async with Client(
            access, qps=float("inf"), burst=10, in_flight=4, user_agent="cotenant-manager/certificates"
        ) as client:
            await case(client)

    asyncio.run(main())


def mounted(kube: Any, namespace: str, service: str, folder: Path) -> Path:
    """The Secret's values as files, as a kubelet mounts them."""
    data = kube.get(f"/api/v1/namespaces/{namespace}/secrets/{secret_name(service)}")["data"]
    folder.mkdir(exist_ok=True)
    for key, value in data.items():
        (folder / key).write_bytes(base64.b64decode(value))
    return folder


def test_replicas_make_one_set_and_servers_and_clients_use_it(kube: Any, namespace: str, tmp_path: Path) -> None:
    """The scheduler's own server, a report, and a wrong authority, before and after a renewal."""
    clock = Clock()

    async def case(client: Client) -> None:
        services = (MANAGER, SCHEDULER)
        one, two = (PartCertificates(client, namespace, services, (namespace, "cotenant-ca"), clock) for _ in range(2))
        assert all(await asyncio.gather(one.step(), two.step()))
        assert await one.step()
        assert one.expiries_s() == two.expiries_s()
        bundle = kube.get(f"/api/v1/namespaces/{namespace}/configmaps/cotenant-ca")["data"]["ca.crt"]
        assert bundle.count("BEGIN CERTIFICATE") == 2

        files, other = (
            mounted(kube, namespace, SCHEDULER, tmp_path / "s"),
            mounted(kube, namespace, MANAGER, tmp_path / "m"),
        )
        authorities = tmp_path / "bundle.crt"
        authorities.write_text(bundle)
        process = SchedulerProcess(
            Access("http://127.0.0.1:1", FixedCredential(Credential(""))),
            profile("least-allocated"),
            Options(
                listen=Address("127.0.0.1", 0),
                tls=tls_of(files / "tls.crt", files / "tls.key"),
                http=replace(DEFAULTS, certificate_check_s=0.02),
            ),
            "one",
            lambda client: Alone(),
        )
        await process.server.start()
        trust, wrong = TlsTrust(files / "ca.crt"), TlsTrust(other / "ca.crt")
        try:
            port = process.server.address.port
            assert process.server.url == f"https://127.0.0.1:{port}"
            first = await served(port, trust)
            with pytest.raises(ssl.SSLCertVerificationError):
                await served(port, wrong)
            with pytest.raises((aiohttp.ClientError, OSError)):
                await get(f"http://127.0.0.1:{port}/healthz", TlsTrust())
            async with ReportSender(ca_file=authorities) as sender:
                with pytest.raises(Permanent, match=r"40\d|422"):  # TLS is established, the report is not one
                    await sender.post(f"https://localhost:{port}/metrics/report", b"{}")
            async with ReportSender() as stranger:
                with pytest.raises(Transient, match="certificate"):
                    await stranger.post(f"https://localhost:{port}/metrics/report", b"{}")

            clock.now += timedelta(days=61)  # now; a third of 90 days is left
            assert all(await asyncio.gather(one.step(), two.step()))
            await two.step()
            assert one.expiries_s() == two.expiries_s()
            mounted(kube, namespace, SCHEDULER, files)

            async def renewed() -> bool:
                return await served(port, trust) != first

            async with asyncio.timeout(patience(30)):
                while not await renewed():
                    await asyncio.sleep(0.05)
        finally:
            await process.server.stop()
            await process.client.close()

    with_client(kube, case)


async def served(port: int, trust: TlsTrust) -> bytes:
    """The certificate that a new connection gets, after a page was read from it."""
    context = trust.context()
    assert isinstance(context, ssl.SSLContext)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 ")
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()


async def get(url: str, trust: TlsTrust) -> bytes:
    async with aiohttp.ClientSession() as session, session.get(url, ssl=trust.context()) as answer:
        return await answer.read()


def test_the_manager_gets_its_own_before_it_serves(kube: Any, namespace: str, tmp_path: Path) -> None:
    async def case(client: Client) -> None:
        stop = asyncio.Event()
        parts = PartCertificates(client, namespace, (MANAGER,))
        tls = await parts.obtain(MANAGER, tmp_path, stop)
        assert tls is not None
        assert isinstance(tls.context(), ssl.SSLContext)
        assert [path.stat().st_mode & 0o077 for path in (tls.key, tls.certificate)] == [0, 0]
        away = replace(client.access, server="https://127.0.0.1:1")
        async with Client(away, qps=float("inf"), burst=10, in_flight=4, user_agent="cotenant-manager") as unreachable:
            stop.set()
            assert await PartCertificates(unreachable, namespace, (MANAGER,)).obtain(MANAGER, tmp_path, stop) is None

    with_client(kube, case)


def test_a_secret_of_another_issuer_is_refused_and_the_others_are_kept(kube: Any, namespace: str) -> None:
    foreign = {"tls.crt": base64.b64encode(b"theirs").decode(), "tls.key": base64.b64encode(b"theirs").decode()}
    path = f"/api/v1/namespaces/{namespace}/secrets"
    kube.create(path, {"metadata": {"name": secret_name(SCHEDULER)}, "data": foreign})

    async def case(client: Client) -> None:
        parts = PartCertificates(client, namespace, (MANAGER, SCHEDULER))
        assert await parts.step() is False
        assert parts.expiries_s()[MANAGER] > 0 == parts.expiries_s()[SCHEDULER]
        keeper = CertificateKeeper(
            client, namespace, secret_name(SCHEDULER), service_hosts(SCHEDULER, namespace), None, Clock()
        )
        with pytest.raises(InvalidInput, match="another issuer"):
            await keeper.obtain()

    with_client(kube, case)
    assert kube.get(f"{path}/{secret_name(SCHEDULER)}")["data"] == foreign


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    assert tls_of(None, None) is None
    with pytest.raises(InvalidInput, match="both or neither"):
        tls_of(tmp_path / "a", None)
    with pytest.raises(InvalidInput, match="tls-cert"):
        tls_of(tmp_path / "a", tmp_path / "b")
    with pytest.raises(InvalidInput, match="PEM"):
        TlsTrust(tmp_path / "none").context()
    assert TlsTrust().context() is True
    assert parse_bundle("", "--authorities-in") is None
    assert parse_bundle("a/b", "--authorities-in") == ("a", "b")
    for wrong in ("a", "a/", "/b", "a/b/c"):
        with pytest.raises(InvalidInput, match="NAMESPACE/NAME"):
            parse_bundle(wrong, "--authorities-in")
