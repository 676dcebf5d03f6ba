"""The UDP port of a Jaeger agent.

Clients of Jaeger send datagrams and never hear an answer, so nothing that goes wrong may end the port. Each datagram is
one request, which `export` takes in its own time; what cannot be read or taken is counted by its outcome.
Limits: no authentication and no encryption, which the protocol does not have; datagrams are lost where the process is
slower than they arrive.

Source: Jaeger 1.x, agent: compact Thrift over UDP, port 6831; datagrams of at most 65,000 bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput, Transient


class JaegerUdpServer:
    """Passes datagrams (batch.py reads them), each with the address that it came from, to `export`, which raises
    `InvalidInput` or `Transient`, at once where there is no room. `answered` gets each outcome: OK,
    INVALID_ARGUMENT or UNAVAILABLE.
    """

    def __init__(self, export: Callable[[bytes, str], Awaitable[None]], answered: Callable[[str], None]) -> None:
        self._export, self._answered = export, answered
        self._transport: asyncio.DatagramTransport | None = None
        self._taking: set[asyncio.Task[None]] = set()

    async def start(self, address: Address) -> Address:
        """Listen; returns where. Raises `InvalidInput` where the address cannot be used."""
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_datagram_endpoint(
                lambda: _Datagrams(self._received), (address.host, address.port)
            )
        except OSError as error:
            raise InvalidInput("--jaeger-udp", str(address), "an address that is free", str(error)[:120]) from None
        self._transport = transport
        return Address(address.host, transport.get_extra_info("sockname")[1])

    async def stop(self) -> None:
        """Close the port."""
        if self._transport is not None:
            self._transport.close()
        for task in self._taking:
            task.cancel()

    def _received(self, datagram: bytes, sender: str) -> None:
        task = asyncio.get_running_loop().create_task(self._take(datagram, sender))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def _take(self, datagram: bytes, sender: str) -> None:
        try:
            await self._export(datagram, sender)
        except InvalidInput:
            self._answered("INVALID_ARGUMENT")
        except Transient:
            self._answered("UNAVAILABLE")
        else:
            self._answered("OK")


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, str], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[object, ...]) -> None:
        """One datagram."""
        self._received(data, str(addr[0]))
