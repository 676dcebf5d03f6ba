"""Addresses as they are written, and the sockets bound to them."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest

from cotenant.drivers.http.address import Address, AddressUnusable, bind
from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope, Send, send_answer
from cotenant.drivers.http.server import HttpServer
from cotenant.model.errors import InvalidInput


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, HttpAnswer(200, b"hello"))


def test_written_forms() -> None:
    assert Address.parse("f", ":1") == Address("0.0.0.0", 1)
    assert str(Address.parse("f", "[::1]:2")) == "[::1]:2"
    assert Address.parse("f", "unix:/run/a.sock") == Address("", 0, "/run/a.sock")


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "a:65536", "a:-1", "a:100000", "unix:a.sock"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Address.parse("--listen", text)
    assert caught.value.field == "--listen"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert Address(host, 1).is_loopback is loopback


@pytest.mark.parametrize("host", ["127.\u00fc..1", "a" * 70])
def test_what_is_no_address_is_one_line(host: str) -> None:
    with pytest.raises(AddressUnusable, match="listen address") as caught:
        bind(Address(host, 0))
    assert caught.value.is_foreign


def test_a_port_in_use_is_one_line_that_names_the_option() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AddressUnusable) as caught:
            bind(Address("127.0.0.1", taken.getsockname()[1], field="--listen"))
    assert str(caught.value).startswith("--listen: 127.0.0.1:")
    assert "Address already in use" in str(caught.value)
    assert not caught.value.is_foreign


def test_an_address_of_another_machine() -> None:
    with pytest.raises(AddressUnusable, match="an address of this machine") as caught:
        bind(Address("192.0.2.1", 0))
    assert caught.value.is_foreign


def ask_unix(path: Path) -> bytes:
    async def live() -> bytes:
        server = HttpServer(hello, Address.parse("listen", f"unix:{path}"))
        stop = asyncio.Event()
        running = asyncio.create_task(server.run(stop))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = await reader.readuntil(b"hello")
        writer.close()
        stop.set()
        await running
        return answer

    return asyncio.run(live())


def test_a_unix_socket_is_its_users_own_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    before = os.umask(0)
    os.umask(before)
    assert ask_unix(path).startswith(b"HTTP/1.1 200")
    assert not path.exists()
    assert os.umask(before) == before


def test_a_socket_that_was_left_behind_is_taken_over_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    assert ask_unix(path).endswith(b"hello")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as living:
        living.bind(str(path))
        living.listen()
        with pytest.raises(InvalidInput, match="a free address"):
            HttpServer(hello, Address.parse("listen", f"unix:{path}"))
    path.unlink()
    path.write_text("a file of somebody's")
    with pytest.raises(InvalidInput, match="a free address"):
        HttpServer(hello, Address.parse("listen", f"unix:{path}"))
    assert path.read_text() == "a file of somebody's"
