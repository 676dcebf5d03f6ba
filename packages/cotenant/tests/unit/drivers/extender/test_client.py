"""Calls over HTTP and HTTPS to a real server."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.fakes.servers.fake_extender import FakeExtender

from cotenant.drivers.extender.client import ExtenderClient
from cotenant.drivers.http.certificates import ensure
from cotenant.model.cluster.extender import Extender, ExtenderTls
from cotenant.model.errors import InvalidInput, Permanent, Transient

pytestmark = pytest.mark.slow


async def _answer(extender: Extender, body: bytes = b"{}") -> bytes:
    client = ExtenderClient(extender)
    try:
        return await client.call("filter", body)
    finally:
        await client.close()


def test_certificates_are_checked_as_configured(tmp_path: Path) -> None:
    made = ensure(tmp_path / "tls", ("127.0.0.1", "extender.test"), datetime.now(UTC))
    other = ensure(tmp_path / "other", ("127.0.0.1",), datetime.now(UTC))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(made.certificate, made.key)

    async def run() -> None:
        async with FakeExtender(tls=served, filter=lambda given: {"ok": True}) as server:
            trusted = Extender(server.url, tls=ExtenderTls(authorities=made.authority_pem))
            assert b"ok" in await _answer(trusted)
            named = replace(trusted, tls=ExtenderTls(authorities=made.authority_pem, server_name="extender.test"))
            assert b"ok" in await _answer(named)
            for wrong in (
                ExtenderTls(authorities=other.authority_pem),
                ExtenderTls(authorities=made.authority_pem, server_name="another.test"),
                ExtenderTls(),
            ):
                with pytest.raises(Transient, match="filter: "):
                    await _answer(replace(trusted, tls=wrong))
            assert b"ok" in await _answer(replace(trusted, tls=ExtenderTls(is_insecure=True)))

    asyncio.run(run())


def test_a_client_shows_its_certificate(tmp_path: Path) -> None:
    made = ensure(tmp_path / "tls", ("127.0.0.1",), datetime.now(UTC))
    certificate, key = _self_signed()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(made.certificate, made.key)
    served.verify_mode = ssl.CERT_REQUIRED
    served.load_verify_locations(cadata=certificate.decode())

    async def run() -> None:
        async with FakeExtender(tls=served, filter=lambda given: {"ok": True}) as server:
            nameless = ExtenderTls(authorities=made.authority_pem)
            with pytest.raises(Transient):
                await _answer(Extender(server.url, tls=nameless))
            shown = replace(nameless, certificate=certificate, key=key)
            assert b"ok" in await _answer(Extender(server.url, tls=shown))

    asyncio.run(run())


def _self_signed() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "scheduler")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private


@pytest.mark.parametrize("tls", [ExtenderTls(authorities=b"no PEM"), ExtenderTls(certificate=b"a", key=b"b")])
def test_certificates_that_are_none_are_refused(tls: ExtenderTls) -> None:
    with pytest.raises(InvalidInput, match="extender https://e: tlsConfig"):
        ExtenderClient(Extender("https://e", tls=tls))


def test_another_status_and_a_long_answer_are_refused() -> None:
    async def run() -> None:
        async with FakeExtender(filter=lambda given: b"x" * (3 << 20)) as server:
            with pytest.raises(Permanent, match="its answer is longer than"):
                await _answer(Extender(server.url))
            assert len(await _answer(Extender(server.url), b'"' + b"y" * (2 << 20) + b'"')) == 3 << 20
            server.status = 503
            with pytest.raises(Permanent, match="filter: status 503"):
                await _answer(Extender(server.url))

    asyncio.run(run())
