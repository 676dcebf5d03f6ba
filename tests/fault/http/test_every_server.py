"""The same abuse against every server: the API server, the scheduler, the extender and the agent."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.servers.http_servers import SERVERS, Raw, head, serving
from tests.fakes.waiting import crowding, patience

from cotenant.cli.main import main
from cotenant.drivers.http.address import Address
from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.limits import DEFAULTS, ServerLimits
from cotenant.drivers.http.tls import Tls

EVERY = pytest.mark.parametrize("name", SERVERS)

JSON = "Content-Type: application/json"
BRIEF = replace(
    DEFAULTS,
    head_within_s=0.2,
    body_within_s=0.2,
    idle_s=0.2,
    handshake_within_s=0.2,
    linger_s=0.5,
    tls_close_within_s=0.2,
)


def begun(nothing: bytes, part: bytes) -> pytest.MarkDecorator:
    """What is sent before a request is whole is read by what all servers share: `part` is sent to one of them."""
    return pytest.mark.parametrize(("name", "part"), [*((name, nothing) for name in SERVERS), ("apiserver", part)])


def against(
    name: str, case: Callable[[Address], Awaitable[None]], limits: ServerLimits = DEFAULTS, tls: Tls | None = None
) -> None:
    async def main() -> None:
        async with serving(name, limits, tls) as address:
            await case(address)
            if tls is None:
                await still_answers(name, address)

    asyncio.run(asyncio.wait_for(main(), patience(60)))


async def still_answers(name: str, address: Address) -> None:
    """The server has survived. Where limits are brief and the machine stands still for one, 408 is an answer too."""
    client = await Raw.open(address)
    client.send(head("GET", SERVERS[name].open_page))
    status, _ = await client.answer()
    assert status in (200, 503, 408)
    client.close()


@EVERY
def test_a_head_of_16_mib_is_refused_long_before_its_end(name: str) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        answer = asyncio.create_task(client.rest())
        sent = 0
        try:
            while sent < 16 << 20 and not client.answered:
                client.send(b"x-%d: %s\r\n" % (sent, b"y" * 8000))
                sent += 8000
                await client.writer.drain()
        except ConnectionError:
            pass
        told = await answer
        assert told.startswith(b"HTTP/1.1 431 ")
        assert sent < 8 << 20
        client.close()

    against(name, case)


@EVERY
def test_a_complete_head_above_the_limit_is_refused_however_it_is_read(name: str) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(head("GET", SERVERS[name].open_page, *[f"x-{i}: {'y' * 1000}" for i in range(100)]))
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
        client.close()

    against(name, case)


@begun(b"G", b"GET /healthz HTTP/1.1\r\nHost: x\r\nx-a: b")
def test_a_half_sent_head_is_not_kept(name: str, part: bytes) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(part)
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        client.close()

    against(name, case, BRIEF)


@EVERY
def test_a_head_that_arrives_byte_by_byte_is_not_kept(name: str) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        answer = asyncio.create_task(client.rest())
        while not answer.done():
            client.send(b"\r\n")  # empty lines before a request are skipped by the parser
            await asyncio.wait({answer}, timeout=0.05)
        assert b"200 OK" not in await answer
        client.close()

    against(name, case, BRIEF)


@EVERY
@pytest.mark.parametrize("part", [b"", b'{"a"'])
def test_a_half_sent_body_is_not_kept(name: str, part: bytes) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(head("POST", SERVERS[name].body_page, JSON, "Content-Length: 100") + part)
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        client.close()

    against(name, case, BRIEF)


@EVERY
def test_a_half_sent_body_that_no_page_reads_is_not_kept(name: str) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(head("GET", SERVERS[name].open_page, "Content-Length: 100") + b"a")
        told = await client.rest()
        assert told.split(b" ", 2)[1] in (b"200", b"503")
        client.close()

    against(name, case, BRIEF)


@EVERY
@pytest.mark.parametrize("declared", [True, False])
def test_a_body_above_the_limit_is_refused(name: str, declared: bool) -> None:
    async def case(address: Address) -> None:
        facts = SERVERS[name]
        client = await Raw.open(address)
        size = facts.body_bytes + 1
        how = f"Content-Length: {size}" if declared else "Transfer-Encoding: chunked"
        client.send(head("POST", facts.body_page, JSON, how))
        if not declared:
            client.send(b"%x\r\n%s\r\n" % (size, b" " * size))
        assert (await client.rest()).startswith(b"HTTP/1.1 413 ")
        client.close()

    against(name, case)


@EVERY
def test_an_idle_connection_is_closed_and_a_busy_one_is_not(name: str) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        for _ in range(3):
            client.send(head("GET", SERVERS[name].open_page))
            await client.answer()
        assert await client.rest() == b""
        client.close()

    # Between an answer and the next request a connection is idle too, for as long as this process has no CPU.
    against(name, case, replace(BRIEF, idle_s=BRIEF.idle_s * crowding()))


@EVERY
def test_what_is_no_http_is_refused(name: str) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")
        client.close()

    against(name, case)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    made = ensure(tmp_path_factory.mktemp("tls"), ("127.0.0.1",), datetime.datetime.now(datetime.UTC))
    return Tls(made.certificate, made.key)


@pytest.mark.slow
@begun(b"", b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
def test_a_tls_handshake_that_is_not_completed_is_not_kept(name: str, part: bytes, tls: Tls) -> None:
    async def case(address: Address) -> None:
        client = await Raw.open(address)
        client.send(part)
        assert await client.rest() == b""
        client.close()
        trusting = ssl.create_default_context(cafile=str(tls.certificate.parent / "ca.crt"))
        other = await Raw.open(address, trusting)
        other.send(head("GET", SERVERS[name].open_page))
        assert (await other.answer())[0] in (200, 503)
        other.close()

    against(name, case, replace(BRIEF, head_within_s=10.0, idle_s=10.0, handshake_within_s=0.5), tls)


@EVERY
def test_limits_are_kept_over_tls_too(name: str, tls: Tls) -> None:
    async def case(address: Address) -> None:
        trusting = ssl.create_default_context(cafile=str(tls.certificate.parent / "ca.crt"))
        client = await Raw.open(address, trusting)
        client.send(head("GET", SERVERS[name].open_page, *[f"x-{i}: {'y' * 1000}" for i in range(300)]))
        assert (await client.rest()).startswith(b"HTTP/1.1 431 ")
        client.close()

    against(name, case, replace(DEFAULTS, linger_s=0.1), tls)


@pytest.mark.slow
def test_a_watch_outlives_every_limit() -> None:
    async def case(address: Address) -> None:
        watching = await Raw.open(address)
        watching.send(head("GET", "/api/v1/namespaces?watch=true"))
        for _ in range(3):  # three times the longest of the limits passes
            idle = await Raw.open(address)
            idle.send(head("GET", "/healthz"))
            await idle.answer()
            assert await idle.rest() == b""
            idle.close()
        other = await Raw.open(address)
        body = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"seen-late"}}'
        other.send(head("POST", "/api/v1/namespaces", JSON, f"Content-Length: {len(body)}") + body)
        assert (await other.answer())[0] == 201
        other.close()
        async with asyncio.timeout(patience(20)):
            assert b"200 OK" in await watching.reader.readuntil(b"\r\n")
            await watching.reader.readuntil(b'"name":"seen-late"')
        watching.close()

    against("apiserver", case, BRIEF)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that another process uses."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


# by the option that the error has to name
LISTENERS = {
    "apiserver": ("--port", "up --bare --dir {folder}/up --port {port}"),
    "scheduler": ("--listen", "scheduler --kubeconfig {kubeconfig} --listen {address}"),
    "extender": ("--listen", "extender --listen {address}"),
    "manager": ("--listen", "manager --kubeconfig {kubeconfig} --listen {address}"),
    "rebalancer": ("--listen", "rebalancer run --kubeconfig {kubeconfig} --listen {address}"),
    "credit": ("--listen", "credit serve --kubeconfig {kubeconfig} --store {folder}/credit.db --listen {address}"),
    "agent": ("listen", "agent --config {folder}/agent.yaml"),
    "traces": ("--http", "traces --http {address}"),
    "traces, gRPC": ("--grpc", "traces --http 127.0.0.1:0 --grpc {address}"),
    "console": ("--listen", "console --kubeconfig {kubeconfig} --listen {address}"),
    "webhook": ("--listen", "webhook --kubeconfig {kubeconfig} --listen {address}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTENERS)
def test_a_port_in_use_is_one_line_that_names_the_option_and_status_2(
    name: str, taken: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: "
        "c}}], "
        "current-context: c}"
    )
    address = f"127.0.0.1:{taken}"
    (tmp_path / "agent.yaml").write_text(f"listen: {address}\n")
    option, words = LISTENERS[name]
    command = words.format(folder=tmp_path, kubeconfig=kubeconfig, port=taken, address=address).split()
    status = main(command)
    said = capfd.readouterr()
    assert status == 2, said.err
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"cotenant: {option}: ")
    assert str(taken) in said.err
    assert "Address already in use" in said.err
