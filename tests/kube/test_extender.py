"""The extender as kube-scheduler calls it: over HTTP in the documented wire format, with and without certificates."""

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.fakes.servers.extender_forms import by_name, by_object, node, written
from tests.fakes.servers.ports import free_port
from tests.fakes.waiting import eventually, patience

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.trust import trusting
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.extender_arguments import ExtenderSettings
from cotenant.services.extender.extender_process import LIMITS, serve

JSON = {"Content-Type": "application/json"}
SECRET = "a-secret-for-agents"


@contextmanager
def running(settings: ExtenderSettings, limits: ServerLimits = LIMITS) -> Iterator[int]:
    """Run the service in a thread with its own event loop. Yields its port."""
    started = threading.Event()
    found: list[int] = []
    loop = asyncio.new_event_loop()
    stop: list[asyncio.Event] = []

    async def live() -> None:
        stop.append(asyncio.Event())

        def listening(address: Address) -> None:
            found.append(address.port)
            started.set()

        await serve(settings, stop[0], listening, limits)

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()))
    thread.start()
    try:
        assert started.wait(patience(20))
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop[0].set)
        thread.join(patience(20))
        assert not thread.is_alive()
        loop.close()


def told(name: str, cpu_used: float) -> bytes:
    return written(
        {
            "node_name": name,
            "cpu_allocatable": 8,
            "cpu_used": cpu_used,
            "memory_allocatable": 32 * 2**30,
            "memory_used": 2**30,
            "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
    )


@pytest.fixture(scope="module")
def plain() -> Iterator[int]:
    with running(ExtenderSettings(listen="127.0.0.1:0")) as port:
        yield port


def connected(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=patience(20))


def post(connection: http.client.HTTPConnection, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    connection.request("POST", path, body, {**JSON, **headers})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_a_cycle_over_one_connection(plain: int) -> None:
    connection = connected(plain)
    connection.connect()
    first = connection.sock
    assert post(connection, "/metrics/report", told("busy", 7.5))[0] == 204
    assert post(connection, "/metrics/report", told("idle", 0.5))[0] == 204
    status, body = post(connection, "/filter", by_name(["busy", "idle", "new"]))
    answer = json.loads(body)
    assert (status, answer["NodeNames"], list(answer["FailedNodes"])) == (200, ["idle", "new"], ["busy"])
    status, body = post(connection, "/prioritize", by_name(answer["NodeNames"]))
    scores = {load["Host"]: load["Score"] for load in json.loads(body)}
    assert scores["idle"] > scores["new"]
    # A malformed request gets an error response, and the connection stays open.
    assert json.loads(post(connection, "/filter", b"{")[1])["Error"]
    assert post(connection, "/filter", by_object([node("idle")]))[0] == 200
    assert connection.sock is first
    connection.close()


def test_a_large_body_with_full_nodes(plain: int) -> None:
    connection = connected(plain)
    nodes = [node(f"n{i}") | {"padding": "x" * 2000} for i in range(1000)]
    status, body = post(connection, "/filter", by_object(nodes))
    assert status == 200
    assert json.loads(body)["Nodes"]["items"] == nodes
    connection.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ],
)
def test_malformed_input_affects_only_its_connection(sent: bytes, plain: int) -> None:
    with socket.create_connection(("127.0.0.1", plain), timeout=patience(20)) as stranger:
        stranger.sendall(sent)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):
            pass
    connection = connected(plain)
    assert post(connection, "/filter", by_name(["a"]))[0] == 200
    connection.close()


def test_a_request_head_timeout() -> None:
    limits = replace(LIMITS, head_within_s=0.05)
    with (
        running(ExtenderSettings(listen="127.0.0.1:0"), limits) as port,
        socket.create_connection(("127.0.0.1", port), timeout=patience(20)) as slow,
    ):
        slow.sendall(b"POST /filter HTTP/1.1\r\nHo")
        assert slow.recv(12) == b"HTTP/1.1 408"


def test_chunked_bodies(plain: int) -> None:
    connection = connected(plain)
    body = by_name(["a"])
    connection.request("POST", "/filter", iter([body[:40], body[40:]]), JSON, encode_chunked=True)
    assert json.loads(connection.getresponse().read())["NodeNames"] == ["a"]
    connection.close()


class Authority:
    """A certificate authority for one test."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(
            self._sign(self.name, self.key.public_key(), True).public_bytes(serialization.Encoding.PEM)
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate, secret = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(self._sign(subject, key.public_key(), False).public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, secret

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, is_ca: bool) -> x509.Certificate:
        from ipaddress import ip_address

        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(self.key, hashes.SHA256())
        )


def test_client_certificates(tmp_path: Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    certificate, key = ours.issue("extender")
    token = tmp_path / "token"
    token.write_text(SECRET)
    settings = ExtenderSettings(
        listen="127.0.0.1:0", tls_cert=certificate, tls_key=key, client_ca=ours.file, report_token_file=token
    )

    def client(certificate: tuple[Path, Path] | None) -> ssl.SSLContext:
        context = trusting(ours.file)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context

    with running(settings) as port:

        def filters(context: ssl.SSLContext) -> int:
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=patience(20), context=context)
            try:
                return post(connection, "/filter", by_name(["a"]))[0]
            finally:
                connection.close()

        assert filters(client(ours.issue("kube-scheduler"))) == 200
        for stranger in (None, others.issue("stranger")):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
                filters(client(stranger))
        # The certificate authenticates the connection; the token authorizes reports.
        agent = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=patience(20), context=client(ours.issue("agent"))
        )
        assert post(agent, "/metrics/report", told("a", 1))[0] == 401
        assert post(agent, "/metrics/report", told("a", 1), Authorization=f"Bearer {SECRET}")[0] == 204
        agent.close()


def test_a_renewed_certificate_is_used(tmp_path: Path) -> None:
    limits = replace(LIMITS, certificate_check_s=0.02)
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    certificate, key = old.issue("extender")
    with running(ExtenderSettings(listen="127.0.0.1:0", tls_cert=certificate, tls_key=key), limits) as port:

        def trusts(authority: Authority) -> bool:
            context = trusting(authority.file)
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=patience(20), context=context)
            try:
                return post(connection, "/filter", by_name(["a"]))[0] == 200
            except ssl.SSLCertVerificationError:
                return False
            finally:
                connection.close()

        assert trusts(old)
        assert not trusts(new)
        new.issue("extender")  # written to the same files
        eventually("the new authority is trusted", lambda: trusts(new))


def test_the_health_listener_is_plain_http_and_serves_only_health(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("extender")
    free = free_port()
    settings = ExtenderSettings(
        listen="127.0.0.1:0",
        tls_cert=certificate,
        tls_key=key,
        client_ca=authority.file,
        health_listen=f"127.0.0.1:{free}",
    )
    with running(settings):
        connection = connected(free)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        assert post(connection, "/filter", by_name(["a"]))[0] == 404
        assert post(connection, "/metrics/report", b"{}")[0] == 404  # it would be accepted from anyone
        connection.close()


def test_the_health_listener_takes_reports_with_a_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.issue("extender")
    token = tmp_path / "token"
    token.write_text("a-token-of-the-tests")
    free = free_port()
    settings = ExtenderSettings(
        listen="127.0.0.1:0",
        tls_cert=certificate,
        tls_key=key,
        client_ca=authority.file,
        health_listen=f"127.0.0.1:{free}",
        report_token_file=token,
    )
    with running(settings):
        connection = connected(free)
        assert post(connection, "/metrics/report", b"{}")[0] == 401
        assert post(connection, "/filter", by_name(["a"]))[0] == 404
        connection.close()


def test_a_port_in_use_is_refused(plain: int) -> None:
    async def again() -> None:
        await serve(ExtenderSettings(listen=f"127.0.0.1:{plain}"), asyncio.Event(), lambda address: None)

    with pytest.raises(InvalidInput, match=r"--listen: .*Address already in use"):
        asyncio.run(again())
