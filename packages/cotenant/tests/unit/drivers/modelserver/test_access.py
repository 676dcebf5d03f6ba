"""Model servers behind TLS: an authority and a name of their own, and a token that is read again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.fakes.servers.model_servers import page

from cotenant.drivers.http.certificates import Certificates, ensure
from cotenant.drivers.modelserver.access import ScrapeAccess
from cotenant.drivers.modelserver.client import ModelServerClient
from cotenant.model.errors import InvalidInput, Transient

BODY = page("vllm-0.11", {"timeToFirstToken": (0.03,)}).encode()
Use = Callable[[ModelServerClient, str, list[str]], Awaitable[None]]


def served(made: Certificates, use: Use) -> None:
    """A server with this certificate, and what it was sent as Authorization."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)

    async def run() -> None:
        shown: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = [line for line in head.splitlines() if line.lower().startswith("authorization:")]
            shown.append(lines[0].partition(": ")[2] if lines else "")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + BODY)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        client = ModelServerClient(20.0)
        try:
            await use(client, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics", shown)
        finally:
            await client.close()
            server.close()

    asyncio.run(run())


def test_an_authority_of_its_own_is_trusted_where_it_is_named(tmp_path: Path) -> None:
    made = ensure(tmp_path / "tls", ("127.0.0.1",), datetime.now(UTC))
    authority = tmp_path / "ca.crt"
    authority.write_bytes(made.authority_pem)

    async def use(client: ModelServerClient, url: str, shown: list[str]) -> None:
        with pytest.raises(Transient, match="certificate"):
            await client.read(url)
        assert (await client.read(url, ScrapeAccess(authority))).server == "vllm"
        assert shown == [""]

    served(made, use)


def test_a_name_in_the_certificate_that_is_not_the_address(tmp_path: Path) -> None:
    made = ensure(tmp_path / "tls", ("llm.shop.svc",), datetime.now(UTC))
    authority = tmp_path / "ca.crt"
    authority.write_bytes(made.authority_pem)
    access = ScrapeAccess(authority, server_name="llm.shop.svc")

    async def use(client: ModelServerClient, url: str, shown: list[str]) -> None:
        assert (await client.read(url, access)).server == "vllm"
        for wrong in (replace(access, server_name=""), replace(access, server_name="other.shop.svc")):
            with pytest.raises(Transient, match="certificate"):
                await client.read(url, wrong)

    served(made, use)


def test_a_token_is_sent_as_it_is_now(tmp_path: Path) -> None:
    made = ensure(tmp_path / "tls", ("127.0.0.1",), datetime.now(UTC))
    authority, token = tmp_path / "ca.crt", tmp_path / "token"
    authority.write_bytes(made.authority_pem)
    access = ScrapeAccess(authority, token)

    async def use(client: ModelServerClient, url: str, shown: list[str]) -> None:
        for text in ("one\n", "two"):
            token.write_text(text)
            await client.read(url, access)
        assert shown == ["Bearer one", "Bearer two"]
        for text in ("", "a b", "a\nX-Other: b"):
            token.write_text(text)
            with pytest.raises(InvalidInput, match="tokenFile"):
                await client.read(url, access)
        assert len(shown) == 2

    served(made, use)


@pytest.mark.parametrize(
    ("access", "field"),
    [(ScrapeAccess(Path("/nowhere/ca.crt")), "caFile"), (ScrapeAccess(token_file=Path("/nowhere/t")), "tokenFile")],
)
def test_a_file_that_is_not_there_is_named(access: ScrapeAccess, field: str) -> None:
    async def ask() -> None:
        client = ModelServerClient()
        try:
            await client.read("https://127.0.0.1:1/metrics", access)
        finally:
            await client.close()

    with pytest.raises(InvalidInput, match=f"{field}: /nowhere"):
        asyncio.run(ask())
